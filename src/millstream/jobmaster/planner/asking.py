"""Asks sources how far an epoch may read them, and keeps what they said of what waits there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from millstream.contract.source import Advance, Credit, SelectiveEnumerator, SplitEnumerator
from millstream.jobmaster.planner.learned import source_of
from millstream.model.time import LAST_EVENT
from millstream.plan.deployment import DeploymentPlan


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


def waiting_of(advances: Mapping[str, Advance]) -> Waiting:
    """What sources say of what waits there."""
    return Waiting(
        {name: advance.lag for name, advance in advances.items() if advance.lag is not None},
        {f"{name}/{part}": rows for name, advance in advances.items() for part, rows in advance.lags.items()},
        {f"{name}/{part}": why for name, advance in advances.items() for part, why in advance.blocked.items()},
        {f"{name}/{part}": kept for name, advance in advances.items() for part, kept in advance.retained.items()},
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

    def __init__(
        self, deployment: DeploymentPlan, sources: Mapping[str, SplitEnumerator], clock: Callable[[], int]
    ) -> None:
        self._sources, self._clock = sources, clock
        self._credit: dict[str, Credit] = {flow.source: Credit(flow.credit) for flow in deployment.flow}
        self._resting: dict[str, Advance] = {}
        self.selective = {name for name, source in sources.items() if isinstance(source, SelectiveEnumerator)}
        """Sources that can leave single partitions out."""

    def ask(self, name: str, position: Any, paused: Collection[str]) -> Advance:
        """How far an epoch reads a source from `position`, when these sources and partitions wait for others."""
        resting = self._resting.get(name)
        if resting is not None and resting.position == position and self._clock() < resting.not_before:
            return resting
        advance = self._asked(name, position, paused)
        # Read up to there, it has nothing to say until then.
        self._resting[name] = dataclasses.replace(advance, dropped={})
        return advance

    def _asked(self, name: str, position: Any, paused: Collection[str]) -> Advance:
        source = self._sources[name]
        if name in paused:
            asked = source.advance(position, Credit(0))
            is_finished = asked.finished and asked.position == position
            return dataclasses.replace(asked, position=position, finished=is_finished, dropped={})
        left_out = [each.removeprefix(f"{name}/") for each in paused if source_of(each) == name]
        if left_out and isinstance(source, SelectiveEnumerator):
            return source.advance_without(position, self._credit[name], left_out)
        return source.advance(position, self._credit[name])
