"""What a run tells while it runs, as reports: its state, its epochs, its dead letters."""

from __future__ import annotations

import threading
from typing import Any, Literal

from millstream.api.running.result import EpochSummary, RunResult
from millstream.api.running.run_log import RunLog
from millstream.driver.service.failure import error_facts
from millstream.driver.service.reports import Reports
from millstream.inspect.run_facts import epoch_facts
from millstream.model.time import instant_text
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.partitioned import PlannedEdge, PlannedVertex

RunState = Literal[
    "INITIALIZING",
    "RESTORING",
    "RUNNING",
    "CHECKPOINTING",
    "CANCELLING",
    "COMPLETED",
    "SUSPENDED",
    "CANCELLED",
    "FAILED",
]
FINAL: tuple[RunState, ...] = ("COMPLETED", "SUSPENDED", "CANCELLED", "FAILED")


class ReportedStates:
    """The state of the run, each change of it a report."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self._lock = threading.RLock()
        self.state: RunState | None = None

    def enter(self, state: RunState, cause: str, *, error: BaseException | None = None) -> None:
        """The run is in a state from now on; one that is being cancelled can only end, and is cancelled in no other way."""
        with self._lock:
            if state == "CANCELLED":
                self.enter("CANCELLING", cause)
            before = self.state
            if before in FINAL or (before == "CANCELLING" and state not in FINAL):
                return
            self.state = state
            facts = None if error is None else error_facts(error)
            self._reports.report("state", {"from": before, "to": state, "cause": cause, "error": facts})

    def publishes(self, what: str | None) -> None:
        """A run that takes long to publish is checkpointing until that is over; `None`: nothing takes long now."""
        with self._lock:
            if what is not None and self.state == "RUNNING":
                self.enter("CHECKPOINTING", f"{what} is being published")
            elif what is None and self.state == "CHECKPOINTING":
                self.enter("RUNNING", "nothing is being published any more")


class ReportedLog(RunLog):
    """The lines of a run in the log; what they say of its state is reported too."""

    def __init__(self, states: ReportedStates, run: str) -> None:
        super().__init__()
        self.at(run=run)
        self._states = states

    def restores(self, epoch: int | None, *, savepoint: str | None) -> None:
        """The run is about to take up what is there."""
        if self._states.state != "RUNNING":
            self._states.enter("RESTORING", f"savepoint {savepoint}" if epoch is None else f"epoch {epoch}")
        super().restores(epoch, savepoint=savepoint)

    def started(self, result: RunResult, engine: str) -> None:
        """The run goes on from its newest epoch."""
        if self._states.state != "RUNNING":
            self._states.enter("RUNNING", f"started on {engine}")
        super().started(result, engine)

    def restarts(self, problem: Exception, *, in_a_row: int, tolerated: int) -> None:
        """The run gets over a failure inside this process: to the outside it runs."""
        self._states.enter("RUNNING", f"restarts by itself ({in_a_row} of {tolerated})", error=problem)
        super().restarts(problem, in_a_row=in_a_row, tolerated=tolerated)


class ReportedEpochs:
    """Listens to a run."""

    def __init__(self, reports: Reports) -> None:
        self._reports = reports
        self.newest: EpochSummary | None = None
        self.totals = {"epochs": 0, "rows_in": 0, "rows_out": 0}
        self._letters: dict[str, int] = {}

    def __call__(self, summary: EpochSummary) -> None:
        """An epoch is published."""
        self.newest = summary
        for name, more in (("epochs", 1), ("rows_in", summary.rows_in), ("rows_out", summary.rows_out)):
            self.totals[name] += more
        self._reports.report("epoch", epoch_facts(summary))
        put_aside = {step: counts.failed + counts.refused for step, counts in summary.counts.items()}
        if any(put_aside.values()):
            for step, rows in put_aside.items():
                self._letters[step] = self._letters.get(step, 0) + rows
            fresh, all_of_it = (
                {step: rows for step, rows in each.items() if rows} for each in (put_aside, self._letters)
            )
            told = {"epoch": summary.epoch, "now": summary.now, "steps": fresh, "totals": all_of_it}
            self._reports.report("dead_letters", told)

    def progress(self) -> dict[str, Any]:
        """How far the run is."""
        newest = self.newest
        known = (
            {}
            if newest is None
            else {"epoch": newest.epoch, "lag": newest.lag, "watermark": instant_text(newest.watermark)}
        )
        return {**self.totals, **known}


def graph_facts(plan: DeploymentPlan) -> dict[str, Any]:
    """The vertices and edges of a plan, as pages and tables show them."""
    planned = plan.plan
    return {
        "job": plan.name,
        "mode": str(plan.mode),
        "parallelism": planned.parallelism,
        "depth": planned.depth,
        "vertices": [_vertex(each, planned.parallelism) for each in planned.vertices],
        "edges": [_edge(each) for each in planned.edges],
    }


def _vertex(planned: PlannedVertex, parallelism: int) -> dict[str, Any]:
    vertex = planned.vertex
    return {
        "id": vertex.id,
        "uid": vertex.head.uid,
        "name": vertex.name,
        "level": planned.level,
        # Level 0 has as many tasks as an epoch has splits.
        "parallelism": parallelism if planned.level else None,
        "is_keyed": vertex.is_keyed,
        "steps": [{"id": node.id, "uid": node.uid, "kind": node.operation.kind} for node in vertex.nodes],
    }


def _edge(planned: PlannedEdge) -> dict[str, Any]:
    edge = planned.edge
    return {
        "port": planned.port,
        "source": edge.source,
        "source_step": edge.source_step,
        "output": edge.output,
        "target": edge.target,
        "policy": edge.policy,
    }
