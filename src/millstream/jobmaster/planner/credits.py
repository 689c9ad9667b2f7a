"""How much the next epoch may admit of each source: by the rate at which epochs were worked off, and by the size of rows.

A credit grows while epochs that used it up stay below their target, at most to the double, and is cut at once by an epoch that
took longer. An epoch that had little to read says nothing about how much could be read, so it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from millstream.contract.source import Ahead, Credit
from millstream.jobmaster.planner.learned import Pace, PlannerState
from millstream.plan.deployment import DeploymentPlan, SourceFlow
from millstream.runtime.messages import TaskReport

FIRST = 5_000
"""Rows of the first epoch of a source with a target, of which no rate is known."""
_USED_UP = 0.9
_SMOOTHED = 0.5


def next_credit(credit: int, rows: int, seconds: float, target: float, *, rate: float) -> int:
    """The credit behind an epoch that read so many rows in so long; `rate` is the smoothed one."""
    if seconds > target:
        return max(1, int(rows / seconds * target)) if rows else credit
    if rows < _USED_UP * credit:
        return credit
    return max(credit, min(2 * credit, int(rate * target)))


class Credits:
    """The credits of all sources of a run."""

    def __init__(self, deployment: DeploymentPlan, state: PlannerState) -> None:
        self._flows: Mapping[str, SourceFlow] = {flow.source: flow for flow in deployment.flow}
        self._state = state
        self._epoch_bytes = _bytes_per_source(deployment)

    def flow(self, source: str) -> SourceFlow:
        """What was said of a source."""
        return self._flows[source]

    def credit(self, source: str) -> Credit:
        """For the next epoch."""
        flow, pace = self._flows[source], self._pace(source)
        rows = flow.credit if flow.target is None else min(flow.credit, pace.credit or FIRST)
        limit = self._epoch_bytes
        if flow.strategy == "buffer":
            rows = min(rows, flow.capacity_rows or rows)
            limit = min(limit, flow.capacity_bytes or limit)
        if pace.row_bytes:
            rows = min(rows, max(1, int(limit / pace.row_bytes)))
        return Credit(rows, bytes=limit)

    def allowed(self, source: str) -> int | None:
        """Rows that may wait at a source before its strategy acts; `None` where they may all wait."""
        flow, pace = self._flows[source], self._pace(source)
        if flow.strategy == "buffer":
            return None
        limits = [flow.capacity_rows] if flow.capacity_rows is not None else []
        if flow.capacity_bytes is not None and pace.row_bytes:
            limits.append(int(flow.capacity_bytes / pace.row_bytes))
        return min(limits, default=None)

    def learn(self, reports: Iterable[TaskReport], seconds: float) -> None:
        """Learn from an epoch that ran; `seconds` passed between its plan and its publication."""
        told = [report for report in reports if report.level == 0]
        for source, flow in self._flows.items():
            rows = sum(report.counts[source].rows_in for report in told if source in report.counts)
            if rows:
                self._measure(flow, rows, sum(report.read_bytes.get(source, 0) for report in told), seconds)

    def _measure(self, flow: SourceFlow, rows: int, size: int, seconds: float) -> None:
        pace = self._state.paces.setdefault(flow.source, Pace())
        pace.row_bytes = _blend(pace.row_bytes, size / rows)
        if flow.target is None:
            return
        granted, target = self.credit(flow.source), flow.target / 1000
        if seconds > target or rows >= _USED_UP * granted:
            pace.rate = _blend(pace.rate, rows / max(seconds, 1e-6))
        pace.credit = next_credit(pace.credit or FIRST, rows, seconds, target, rate=pace.rate)

    def _pace(self, source: str) -> Pace:
        return self._state.paces.get(source, Pace())


def used_buffers(
    deployment: DeploymentPlan, reports: Iterable[TaskReport], ahead: Mapping[str, Ahead]
) -> dict[str, float]:
    """Per source: the bytes that an epoch read and those that wait fetched, as a share of what there is room for."""
    told = [report.read_bytes for report in reports if report.level == 0]
    used: dict[str, float] = {}
    for flow in deployment.flow:
        limit = min(_bytes_per_source(deployment), flow.capacity_bytes or _bytes_per_source(deployment))
        waiting = ahead.get(flow.source, Ahead(0, 0))
        admitted = sum(each.get(flow.source, 0) for each in told)
        used[flow.source] = (admitted + waiting.held) / (limit + waiting.room)
    return used


def _bytes_per_source(deployment: DeploymentPlan) -> int:
    return max(1, deployment.memory.epoch_bytes // max(1, len(deployment.flow)))


def _blend(before: float, now: float) -> float:
    return now if not before else _SMOOTHED * before + (1 - _SMOOTHED) * now
