"""`RunningJob`: a job that runs in a thread of this process, and what may be asked of it."""

from __future__ import annotations

import contextlib
import threading
import uuid
from collections import deque
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, get_args

from millstream import errors, registry
from millstream.api.running.control import Action, Answer, Pending, RunControl
from millstream.api.running.result import EpochSummary, Listener, PartitionWatermark, RunResult
from millstream.errors import InvalidStep, MillstreamError, StepFailed
from millstream.graph.model import Carry, checked_carry
from millstream.model.connector import NewerOutput
from millstream.model.time import DurationLike, duration_ms
from millstream.plan.deployment import DeploymentPlan
from millstream.plan.option_values import flag, path_or_url
from millstream.plan.start import Start
from millstream.tracebacks import public

NEWER_OUTPUT = get_args(NewerOutput)
_KEPT_EPOCHS = 1000
_POLL_SECONDS = 0.1
_LONGEST_ID = 200


class JobRunner(Protocol):
    """Runs a job to its end."""

    def __call__(self, *, control: RunControl | None = None, listener: Listener | None = None) -> RunResult:
        """What the run did."""
        ...


def engine_for(
    deployment: DeploymentPlan,
    *,
    local: bool = False,
    from_savepoint: str | Path | None = None,
    on_newer_output: NewerOutput = "refuse",
    allow_dropped_state: bool = False,
    ignore_state_once: bool = False,
    carry: Carry | None = None,
    run_id: str | None = None,
    claim: int = 0,
    **options: Any,
) -> JobRunner:
    """The engine of a run, told where to begin. Engines are found by name: one of them brings pyspark along."""
    if on_newer_output not in NEWER_OUTPUT:
        msg = "unknown wish about newer output"
        raise InvalidStep(
            msg, code="STEP-093", found=repr(on_newer_output), known=NEWER_OUTPUT, hint="use on_newer_output='refuse'"
        )
    flag("local", local)
    start = Start(
        savepoint=path_or_url("from_savepoint", from_savepoint),
        newer_output=on_newer_output,
        allow_dropped_state=flag("allow_dropped_state", allow_dropped_state),
        ignore_state_once=flag("ignore_state_once", ignore_state_once),
        carry=deployment.plan.graph.requirements.carry if carry is None else checked_carry(carry),
        run=uuid.uuid4().hex[:12] if run_id is None else _run_id(run_id),
        claim=claim,
    )
    engine = registry.find("engines", "local" if local else "spark")
    return partial(engine.run, deployment, start=start, **options)


def _run_id(given: object) -> str:
    if isinstance(given, str) and 0 < len(given) <= _LONGEST_ID and given.isprintable():
        return given
    msg = "run_id does not name a run"
    known = f"1 to {_LONGEST_ID} printable characters"
    raise InvalidStep(msg, code="RUN-027", found=repr(given), known=known, hint="pass for example '2024-01-31'")


def listening(on_epoch: Listener | None) -> Listener | None:
    """A listener of the user's as a run calls it: an error of it ends the run, behind the epoch it was told of."""
    if on_epoch is None:
        return None
    if not callable(on_epoch):
        msg = "on_epoch is not a function"
        raise InvalidStep(msg, code="STEP-266", found=repr(on_epoch), hint="pass a function that takes a summary")

    def listen(summary: EpochSummary) -> None:
        try:
            on_epoch(summary)
        except Exception as problem:
            msg = f"on_epoch failed after epoch {summary.epoch}, which stays published: {type(problem).__name__}: {problem}"
            hint = "mend on_epoch and run the job again; with a checkpoint it resumes behind that epoch"
            raise StepFailed(msg, code="STEP-265", hint=hint) from problem

    return listen


@public
class RunningJob:
    """A job that runs. Made by `Job.start`.

    Requests may come from any thread. Asking for an end waits for it; a request that cannot be done raises, and the job
    goes on.
    """

    def __init__(
        self, name: str, engine: JobRunner, *, listener: Listener | None = None, control: RunControl | None = None
    ) -> None:
        self.name = name
        self._engine, self._listener = engine, listener
        self._control = control or RunControl()
        self._epochs: deque[EpochSummary] = deque(maxlen=_KEPT_EPOCHS)
        self._result: RunResult | None = None
        self._problem: BaseException | None = None
        self._trace: TracebackType | None = None
        self._ended = threading.Event()
        # A process that ends does not wait for it: what is not durable then is done again by the next run.
        self._thread = threading.Thread(target=self._run, name=f"millstream-{name}", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._result = self._engine(control=self._control, listener=self._note)
        except BaseException as problem:  # raised again by `wait`, in the thread that asks
            self._problem, self._trace = problem, problem.__traceback__
        finally:
            self._ended.set()

    def _note(self, summary: EpochSummary) -> None:
        self._epochs.append(summary)
        if self._listener is not None:
            self._listener(summary)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return not self._ended.is_set()

    @property
    def failures(self) -> int:
        """How often it failed so far: what it got over, and what ended it."""
        return self._control.failures

    @property
    def epochs(self) -> list[EpochSummary]:
        """The newest published epochs in numbers, oldest first; at most the last 1,000."""
        return list(self._epochs)

    def watermarks(self) -> list[PartitionWatermark]:
        """How far each source partition had come at the newest epoch; empty before the first.

        Each value has `step`, `partition`, `watermark` in milliseconds, `is_idle`, `is_holding` (the watermark of the step
        is where it is because of it) and `is_paused` (it waits for slower members of its alignment group).
        """
        newest = next(reversed(self._epochs), None)
        return [] if newest is None else list(newest.watermarks)

    def ask(
        self,
        action: Action,
        *,
        to: str | Path | None = None,
        id: str | None = None,
        native: bool = False,
        otherwise: Action | None = None,
    ) -> Pending:
        """Hand a request to the run without waiting; its `wait()` gives the answer.

        Args:
            action: `drain`, `suspend`, `cancel` or `savepoint`.
            to: the folder that holds savepoints; by default `savepoints` in the checkpoint directory.
            id: names the request; asking again with the same id makes no second savepoint.
            native: a fast copy of the engine's own files, for the same plan only.
            otherwise: what the run does if it cannot do that.
        """
        place = "" if to is None else str(Path(to).resolve())
        return self._control.ask(action, to=place, form="native" if native else "canonical", id=id, otherwise=otherwise)

    def drain(self, timeout: DurationLike | None = None) -> RunResult:
        """Read nothing more, close what is open, publish, end. The job is complete then."""
        return self._end("drain", timeout)

    def suspend(
        self,
        to: str | Path | None = None,
        *,
        id: str | None = None,
        native: bool = False,
        timeout: DurationLike | None = None,
    ) -> RunResult:
        """Take a savepoint and end; `savepoint` of the result is its directory. Running the job again resumes it."""
        return self._end("suspend", timeout, to=to, id=id, native=native)

    def cancel(self, timeout: DurationLike | None = None) -> RunResult:
        """End now. What was published stays; running the job again resumes it."""
        return self._end("cancel", timeout)

    def export_savepoint(
        self,
        to: str | Path | None = None,
        *,
        id: str | None = None,
        native: bool = False,
        timeout: DurationLike | None = None,
    ) -> str:
        """Take a savepoint while the job goes on; returns its directory."""
        return self._answer(self.ask("savepoint", to=to, id=id, native=native), timeout).path

    def wait(self, timeout: DurationLike | None = None) -> RunResult:
        """The result, once the job has ended; raises what made it fail.

        Raises:
            TimeoutError: it has not ended in that time: a duration such as `10s`, or seconds.
        """
        seconds = _seconds(timeout)
        if not self._ended.wait(seconds):
            msg = f"job {self.name!r} has not ended in {seconds} s"
            raise TimeoutError(msg)
        # An interpreter that ends while native code of the thread still cleans up would abort.
        self._thread.join()
        if self._problem is not None:
            # Asked twice, it would otherwise show the frames of both askers.
            raise self._problem.with_traceback(self._trace)
        assert self._result is not None, "a run that ended without a problem has a result"
        return self._result

    def _end(self, action: Action, timeout: DurationLike | None, **wish: Any) -> RunResult:
        self._answer(self.ask(action, **wish), timeout)
        return self.wait(timeout)

    def _answer(self, pending: Pending, timeout: DurationLike | None) -> Answer:
        """The answer to a request; a run that ended without one says why."""
        waited, seconds = 0.0, _seconds(timeout)
        while seconds is None or waited < seconds:
            with contextlib.suppress(TimeoutError):
                return checked(pending.wait(_POLL_SECONDS))
            waited += _POLL_SECONDS
            if not self.is_running:
                with contextlib.suppress(TimeoutError):
                    return checked(pending.wait(0))
                self.wait()
                msg = f"job {self.name!r} has ended"
                raise InvalidStep(msg, code="STEP-092", hint="ask while it runs, or start it again")
        msg = f"request {pending.request.id!r} was not answered in {seconds} s"
        raise TimeoutError(msg)


def _seconds(timeout: DurationLike | None) -> float | None:
    return None if timeout is None else duration_ms(timeout, what="timeout") / 1000


def checked(answer: Answer) -> Answer:
    """An answer; that a request could not be done is raised."""
    if answer.done:
        return answer
    fields = dict(answer.error)
    message = fields.pop("message", None) or "the request could not be done"
    kind = getattr(errors, str(fields.pop("kind", "")), MillstreamError)
    raise kind(message, **fields)
