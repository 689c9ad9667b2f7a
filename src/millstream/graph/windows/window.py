"""Window definitions: which rows of a key belong together."""

from __future__ import annotations

import dataclasses
import zoneinfo
from collections.abc import Sequence
from typing import Any, Literal

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.model.ids import StepId
from millstream.model.schema import Field

WindowKind = Literal["tumbling", "sliding", "cumulative", "session", "count", "global"]
WindowTime = Literal["event", "processing"]
DAY = 86_400_000
WINDOW_FIELDS = (
    Field("window_start", pa.timestamp("us", tz="UTC"), nullable=False),
    Field("window_end", pa.timestamp("us", tz="UTC"), nullable=False),
)
"""The columns that say which window a row came from."""
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowSpec:
    """A window in milliseconds, or in rows. Windows align to 1970 plus `offset`, never to the start of the job."""

    kind: WindowKind
    size: int = 0
    slide: int = 0
    """How far one window lies behind the one before; cumulative windows become that much longer."""
    offset: int = 0
    gap: int = 0
    time: WindowTime = "event"
    """Which time a row belongs to: its own, or the clock of its epoch."""
    time_zone: str | None = None
    """Windows of days begin at the local midnight of this zone."""
    rows: int = 0
    """Count windows: how many rows belong together."""
    every_rows: int = 0
    """Count windows: after how many rows one is complete."""

    def __post_init__(self) -> None:
        if self.time not in {"event", "processing"}:
            msg = "a window goes by event time or by processing time"
            raise InvalidStep(
                msg, code="STEP-120", found=repr(self.time), known="event, processing", hint="correct time="
            )
        if self.kind == "count":
            _check_rows(self.rows, "size")
            _check_rows(self.every_rows, "slide")
        elif self.kind != "global":
            self._check_times()

    def _check_times(self) -> None:
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
        if self.time_zone is not None:
            self._check_zone(self.time_zone)

    def _check_zone(self, zone: str) -> None:
        if self.kind == "cumulative":
            msg = "cumulative windows have no time zone"
            raise InvalidStep(msg, code="STEP-121", found=repr(zone), hint="remove time_zone=, or give offset=")
        if self.size % DAY or self.slide % DAY:
            msg = "only windows of whole days have a time zone"
            lengths = f"size={duration_text(self.size)}, slide={duration_text(self.slide)}"
            raise InvalidStep(
                msg, code="STEP-121", found=lengths, hint="use days, as in '1d' or '7d', or remove time_zone="
            )
        try:
            zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, TypeError, OSError):
            msg = "unknown time zone"
            raise InvalidStep(msg, code="STEP-121", found=repr(zone), hint="name it as in 'Europe/Berlin'") from None

    @property
    def has_bounds(self) -> bool:
        """Whether the window has a start and an end in time."""
        return self.kind not in {"count", "global"}

    @property
    def is_event_timed(self) -> bool:
        """Whether the event time of a row decides its windows."""
        return self.has_bounds and self.time == "event"

    @property
    def stored(self) -> dict[str, Any]:
        """What state depends on; options that state knew nothing of when it was written are left out."""
        given = dataclasses.asdict(self)
        return {name: value for name, value in given.items() if name in _ALWAYS or value != _DEFAULTS[name]}

    def describe(self) -> str:
        """The window in a few words."""
        if self.kind == "global":
            return "global"
        if self.kind == "count":
            every = "" if self.every_rows == self.rows else f", every {self.every_rows}"
            return f"count({self.rows} rows{every})"
        clock = ", processing time" if self.time == "processing" else ""
        if self.kind == "session":
            return f"session(gap {duration_text(self.gap)}{clock})"
        offset = f", offset {duration_text(self.offset)}" if self.offset else ""
        ending = offset + (f", {self.time_zone}" if self.time_zone else "") + clock
        if self.kind == "tumbling":
            return f"tumbling({duration_text(self.size)}{ending})"
        return f"{self.kind}({duration_text(self.size)}, every {duration_text(self.slide)}{ending})"

    def describe_with(self, lateness: int) -> str:
        """The window, and how late rows may be if they can be late at all."""
        late = f", allowed lateness {duration_text(lateness)}" if self.is_event_timed else ""
        return self.describe() + late


_ALWAYS = frozenset({"kind", "size", "slide", "offset", "gap"})
_DEFAULTS = {field.name: field.default for field in dataclasses.fields(WindowSpec)}


def duration_text(ms: int) -> str:
    """Milliseconds as the text a user writes: `1m 30s`."""
    parts, rest = [], abs(ms)
    for unit, size in _UNITS:
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
    return ("-" if ms < 0 else "") + (" ".join(parts) or "0s")


def _require(holds: bool, message: str, given: str) -> None:  # noqa: FBT001
    if not holds:
        raise InvalidStep(message, code="STEP-011", found=given, hint="correct the window")


def _check_rows(rows: int, what: str) -> None:
    if type(rows) is not int or rows < 1:
        msg = f"the {what} of a count window is not a whole number of rows above zero"
        raise InvalidStep(msg, code="STEP-122", found=repr(rows), hint="count rows, as in ms.count_window(100)")


def refuse_untimed(step: str, times: Sequence[Sequence[StepId]]) -> None:
    """Refuse rows of which none has event time, where windows need it."""
    if not any(times):
        msg = "windows need event time"
        raise InvalidStep(
            msg, code="STEP-040", step=step, hint="call .event_time('column') on the stream before key_by"
        )
