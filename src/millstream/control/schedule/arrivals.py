"""Files that arrive: which of those in a folder are new, and no longer grow."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from millstream.errors import InvalidStep

MOST_FILES = 10_000
"""A folder with more matching files than this is not watched: it must be cleared, or the pattern narrowed."""
MOST_ARRIVALS = 100
"""So many arrivals are taken at one look; the others at the next ones."""

Listing = Mapping[str, tuple[int, int]]
"""Size and time of change (ns) of every matching file."""


class Arrival(NamedTuple):
    """A file that arrived, or changed, and did not grow between two looks."""

    path: str
    size: int
    changed: int

    @property
    def cause(self) -> str:
        """The same for the same content of the same file only."""
        text = f"{self.path}\0{self.size}\0{self.changed}"
        return f"event:{hashlib.sha256(text.encode(errors='surrogateescape')).hexdigest()[:32]}"


@dataclasses.dataclass(slots=True)
class Watched:
    """What is known of a folder: files that were seen, and those that may still grow."""

    seen: dict[str, list[int]] | None = None
    growing: dict[str, list[int]] = dataclasses.field(default_factory=dict)


def look(watched: Watched, listing: Listing) -> list[Arrival]:
    """Compare a folder with what it was at the look before; the first look takes what is there as known.

    A file that went away is forgotten: when it comes again, it arrives again.
    """
    now = {path: list(found) for path, found in listing.items()}
    if watched.seen is None:
        watched.seen = now
        return []
    watched.seen = {path: found for path, found in watched.seen.items() if path in now}
    new = {path: found for path, found in now.items() if watched.seen.get(path) != found}
    settled = sorted(path for path, found in new.items() if watched.growing.get(path) == found)[:MOST_ARRIVALS]
    watched.seen |= {path: new[path] for path in settled}
    watched.growing = {path: found for path, found in new.items() if path not in settled}
    return [Arrival(path, *new[path]) for path in settled]


def check_roots(pattern: str, roots: Sequence[Path]) -> None:
    """Refuse a pattern that leads out of the folders that may be watched.

    Raises:
        InvalidStep: (CTL-207) it names the folders.
    """
    fixed = Path(pattern[: min(pattern.find(mark) % (len(pattern) + 1) for mark in "*?[")])
    if not any(fixed.is_relative_to(root) for root in roots):
        msg = "schedule: event.file lies outside the folders that this service watches"
        known = [str(root) for root in roots] or "no folder: the service was started without one"
        hint = "choose a path below one of them, or start the service with this folder"
        raise InvalidStep(msg, code="CTL-207", found=repr(pattern), known=known, hint=hint)


def listed(pattern: str, roots: Sequence[Path]) -> Listing:
    """Files that match, below the folders that may be watched: links that lead out of these are left aside.

    Raises:
        InvalidStep: (CTL-208) there are too many.
    """
    found: dict[str, tuple[int, int]] = {}
    for path in Path("/").glob(pattern.lstrip("/")):
        # What vanishes while one looks was not there.
        with contextlib.suppress(OSError):
            facts = path.stat()
            if stat.S_ISREG(facts.st_mode) and any(path.resolve().is_relative_to(root.resolve()) for root in roots):
                found[str(path)] = (facts.st_size, facts.st_mtime_ns)
        if len(found) > MOST_FILES:
            msg = "schedule: event.file matches too many files to be watched"
            hint = "move files away when they are done with, or narrow the pattern"
            raise InvalidStep(msg, code="CTL-208", found=repr(pattern), known=f"at most {MOST_FILES}", hint=hint)
    return found
