"""Window definitions: which windows a timestamp belongs to."""

from __future__ import annotations

import dataclasses
from typing import Literal

from millstream.errors import InvalidStep

WindowKind = Literal["tumbling", "sliding", "session"]
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """A window in milliseconds. Windows align to 1970 plus `offset`, never to the start of the job."""

    kind: WindowKind
    size: int = 0
    slide: int = 0
    offset: int = 0
    gap: int = 0

    def __post_init__(self) -> None:
        if self.kind == "session":
            _require(self.gap > 0, "session windows need a gap above zero", f"gap={self.gap}")
            return
        _require(self.size > 0, "windows need a size above zero", f"size={self.size}")
        _require(self.slide > 0, "windows need a slide above zero", f"slide={self.slide}")
        _require(
            self.slide <= self.size, "the slide is longer than the window; rows would be lost", f"slide={self.slide}"
        )
        _require(
            self.size % self.slide == 0,
            "the window size must be a multiple of its slide",
            f"size={self.size}, slide={self.slide}",
        )

    def bin_start(self, timestamp: int) -> int:
        """Start of the slide-long bin that holds a timestamp."""
        return (timestamp - self.offset) // self.slide * self.slide + self.offset

    def describe(self) -> str:
        """The window in a few words."""
        if self.kind == "session":
            return f"session(gap {duration_text(self.gap)})"
        offset = f", offset {duration_text(self.offset)}" if self.offset else ""
        if self.kind == "tumbling":
            return f"tumbling({duration_text(self.size)}{offset})"
        return f"sliding({duration_text(self.size)}, every {duration_text(self.slide)}{offset})"


def duration_text(ms: int) -> str:
    """Milliseconds as the text a user writes: `1m 30s`."""
    parts, rest = [], abs(ms)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if ms < 0 else "") + (" ".join(parts) or "0s")


def _require(holds: bool, message: str, found: str) -> None:  # noqa: FBT001
    if not holds:
        raise InvalidStep(message, code="STEP-011", found=found, hint="correct the window")
