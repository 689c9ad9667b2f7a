"""One run of a job, apart from the engine: its checkpoint, its sources and sinks, its planner, and the end of each epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from millstream.api.running.control import RunControl, request_ids
from millstream.api.running.result import Listener, RunResult
from millstream.checkpoint.coordinator import EpochCoordinator
from millstream.checkpoint.decisions import Phase, Unfinished, unfinished
from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.manifest import EpochManifest, StateFileRecord
from millstream.checkpoint.savepoint import CopiedFile, Savepoint
from millstream.errors import ExternalFailure
from millstream.jobmaster.accounting import check_accounts, check_letters, letter_limits
from millstream.jobmaster.connectors import (
    nodes_of,
    open_sources,
    participants_of,
    replacing_sinks,
    source_folders,
    staging_root,
    uids_of,
)
from millstream.jobmaster.engine_side import EngineSide
from millstream.jobmaster.ownership import Ownership, Permission, store_of
from millstream.jobmaster.participants import SinkParticipant
from millstream.jobmaster.planner.origin import open_planner
from millstream.jobmaster.planner.planner import Clock
from millstream.jobmaster.progress import Progress, PublishedEpoch
from millstream.jobmaster.reports import acknowledged, check_number, read_reports, staged_epoch
from millstream.jobmaster.requests import Requests
from millstream.jobmaster.resume import check_resume
from millstream.jobmaster.savepoint.native import adopt_native
from millstream.jobmaster.savepoint.of_run import RunSavepoints
from millstream.model.counts import Counts, total
from millstream.model.ids import Epoch
from millstream.model.time import now_ms
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.epoch import EpochPlan, plan_from_json
from millstream.plan.passes.bind import refuse_open
from millstream.plan.start import Start
from millstream.runtime.closing import OpenedParts
from millstream.runtime.messages import RunIdentity, TaskReport
from millstream.state.transfer.load import load_sources

EngineName = Literal["spark", "local"]


class Run:
    """Owns everything of a run that does not depend on the engine.

    The order of starting is the order of safety: lease, lineage, fences, newest manifest, its checks, recovery, sources.
    """

    def __init__(
        self,
        deployment: DeploymentPlan,
        *,
        engine: EngineName,
        clock: Clock | None = None,
        listener: Listener | None = None,
        start: Start | None = None,
        control: RunControl | None = None,
        side: EngineSide,
        result: RunResult | None = None,
    ) -> None:
        refuse_open(nodes_of(deployment))
        self.deployment, self.engine, self._side = deployment, engine, side
        self._clock = clock or now_ms
        self._root = None if deployment.checkpoint is None else Path(deployment.checkpoint)
        self._letter_limits = letter_limits(nodes_of(deployment))
        self._control = control = control or RunControl()
        self._log, self.subtasks = control.log, control.subtasks
        self._log.at(job=deployment.name)
        self._parts = OpenedParts()
        try:
            self._store = store_of(deployment)
            self._parts.add("the store of the manifests", self._store.close)
            # What was left before a run is for the one before it; what is left while it starts again is for itself.
            self._old_requests = request_ids(self._store) if control.failures == 0 else frozenset()
            self._staging = staging_root(self._root, self._parts)
            self._owned = Ownership(
                self._store, deployment, engine, start or Start(), self._parts, staging=self._staging
            )
            self.lease, self.lineage = self._owned.lease, self._owned.lineage
            self._open(control)
        except BaseException as problem:
            self._parts.close(problem)
            raise
        self.result = result or RunResult(job=deployment.name, checkpoint=deployment.checkpoint)
        self._report_start(listener)

    # Starting.

    def _report_start(self, listener: Listener | None) -> None:
        result, resumed = self.result, self.resumed
        result.guarantee, result.mode = self.deployment.plan.graph.requirements.guarantee, self.deployment.mode
        if result.resumed_from is None and resumed is not None and not self.makes_way:
            result.resumed_from = resumed.epoch
        record = self._owned.point.head.origin.run
        result.run, result.run_id = record.number, record.id
        self._progress = Progress(
            *(result, self.planner, self.deployment, self._side),
            token=self.lease.token,
            sources=self._sources,
            sinks=self._owned.sinks,
            control=self._control,
            listener=listener,
        )
        key_groups, history = self.deployment.plan.key_groups, self._owned.history
        self._savepoints = RunSavepoints(key_groups, history, self._folders, result, self._log)
        self._log.at(lineage=self.lineage, token=self.lease.token, epoch=resumed.epoch if resumed else None)
        if self._owned.replaced is not None:
            self._log.taken_over(self._owned.replaced)
        if not self.makes_way:
            self._log.started(result, self.engine)

    def _open(self, control: RunControl) -> None:
        folders = self._folders = source_folders(self.deployment, self.folder("sources"))
        if (savepoint := self._owned.point.savepoint) is not None:
            self._place(savepoint, folders)
        self._sources = open_sources(
            self.deployment, folders, lineage=self.lineage, token=self.lease.token, parts=self._parts
        )
        self._coordinator = self._coordinated()
        head = self._owned.point.head
        if savepoint is not None or head.epoch is not None:
            self._log.restores(head.epoch, savepoint=head.origin.savepoint)
        self.resumed: EpochManifest | None = self._coordinator.recover(self._check)
        self.planner = open_planner(
            self.deployment, self._sources, self._clock, savepoint=savepoint, newest=self.resumed, origin=head.origin
        )
        self._last = self.resume_plan() or self.planner.initial()
        folder, replacing = self._savepoint_folder, replacing_sinks(self.deployment)
        self.requests = Requests(self._store, control, self.planner, folder, self._old_requests, replacing=replacing)

    def _coordinated(self) -> EpochCoordinator:
        participants = participants_of(self.deployment, self._sources, self._owned.sinks)
        self._sink_parts = {name: part for name, part in participants.items() if isinstance(part, SinkParticipant)}
        return EpochCoordinator(
            self._store,
            self._owned.keeper,
            self._owned.identity(),
            participants,
            Permission(self.lease, self._control),
            retained=self.deployment.epochs.retained,
        )

    def _place(self, savepoint: Savepoint, folders: dict[str, Path]) -> None:
        """Give the new lineage what the savepoint holds, apart from the state that its subtasks load themselves."""
        root = Path(self._owned.point.head.origin.savepoint)
        load_sources(root, savepoint, folders)
        if savepoint.kind == "native":
            self._side.place(self, root, savepoint)
            adopt_native(self._store, self._owned.keeper, root, savepoint)

    def _check(self, newest: EpochManifest | None) -> None:
        if newest is not None:
            check_resume(self.deployment, newest, self.engine)
        self._side.check(self, newest)

    def folder(self, name: str) -> Path | None:
        """A folder of this lineage inside the checkpoint directory."""
        return None if self._root is None else self._root / name / self.lineage

    @property
    def _savepoint_folder(self) -> Path | None:
        return None if self._root is None else self._root.resolve() / "savepoints"

    @property
    def is_complete(self) -> bool:
        """Whether the checkpoint's last epoch was the terminal one: there is nothing left to run."""
        return self.resumed is not None and self.resumed.kind == "terminal"

    @property
    def makes_way(self) -> bool:
        """Whether it only saw to what a complete run had left to publish, and another one is to begin now."""
        return self.is_complete and self._owned.makes_way

    def resume_plan(self) -> EpochPlan | None:
        """The plan of the last durable epoch."""
        return None if self.resumed is None else plan_from_json(self.resumed.plan)

    def identity_for(self, plan: EpochPlan) -> RunIdentity:
        """What the tasks of an epoch are told about the run."""
        # Also when the first epoch is durable already: a replay starts without state.
        restore = self._owned.point.head.origin.savepoint if plan.epoch == 0 else ""
        return RunIdentity(lineage=self.lineage, token=self.lease.token, restore=restore, staging=self._staging)

    # Epochs.

    def plan_next(self, last: EpochPlan, *, always_begins: bool = False) -> EpochPlan:
        """Decide the next epoch, as long as this run owns the checkpoint; the first one may have to be, whatever is due."""
        self.lease.check()
        # What was asked before an epoch is planned counts for it, however short epochs are.
        self.requests.poll()
        plan = self.planner.first(last) if always_begins and last.epoch < 0 else self.planner.next(last)
        if plan is not last:
            failpoint("planned")
        return plan

    def begin_epoch(self, epoch: int) -> None:
        """The tasks of an epoch are about to run."""
        self._progress.begin_epoch(epoch)
        self._coordinator.begin(Epoch(epoch))
        failpoint("begun")

    @property
    def phase(self) -> Phase:
        """How far the epoch in flight is."""
        return self._coordinator.phase

    @property
    def last_epoch(self) -> int:
        """The newest epoch that is published; -1 before the first."""
        return self._last.epoch

    @property
    def in_flight_seconds(self) -> float:
        """How long the epoch in flight has taken; 0 while there is none."""
        return 0.0 if unfinished(self.phase) is Unfinished.NOTHING else self._progress.epoch_seconds

    @property
    def is_overdue(self) -> bool:
        """Whether the epoch in flight has taken longer than an epoch may."""
        return self.in_flight_seconds > self.deployment.epochs.timeout / 1000

    def refuse_overdue(self) -> None:
        """An epoch past its time does not become durable."""
        if self.is_overdue and self.phase != Phase.DURABLE:
            msg = f"an epoch took longer than {self.deployment.epochs.timeout} ms"
            raise ExternalFailure(msg, code="RUN-011", hint="raise the epoch timeout, or admit fewer rows per epoch")

    def finish_epoch(
        self, encoded: Sequence[bytes], segments: Sequence[StateFileRecord] = (), *, number: int | None = None
    ) -> EpochPlan:
        """Take the reports of all tasks of an epoch, make it durable and publish it; `number` is the engine's own count."""
        reports = read_reports(encoded)
        plan = acknowledged(self.deployment, reports)
        self._progress.reported(reports)
        check_number(plan, number)
        self.refuse_overdue()
        is_replay = self.resumed is not None and plan.epoch == self.resumed.epoch
        held = self.planner.watermarks(plan, self._last)
        if not is_replay:
            self.planner.absorb(plan, reports)
        counts = self._accounted(reports, is_replay=is_replay)
        learned = self.planner.state
        staged = staged_epoch(self.deployment, plan, self._last, learned, reports, counts, segments)
        with self._control.publishing.of(f"epoch {plan.epoch}"):
            manifest = self._coordinator.commit(staged)
            if plan.savepoint is not None:
                self._savepoints.export(plan.savepoint, manifest, reports)
        self._last = plan
        try:
            if not is_replay:
                took = self._sink_seconds(), self._coordinator.phase_seconds()
                self._progress.published(PublishedEpoch(plan, counts, reports, held, segments, *took))
        finally:
            # The epoch is published, whatever a listener makes of it.
            self.planner.pause(self.deployment.epochs.min_pause / 1000)
            self.requests.epoch_done(plan)
        return plan

    def _accounted(self, reports: Sequence[TaskReport], *, is_replay: bool) -> Counts:
        """What became of the rows; an epoch in which some are missing, or too many were put aside, does not become durable."""
        counts = total(report.counts for report in reports)
        check_accounts(counts)
        if not is_replay:
            # Those of a durable epoch were agreed, and may be counted already.
            check_letters(self._letter_limits, self.result.counts, counts)
        return counts

    def _sink_seconds(self) -> dict[str, float]:
        """What each sink took to prepare and publish the epoch."""
        uids = uids_of(self.deployment)
        return {step: self._sink_parts[uids[step]].take_seconds() for step in self._owned.sinks}

    def take_native(self, copy: Callable[[Path, int], list[CopiedFile]]) -> None:
        """Serve the request for a native savepoint: `copy` brings the engine's files of an epoch into a directory."""
        with self._control.publishing.of("a savepoint"):
            self._savepoints.serve_native(self.requests, self._coordinator.newest(), copy)

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        told = problem if isinstance(problem, Exception) else None
        self._parts.add("the requests", lambda: self.requests.close(told))
        self.close(problem)

    def close(self, cause: BaseException | None = None) -> None:
        """Release sources, sinks, the lease and the store; the error that ends the run, if there is one, is kept."""
        self._owned.is_settled = unfinished(self.phase) is not Unfinished.PUBLISH
        self._parts.add("the epoch in flight", self._coordinator.abort)
        self.subtasks.abort(None if cause is None else str(cause))
        self._parts.close(cause)
