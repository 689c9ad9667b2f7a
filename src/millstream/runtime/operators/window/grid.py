"""Where windows begin and end: every so many milliseconds, or every so many days of a time zone.

A bin is the time between two starts, or two ends. A window is a run of bins, `span` of them or, where windows are cumulative,
up to `span`; its bins are called by their starts.
"""

from __future__ import annotations

import datetime as dt
import functools
import zoneinfo
from collections.abc import Iterator
from typing import Protocol

import numpy as np
import numpy.typing as npt

from millstream.graph.windows.window import DAY, WindowSpec
from millstream.model.time import MIN_TIME

Times = npt.NDArray[np.int64]
_EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - local time, whatever the zone
_FIRST, _LAST = -700_000 * DAY, 2_900_000 * DAY
"""What a datetime can hold, with room on both sides."""
_SHIFTING_YEARS = range(1800, 2101)
"""When zones may have changed to the other side of the date line; the rules that hold for all years behind know no such thing."""
_DATE_LINE = 20 * 3_600_000
"""A zone that gets ahead of UTC by more than this within a year has crossed the date line."""


class Grid(Protocol):
    """The starts of bins, for one time or for many."""

    span: int
    """How many bins make a window, the longest one if they differ."""

    def start_of(self, time: int) -> int:
        """The start of the bin that holds an instant."""
        ...

    def later(self, start: int, bins: int) -> int:
        """The start that lies so many bins behind another one."""
        ...

    def starts_of(self, times: Times) -> Times:
        """The start of each time's bin."""
        ...

    def all_later(self, starts: Times, bins: int) -> Times:
        """The starts that lie so many bins behind others."""
        ...

    def number(self, time: int) -> int:
        """Which bin holds an instant, counted without gaps."""
        ...

    def numbers(self, starts: Times) -> Times:
        """The numbers of bins, by their starts."""
        ...

    def numbered(self, numbers: Times) -> Times:
        """The starts of bins, by their numbers."""
        ...

    def next_ends(self, starts: Times, watermark: int) -> Times:
        """For each bin, the last instant of the first of its windows that the watermark has not passed, else of its last."""
        ...

    def last_ends(self, starts: Times) -> Times:
        """The end of the last window of each bin."""
        ...

    def windows_at(self, time: int) -> list[tuple[int, int]]:
        """Start and end of the windows that an instant belongs to, the one that ends first in front."""
        ...

    def windows_of(self, times: Times) -> Iterator[tuple[Times, Times]]:
        """The same for many: start and end of one window of each time, then of the next; without one it ends before all time."""
        ...


class FixedGrid:
    """Bins of equal length."""

    def __init__(self, window: WindowSpec) -> None:
        self._slide, self._offset, self.span = window.slide, window.offset, window.size // window.slide

    def start_of(self, time: int) -> int:
        """The start of the bin that holds an instant."""
        return (time - self._offset) // self._slide * self._slide + self._offset

    def later(self, start: int, bins: int) -> int:
        """The start that lies so many bins behind another one."""
        return start + bins * self._slide

    def starts_of(self, times: Times) -> Times:
        """The start of each time's bin."""
        return (times - self._offset) // self._slide * self._slide + self._offset

    def all_later(self, starts: Times, bins: int) -> Times:
        """The starts that lie so many bins behind others."""
        return starts + bins * self._slide

    def number(self, time: int) -> int:
        """Which bin holds an instant."""
        return (time - self._offset) // self._slide

    def numbers(self, starts: Times) -> Times:
        """The numbers of bins, by their starts."""
        return (starts - self._offset) // self._slide

    def numbered(self, numbers: Times) -> Times:
        """The starts of bins, by their numbers."""
        return numbers * self._slide + self._offset

    def next_ends(self, starts: Times, watermark: int) -> Times:
        """For each bin, the last instant of its first window that is open, else of its last."""
        first, last = starts + self._slide - 1, starts + self.span * self._slide - 1
        passed = np.maximum(0, (watermark - first) // self._slide + 1) if watermark > MIN_TIME else 0
        return np.minimum(first + passed * self._slide, last)

    def last_ends(self, starts: Times) -> Times:
        """The end of the last window of each bin."""
        return self.all_later(starts, self.span)

    def windows_at(self, time: int) -> list[tuple[int, int]]:
        """The windows that an instant belongs to."""
        return _windows_at(self, time)

    def windows_of(self, times: Times) -> Iterator[tuple[Times, Times]]:
        """The windows that times belong to."""
        return _windows_of(self, times)


class CumulativeGrid(FixedGrid):
    """Bins of equal length; windows begin every `span` bins and end with each of them."""

    def __init__(self, window: WindowSpec) -> None:
        super().__init__(window)
        self._size = window.size

    def first_of(self, starts: Times) -> Times:
        """The start of the windows to which each bin belongs."""
        return (starts - self._offset) // self._size * self._size + self._offset

    def last_ends(self, starts: Times) -> Times:
        """The end of the longest window of each bin."""
        return self.first_of(starts) + self._size

    def next_ends(self, starts: Times, watermark: int) -> Times:
        """For each bin, the last instant of its first window that is open, else of its last."""
        return np.minimum(super().next_ends(starts, watermark), self.last_ends(starts) - 1)

    def windows_at(self, time: int) -> list[tuple[int, int]]:
        """The windows that an instant belongs to."""
        first = (time - self._offset) // self._size * self._size + self._offset
        return [(first, end) for end in range(self.start_of(time) + self._slide, first + self._size + 1, self._slide)]

    def windows_of(self, times: Times) -> Iterator[tuple[Times, Times]]:
        """The windows that times belong to."""
        bins = self.starts_of(times)
        firsts, lasts = self.first_of(bins), self.last_ends(bins)
        for number in range(1, self.span + 1):
            ends = self.all_later(bins, number)
            yield firsts, np.where(ends <= lasts, ends, MIN_TIME)


class CalendarGrid:
    """Bins of whole days of a time zone; a day is as long as the zone makes it.

    A bin begins at local midnight plus the offset, taken as time on the wall; where the wall shows that time twice, at the first.
    A date that the zone left out, because it crossed the date line, is no bin: no two bins begin or end at one instant.
    """

    def __init__(self, window: WindowSpec) -> None:
        assert window.time_zone is not None, "a calendar needs a time zone"
        self._zone = zoneinfo.ZoneInfo(window.time_zone)
        self._slide, self._offset, self.span = window.slide, window.offset, window.size // window.slide
        self._left_out = self._dates_left_out()
        self._start = functools.lru_cache(1 << 16)(self._computed_start)

    def start_of(self, time: int) -> int:
        """The start of the bin that holds an instant."""
        return self._start(self.number(time))

    def later(self, start: int, bins: int) -> int:
        """The start that lies so many bins behind another one."""
        return self._start(self.number(start) + bins)

    def starts_of(self, times: Times) -> Times:
        """The start of each time's bin."""
        if len(times) == 0:
            return times
        first, last = self.number(int(times.min())), self.number(int(times.max()))
        starts = np.array([self._start(number) for number in range(first, last + 1)], np.int64)
        return starts[np.searchsorted(starts, times, side="right") - 1]

    def all_later(self, starts: Times, bins: int) -> Times:
        """The starts that lie so many bins behind others."""
        known, places = np.unique(starts, return_inverse=True)
        return np.array([self.later(start, bins) for start in known.tolist()], np.int64)[places]

    def number(self, time: int) -> int:
        """Which bin holds an instant: a guess by local time, set right where clocks were changed."""
        number = (time + self._utc_offset(time, dt.UTC) - self._offset) // self._slide
        while self._start(number) > time:
            number -= 1
        while self._start(number + 1) <= time:
            number += 1
        return number

    def numbers(self, starts: Times) -> Times:
        """The numbers of bins, by their starts."""
        known, places = np.unique(starts, return_inverse=True)
        return np.array([self.number(start) for start in known.tolist()], np.int64)[places]

    def numbered(self, numbers: Times) -> Times:
        """The starts of bins, by their numbers."""
        known, places = np.unique(numbers, return_inverse=True)
        return np.array([self._start(number) for number in known.tolist()], np.int64)[places]

    def next_ends(self, starts: Times, watermark: int) -> Times:
        """For each bin, the last instant of its first window that is open, else of its last."""
        ends = self.all_later(starts, self.span) - 1
        for bins in range(self.span - 1, 0, -1):
            end = self.all_later(starts, bins) - 1
            ends = np.where(end > watermark, end, ends)
        return ends

    def last_ends(self, starts: Times) -> Times:
        """The end of the last window of each bin."""
        return self.all_later(starts, self.span)

    def windows_at(self, time: int) -> list[tuple[int, int]]:
        """The windows that an instant belongs to."""
        return _windows_at(self, time)

    def windows_of(self, times: Times) -> Iterator[tuple[Times, Times]]:
        """The windows that times belong to."""
        return _windows_of(self, times)

    def _dates_left_out(self) -> list[int]:
        """Bins of no length, by their numbers as if all dates had been there, the earliest first."""
        if self._slide > DAY:
            return []
        years = [(dt.datetime(year, 1, 1) - _EPOCH) // dt.timedelta(days=1) for year in _SHIFTING_YEARS]  # noqa: DTZ001
        offsets = [self._utc_offset(day * DAY, None) for day in years]
        shifted = [place for place in range(len(years) - 1) if offsets[place + 1] - offsets[place] > _DATE_LINE]
        days = (day for place in shifted for day in range(years[place] - 1, years[place + 1]))
        return sorted({day for day in days if self._local_start(day) == self._local_start(day + 1)})

    def _computed_start(self, number: int) -> int:
        for left_out in self._left_out:
            number += number >= left_out
        return self._local_start(number)

    def _local_start(self, number: int) -> int:
        local = number * self._slide + self._offset
        return local - self._utc_offset(local, None)

    def _utc_offset(self, time: int, zone: dt.tzinfo | None) -> int:
        """How far the zone is ahead of UTC at an instant, or at a time on the wall."""
        at = _EPOCH + dt.timedelta(milliseconds=min(max(time, _FIRST), _LAST))
        local = at.replace(tzinfo=self._zone) if zone is None else at.replace(tzinfo=zone).astimezone(self._zone)
        offset = local.utcoffset()
        return 0 if offset is None else round(offset.total_seconds() * 1000)


def _windows_at(grid: Grid, time: int) -> list[tuple[int, int]]:
    newest = grid.start_of(time)
    starts = [grid.later(newest, -number) for number in reversed(range(grid.span))]
    return [(start, grid.later(start, grid.span)) for start in starts]


def _windows_of(grid: Grid, times: Times) -> Iterator[tuple[Times, Times]]:
    newest = grid.starts_of(times)
    for number in reversed(range(grid.span)):
        starts = grid.all_later(newest, -number)
        yield starts, grid.all_later(starts, grid.span)


@functools.lru_cache(256)
def grid_of(window: WindowSpec) -> Grid:
    """The bounds of windows of fixed length; one grid serves all tasks of a process, since a calendar learns."""
    if window.kind == "cumulative":
        return CumulativeGrid(window)
    return FixedGrid(window) if window.time_zone is None else CalendarGrid(window)
