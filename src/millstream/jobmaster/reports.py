"""From the reports of an epoch's tasks to the epoch that is to become durable."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from millstream.checkpoint.manifest import LOWEST_WATERMARK, Kind, SinkRecord, SourceRange, StateFileRecord
from millstream.checkpoint.sealed import digest_of
from millstream.checkpoint.staged import StagedEpoch
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.graph.operations.endpoints import Sink
from millstream.jobmaster.connectors import nodes_of, replacing_sinks, sink_protocol, uids_of
from millstream.jobmaster.planner.learned import PlannerState
from millstream.model.connector import sink_declaration
from millstream.model.counts import Counts, StepCounts
from millstream.model.ids import Epoch
from millstream.model.time import MIN_TIME
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan, times_for
from millstream.runtime.messages import TaskReport


def read_reports(encoded: Sequence[bytes]) -> list[TaskReport]:
    """The reports of an epoch, in the order of levels and tasks."""
    reports = (msgspec.msgpack.decode(report, type=TaskReport) for report in encoded)
    return sorted(reports, key=lambda report: (report.level, report.task))


def acknowledged(deployment: DeploymentPlan, reports: Sequence[TaskReport]) -> EpochPlan:
    """The epoch's plan, once every task of the acknowledgement set has reported."""
    here = [f"{report.level}/{report.task}" for report in reports]
    first = [report for report in reports if report.level == 0]
    expected = {
        *deployment.plan.acknowledgements,
        *(f"0/{task}" for task in range(first[0].tasks if first else 1)),
    }
    plan = next((report.plan for report in first if report.plan is not None), None)
    if sorted(here) != sorted(expected) or plan is None:
        msg = "an epoch came back without exactly one report of each of its tasks"
        raise ExternalFailure(
            msg, code="RUN-010", found=sorted(here), known=sorted(expected), hint="start the job again"
        )
    return plan


def check_number(plan: EpochPlan, number: int | None) -> None:
    """An engine that counts epochs itself must count as we do."""
    if number not in (None, plan.epoch):
        msg = f"the engine runs epoch {number}, the plan it logged is of epoch {plan.epoch}"
        raise CheckpointRefused(msg, code="CKPT-053", hint="restore logs and manifests from one copy")


def staged_epoch(
    deployment: DeploymentPlan,
    plan: EpochPlan,
    last: EpochPlan,
    learned: PlannerState,
    reports: Sequence[TaskReport],
    counts: Counts,
    segments: Sequence[StateFileRecord],
) -> StagedEpoch:
    """Everything the coordinator needs to decide the epoch that follows `last`."""
    uids = uids_of(deployment)
    messages: dict[str, list[Any]] = {uids[name]: [position] for name, position in plan.reached.items()}
    for report in reports:
        for sink, message in report.sinks.items():
            messages.setdefault(uids[sink], []).append(message)
    for uid, watermark in _told_watermarks(deployment, plan).items():
        messages.setdefault(uid, []).append({"watermark": watermark})
    for uid in replacing_sinks(deployment) if plan.terminal else ():
        messages.setdefault(uid, []).append({"ends_run": True})
    return StagedEpoch(
        epoch=Epoch(plan.epoch),
        digest=plan.digest,
        follows=plan.follows,
        kind=_kind(plan),
        plan=plan.to_json(),
        planner=msgspec.to_builtins(learned),
        messages=messages,
        counts=msgspec.to_builtins(counts),
        sources={uids[name]: _range(last.reached.get(name), end) for name, end in plan.sources.items()},
        watermarks={**plan.watermarks, LOWEST_WATERMARK: min(plan.watermarks.values(), default=MIN_TIME)},
        sinks=_sinks(deployment, counts),
        segments=list(segments),
    )


def _told_watermarks(deployment: DeploymentPlan, plan: EpochPlan) -> dict[str, int]:
    """The watermark of the rows that reach a sink, for those that ask for it."""
    sinks = [node for node in nodes_of(deployment) if isinstance(node.operation, Sink)]
    return {
        node.uid: times_for(plan, node.event_time).watermark
        for node in sinks
        if isinstance(node.operation, Sink)
        and sink_declaration(node.operation.connector).takes_watermark(node.operation.connector.options)
    }


def _range(start: Any, end: Any) -> SourceRange:
    return SourceRange(start=start, end=end, digest=digest_of([start, end]))


def _sinks(deployment: DeploymentPlan, counts: Counts) -> dict[str, SinkRecord]:
    return {
        node.uid: SinkRecord(
            protocol=sink_protocol(node.operation.connector, deployment),
            rows=counts.get(node.id, StepCounts()).rows_in,
        )
        for node in nodes_of(deployment)
        if isinstance(node.operation, Sink)
    }


def _kind(plan: EpochPlan) -> Kind:
    if plan.terminal:
        return "terminal"
    if plan.savepoint is None:
        return "periodic"
    return "savepoint" if plan.savepoint.ends else "exported"
