"""`RunSight`: what is known of a run at one moment, from its node or from the database."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import msgspec
from sqlalchemy import Row, select

from millstream.api.running.result import EpochSummary, Load, VertexLoad
from millstream.control.act import Act
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.runs import checkpoint, run_event
from millstream.control.refusals import UnknownName
from millstream.inspect.run_facts import told_epoch
from millstream.model.counts import Counts, total

PLANNED = "planned"
"""The kind of event that holds the graph of a run."""
WINDOW_SECONDS = 10.0
"""Rates and shares are those of this time."""


class SeenEpoch(NamedTuple):
    """An epoch, and when it was published, in seconds since 1970."""

    at: float
    summary: EpochSummary


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunSight:
    """What is known of a run at one moment."""

    run: str
    status: Status
    source: Literal["live", "stored"]
    now: float
    """When it was seen; of a run that has ended, when it published last."""
    graph: Mapping[str, Any]
    epochs: Sequence[SeenEpoch] = ()
    """The newest, oldest first: those of the window, or the last one."""
    counts: Counts = dataclasses.field(default_factory=dict)
    """Rows of each step since the run was claimed last; of stored ones, in the epochs that are kept."""
    attempts: Sequence[Mapping[str, Any]] = ()
    """Attempts of subtasks by epoch, oldest first; known while a run goes on."""
    measures: Mapping[str, Mapping[str, Sequence[float]]] = dataclasses.field(default_factory=dict)
    """By vertex and subtask, in the newest epoch: seconds at work, rows in, rows out."""
    told: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """The newest reports of its driver, by kind."""

    @property
    def newest(self) -> EpochSummary | None:
        """The epoch that was published last."""
        return self.epochs[-1].summary if self.epochs else None

    @property
    def span(self) -> float:
        """Seconds that the epochs seen here cover, with the time since the last one."""
        first = self.epochs[0]
        return max(self.now - (first.at - first.summary.seconds), 1e-6)

    def loads(self, vertex: str) -> list[tuple[VertexLoad, float]]:
        """What a vertex did in each epoch, with the seconds of all its subtasks together."""
        known = [each.summary for each in self.epochs if vertex in each.summary.load.vertices]
        return [(each.load.vertices[vertex], each.busy.get(vertex, 0.0)) for each in known]

    @property
    def load(self) -> Load:
        """Where the time of the newest epoch went."""
        return Load() if self.newest is None else self.newest.load


def live_sight(act: Act, run: Row[Any], told: Mapping[str, Any]) -> RunSight:
    """From what the node of a run says; a node that took the run over did not hear its graph, which is stored."""
    return RunSight(
        run=run.execution_id,
        status=Status(run.status),
        source="live",
        now=told["now"],
        graph=told["graph"] or _stored_graph(act, run.execution_id) or {},
        epochs=[SeenEpoch(each["at"], told_epoch(each)) for each in told["epochs"]],
        counts=msgspec.convert(told["counts"], Counts),
        attempts=told["subtasks"].get("epochs", ()),
        measures=told["subtasks"].get("measures", {}),
        told=told["newest"],
    )


def stored_sight(act: Act, run: Row[Any]) -> RunSight:
    """From what is stored of a run, as long as it is kept.

    Raises:
        UnknownName: (CTL-150) nothing of it is there.
    """
    graph = _stored_graph(act, run.execution_id)
    if graph is None:
        msg = "nothing is stored of the graph of this run"
        hint = "it never came so far, or its events are no longer kept: see `/v1/runs/{run}/events`"
        raise UnknownName(msg, code="CTL-150", found=f"{run.execution_id}, {run.status}", hint=hint)
    mine = checkpoint.c.execution_id == run.execution_id, checkpoint.c.status == "COMPLETED"
    columns = checkpoint.c.complete_time, checkpoint.c.summary
    rows = act.connection.execute(select(*columns).where(*mine).order_by(checkpoint.c.checkpoint_id)).all()
    epochs = [SeenEpoch(row.complete_time.timestamp(), told_epoch(row.summary)) for row in rows if row.summary]
    return RunSight(
        run=run.execution_id,
        status=Status(run.status),
        source="stored",
        now=epochs[-1].at if epochs else run.start_time.timestamp(),
        graph=graph,
        epochs=[each for each in epochs if each.at > epochs[-1].at - WINDOW_SECONDS],
        counts=total(each.summary.counts for each in epochs),
    )


def _stored_graph(act: Act, run: str) -> Mapping[str, Any] | None:
    mine = run_event.c.execution_id == run, run_event.c.kind == PLANNED
    newest = select(run_event.c.details).where(*mine).order_by(run_event.c.seq.desc()).limit(1)
    graph: Mapping[str, Any] | None = act.connection.execute(newest).scalar()
    return graph
