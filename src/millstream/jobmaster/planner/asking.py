"""Asks sources how far an epoch reads them, under their credit and flow control, and keeps what they said of what waits there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

from millstream.contract.source import Advance, Ahead, Credit, Position, SelectiveEnumerator, Split, SplitEnumerator
from millstream.errors import StepFailed
from millstream.jobmaster.planner.credits import Credits
from millstream.jobmaster.planner.learned import source_of
from millstream.model.time import LAST_EVENT


class SourceReading(NamedTuple):
    """What an epoch does with a source."""

    advance: Advance
    jump: Position | None = None
    """Where it goes on behind the epoch, if that is not where the epoch ends."""
    is_conflated: bool = False
    """Whether only the newest row of each key is kept."""


class Waiting(NamedTuple):
    """What is known of rows that were not read, from the newest answers of the sources. Partitions bear their source's name."""

    lag: Mapping[str, int] = {}
    """Per source that can tell: rows."""
    lags: Mapping[str, int] = {}
    """Per partition that is told of: rows."""
    blocked: Mapping[str, str] = {}
    """Per partition that stands still: why."""
    retained: Mapping[str, int] = {}
    """Per partition for which the outside keeps something: bytes."""
    ahead: Mapping[str, Ahead] = {}
    """Per source that fetches ahead."""


def waiting_of(readings: Mapping[str, SourceReading]) -> Waiting:
    """What sources say of what waits there."""
    told: dict[str, Advance] = {name: reading.advance for name, reading in readings.items()}
    return Waiting(
        {name: advance.lag for name, advance in told.items() if advance.lag is not None},
        {f"{name}/{part}": rows for name, advance in told.items() for part, rows in advance.lags.items()},
        {f"{name}/{part}": why for name, advance in told.items() for part, why in advance.blocked.items()},
        {f"{name}/{part}": kept for name, advance in told.items() for part, kept in advance.retained.items()},
        {name: advance.ahead for name, advance in told.items() if advance.ahead is not None},
    )


def stated_by(advances: Mapping[str, Advance]) -> dict[str, int]:
    """The watermarks that sources state, for themselves or by partition."""
    stated = {name: advance.watermark for name, advance in advances.items() if advance.watermark is not None}
    for name, advance in advances.items():
        stated |= {f"{name}/{partition}": mark for partition, mark in advance.watermarks.items()}
    # No row happens behind the last event: a source that says more says no more than that.
    return {name: min(mark, LAST_EVENT) for name, mark in stated.items()}


def drained_by(advances: Mapping[str, Advance]) -> dict[str, frozenset[str]]:
    """Per source that can tell, the partitions in which nothing waits."""
    return {
        name: frozenset(f"{name}/{partition}" for partition in advance.drained)
        for name, advance in advances.items()
        if advance.drained is not None
    }


class SourceQueries:
    """Asks the sources of a run. One that said it is no use asking again yet is left alone until then."""

    def __init__(self, sources: Mapping[str, SplitEnumerator], credits: Credits, clock: Callable[[], int]) -> None:
        self._sources, self._credits, self._clock = sources, credits, clock
        self._resting: dict[str, Advance] = {}
        self.selective = {name for name, source in sources.items() if isinstance(source, SelectiveEnumerator)}
        """Sources that can leave single partitions out."""

    def ask(self, name: str, position: Any, paused: Collection[str]) -> SourceReading:
        """What an epoch does with a source from `position` on, when these sources and partitions wait for others."""
        resting = self._resting.get(name)
        if resting is not None and resting.position == position and self._clock() < resting.not_before:
            return SourceReading(resting)
        reading = self._asked(name, position, paused)
        if reading.advance.not_before:
            # Read up to there, it has nothing to say until then.
            reached = reading.advance.position if reading.jump is None else reading.jump
            self._resting[name] = dataclasses.replace(reading.advance, position=reached, dropped={})
        else:
            self._resting.pop(name, None)
        return reading

    def _asked(self, name: str, position: Any, paused: Collection[str]) -> SourceReading:
        source = self._sources[name]
        if name in paused:
            asked = source.advance(position, Credit(0))
            is_finished = asked.finished and asked.position == position
            return SourceReading(dataclasses.replace(asked, position=position, finished=is_finished, dropped={}))
        left_out = [each.removeprefix(f"{name}/") for each in paused if source_of(each) == name]
        credit = self._credits.credit(name)
        if left_out and isinstance(source, SelectiveEnumerator):
            return SourceReading(source.advance_without(position, credit, left_out))
        return self._controlled(name, position, source.advance(position, credit), credit)

    def _controlled(self, name: str, position: Any, advance: Advance, credit: Credit) -> SourceReading:
        """The strategy of a source acts when more waits behind the epoch than may."""
        allowed, strategy = self._credits.allowed(name), self._credits.flow(name).strategy
        if allowed is None:
            return SourceReading(advance)
        if advance.lag is None:
            msg = f"strategy {strategy!r} needs a source that can tell how many rows wait"
            raise StepFailed(msg, code="FLOW-003", step=name, hint="use strategy='buffer', or another source")
        if advance.lag <= allowed:
            return SourceReading(advance)
        match strategy:
            case "drop":
                source = self._sources[name]
                over = source.advance(advance.position, Credit(advance.lag))
                return _jumped(advance, over, source.splits(advance.position, over.position))
            case "latest":
                whole = self._sources[name].advance(position, Credit(credit + advance.lag))
                return SourceReading(whole, is_conflated=True)
            case _:
                msg = "more rows wait at the source than its flow control allows"
                hint = "give the job more to work with, raise the capacity, or choose strategy='buffer'"
                raise StepFailed(msg, code="FLOW-004", step=name, found=advance.lag, known=allowed, hint=hint)


def _jumped(advance: Advance, over: Advance, between: Sequence[Split]) -> SourceReading:
    """Read up to the first, go on behind the second; what lies between is dropped.

    Rows may have come between the two answers: what waits behind the second says nothing of how many are jumped over. Only a
    source that does not count the rows of its splits is taken by it.
    """
    assert advance.lag is not None
    dropped = sum(split.rows for split in between) or max(0, advance.lag - (over.lag or 0))
    told = dataclasses.replace(
        advance,
        finished=over.finished,
        lag=over.lag,
        lags=over.lags,
        dropped={**advance.dropped, **over.dropped, "drop": dropped},
    )
    return SourceReading(told, jump=over.position)
