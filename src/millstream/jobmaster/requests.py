"""Turns requests into what the planner and the engine do, and answers them when it is done."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from millstream.api.running.control import Answer, Pending, RequestBox, RunControl, checked_request, failed
from millstream.api.running.result import Ending
from millstream.checkpoint.savepoint import existing_savepoint, safe_name
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused, InvalidStep, MillstreamError
from millstream.jobmaster.planner.planner import Planner
from millstream.plan.epoch import EpochPlan, SavepointRequest

_log = logging.getLogger(__name__)
_POLL_SECONDS = 0.5
"""How often requests of other processes are looked for: every look lists the store."""


class Requests:
    """The requests of one run: those of its own process and those left in the store.

    The engine polls in one thread and finishes epochs in another.
    """

    def __init__(
        self,
        store: ManifestStore,
        control: RunControl,
        planner: Planner,
        savepoints: Path | None,
        old: frozenset[str] = frozenset(),
        *,
        replacing: Sequence[str] = (),
    ) -> None:
        """Take requests from now on.

        Args:
            store: where other processes leave them.
            control: those of this process.
            planner: decides what an epoch has to do with them.
            savepoints: where savepoints go by default.
            old: names those that were left before the run began.
            replacing: sinks that show the result of a run as a whole.
        """
        self._box, self._control, self._planner, self._savepoints = RequestBox(store), control, planner, savepoints
        self._old, self._replacing = old, replacing
        self._lock = threading.RLock()
        self._open: dict[str, Pending] = {}
        self._polled = float("-inf")
        self._queue: list[Pending] = []
        self.ended: Ending | None = None
        """Why the run is to end now."""
        self.native: Pending | None = None
        """A savepoint the engine must copy, once its last epoch is logged."""

    def poll(self) -> None:
        """Take new requests; one savepoint is taken at a time."""
        with self._lock:
            self._poll()

    def _poll(self) -> None:
        self._queue += self._control.taken()
        if time.monotonic() - self._polled >= _POLL_SECONDS:
            self._polled = time.monotonic()
            self._queue += self._without_old_cancels(self._box.taken())
        for pending in list(self._queue):
            # Cancelling does not wait for what was asked before.
            if self._open and pending.request.action != "cancel":
                continue
            self._queue.remove(pending)
            try:
                self._begin(pending)
            except (MillstreamError, OSError) as problem:
                self._settle(pending, failed(pending.request.id, problem))

    def _without_old_cancels(self, pendings: list[Pending]) -> list[Pending]:
        """Who asked an earlier run to stop at once has what was asked for: that run is over."""
        for pending in [each for each in pendings if each.request.id in self._old and each.request.action == "cancel"]:
            pendings.remove(pending)
            self._settle(pending, Answer(id=pending.request.id, done=True))
        return pendings

    def _begin(self, pending: Pending) -> None:
        request = pending.request
        if request.action == "cancel":
            # A run whose last epoch is published has ended already, in its own way.
            self.ended = self.ended or "cancelled"
            self._control.must_end = self._control.is_cancelled = True
            self._settle(pending, Answer(id=request.id, done=True))
        elif request.action == "drain":
            self._refuse_half()
            self._open[request.id] = pending
            self._planner.drain()
        else:
            self._begin_savepoint(pending)

    def _refuse_half(self) -> None:
        """A drain completes a run whose input has not ended: that would put half a result in the place of a whole one."""
        if self._replacing:
            msg = "the run replaces the result of the one before, and drained it would do so with half of one"
            hint = "suspend or cancel it: the next start goes on with it; or let it end"
            raise InvalidStep(msg, code="RUN-028", step=self._replacing[0], hint=hint)

    def _begin_savepoint(self, pending: Pending) -> None:
        request = pending.request
        path, ends = self._path(pending), request.action == "suspend"
        if existing_savepoint(path, request.id) is not None:
            self.savepoint_done(pending, str(path))
            return
        self._open[request.id] = pending
        if request.form == "native":
            if ends:
                self._planner.hold()
            self.native = pending
        else:
            self._planner.export(SavepointRequest(id=request.id, path=str(path.resolve()), ends=ends))

    def _path(self, pending: Pending) -> Path:
        request = pending.request
        folder = Path(request.to).resolve() if request.to else self._savepoints
        if folder is None:
            msg = "a savepoint needs a place"
            raise InvalidStep(msg, code="STEP-091", hint="say where: to=DIR, or run with a checkpoint directory")
        return folder / f"savepoint-{safe_name(request.id)}"

    def native_path(self, pending: Pending) -> Path:
        """Where the engine copies a native savepoint to."""
        return self._path(pending)

    def savepoint_done(self, pending: Pending, path: str) -> None:
        """A savepoint is valid: answer, and end the run if it was asked to."""
        with self._lock:
            if pending is self.native:
                self.native = None
            if pending.request.action == "suspend":
                self._planner.hold()
                self.ended = "suspended"
                self._control.must_end = True
            self._settle(pending, Answer(id=pending.request.id, done=True, path=path))

    def savepoint_failed(self, pending: Pending, problem: Exception) -> None:
        """A native savepoint could not be copied."""
        with self._lock:
            self.native = None
            self._settle(pending, failed(pending.request.id, problem))

    def epoch_done(self, plan: EpochPlan) -> None:
        """An epoch is published: answer who waited for it."""
        with self._lock:
            self._epoch_done(plan)

    def _epoch_done(self, plan: EpochPlan) -> None:
        wanted = plan.savepoint
        if wanted is not None:
            pending = self._open.get(wanted.id)
            if pending is not None:
                self.savepoint_done(pending, wanted.path)
        if plan.terminal:
            was_asked = [pending for pending in self._open.values() if pending.request.action == "drain"]
            self.ended = "drained" if was_asked else "finished"
            for pending in was_asked:
                self._settle(pending, Answer(id=pending.request.id, done=True))

    def close(self, problem: Exception | None = None) -> None:
        """The run is over: whoever still waits in this process learns that."""
        reason = problem or InvalidStep("the run ended before", code="STEP-092", hint="ask again when it runs")
        with self._lock:
            for pending in [*self._open.values(), *self._queue, *self._control.taken()]:
                pending.settle(self._answered(pending, problem) or failed(pending.request.id, reason))
            self._open.clear()

    def _answered(self, pending: Pending, problem: Exception | None) -> Answer | None:
        """The last thing that was done may have been asked for twice."""
        try:
            return self._box.answer(pending.request.id) if problem is None else None
        except CheckpointRefused as damage:
            return failed(pending.request.id, damage)

    def _settle(self, pending: Pending, answer: Answer) -> None:
        self._open.pop(answer.id, None)
        try:
            self._box.reply(answer)
        finally:
            pending.settle(answer)
        if not answer.done and pending.otherwise is not None:
            _log.warning("%s could not be done, so the run does %s: %s", *_refused(pending, answer))
            self._queue.append(Pending(checked_request(pending.otherwise)))


def _refused(pending: Pending, answer: Answer) -> tuple[str, str | None, str]:
    return pending.request.action, pending.otherwise, str(answer.error.get("message"))
