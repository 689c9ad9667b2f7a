"""Which page is fetched next, and by whom: one at a time of each slice, slices in parallel, in their order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from millstream.connectors.http.paging.pages import BodyFormat
from millstream.connectors.http.paging.slices import PARENT, DateSlices, slice_at, slice_name
from millstream.connectors.http.paging.turning import PagingPlan, SliceState
from millstream.connectors.http.position import ApiPosition, Change, changed, merged, opened_slice
from millstream.connectors.http.settings import SourceSettings


class PageWork(NamedTuple):
    """A page to fetch: of a slice by its number, or of the parents."""

    number: str
    state: SliceState


class RestingSlice(NamedTuple):
    """A slice that waits: until when, in milliseconds since 1970, and why."""

    until: int
    why: str


class FetchSchedule:
    """What is known of slices ahead of the log, for the threads that fetch them."""

    def __init__(self, settings: SourceSettings, position: ApiPosition) -> None:
        self._settings = settings
        self._ahead = position
        """The position behind everything that was fetched."""
        self._unlogged: Change = {}
        """Slices that were opened since the last page: the next page of any slice tells of them."""
        self._busy: set[str] = set()
        self._resting: dict[str, RestingSlice] = {}
        self._changed = threading.Condition()
        self._is_stopped = False

    def take(self) -> PageWork | None:
        """The next page to fetch, once there is one that nobody fetches; `None` when there will be none."""
        with self._changed:
            while not self._is_stopped:
                work = self._next()
                if work is not None:
                    self._busy.add(work.number)
                    return work
                if not self._busy:
                    return None
                self._changed.wait()
            return None

    def _next(self) -> PageWork | None:
        free = sorted(self._ahead.slices.keys() - self._busy, key=int)
        if free:
            return PageWork(free[0], self._ahead.slices[free[0]])
        opened = opened_slice(self._settings, self._ahead)
        if opened is not None:
            self._unlogged = merged(self._unlogged, opened)
            self._ahead = changed(self._ahead, opened)
            return self._next()
        if self._ahead.parent is not None and PARENT not in self._busy:
            return PageWork(PARENT, self._ahead.parent)
        return None

    def plan_of(self, work: PageWork) -> tuple[PagingPlan, BodyFormat]:
        """How the pages of a slice are asked for and read."""
        settings = self._settings
        if work.number == PARENT:
            assert settings.parent is not None
            assert settings.parent_body is not None
            return settings.parent, settings.parent_body
        return settings.paging, settings.body

    def done(self, work: PageWork, change: Callable[[ApiPosition], Change], put: Callable[[Change], None]) -> None:
        """A page came: make its change, and hand it over in the same step, so that the log has changes in their order."""
        with self._changed:
            made = change(self._ahead)
            told = merged(self._unlogged, made)
            self._ahead, self._unlogged = changed(self._ahead, made), {}
            put(told)
            self._release(work)

    def release(self, work: PageWork) -> None:
        """Nothing came: somebody may try again."""
        with self._changed:
            self._release(work)

    def _release(self, work: PageWork) -> None:
        self._busy.discard(work.number)
        self._resting.pop(work.number, None)
        self._changed.notify_all()

    def rest(self, work: PageWork, until: int, why: str) -> None:
        """The request for a page waits until then; 0: it goes on."""
        with self._changed:
            if until:
                self._resting[work.number] = RestingSlice(until, why)
            else:
                self._resting.pop(work.number, None)

    def stop(self) -> None:
        """Nobody fetches anything more."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()

    def resting(self) -> tuple[dict[str, RestingSlice], int]:
        """By the names of slices those that wait, and when one of them goes on if nobody does anything else; else 0."""
        with self._changed:
            named = {self._name(number): resting for number, resting in self._resting.items()}
            is_idle = bool(self._busy) and self._busy == self._resting.keys()
            return named, min(resting.until for resting in self._resting.values()) if is_idle else 0

    def _name(self, number: str) -> str:
        return PARENT if number == PARENT else self._ahead.slices[number].name


def expected_partitions(settings: SourceSettings, position: ApiPosition) -> list[str]:
    """The partitions from which rows may come behind a position, as far as they are known: slices under way and to come.

    Of steps of time only those under way: the ones behind them lie later. Parents that were not read yet stand for their
    children.
    """
    names = [state.name for state in position.slices.values()]
    if position.parent is not None:
        names.append(PARENT)
    cursor = position.cursor
    while not isinstance(settings.slices, DateSlices) and (found := slice_at(settings.slices, cursor, 0)) is not None:
        values, cursor = found
        names.append(slice_name(values))
    return names
