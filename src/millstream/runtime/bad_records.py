"""What happens to a record that cannot be processed: fail the run, skip it, or send it to the dead letters."""

from __future__ import annotations

import json
import signal
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.errors import MillstreamError, StepFailed
from millstream.graph.outputs import DEAD_SCHEMA, OnError
from millstream.model.counts import StepCounts
from millstream.model.time import to_datetime
from millstream.runtime.taken_rows import MADE, TakenRow, raw_row

UserProblem = Exception | SystemExit
USER_PROBLEMS = (Exception, SystemExit)
"""What user code may raise. A `sys.exit` inside a step would else end the program as if all had gone well."""
_SHOWN = 300
_MEND = "mend the step or the record"


class BadRecords:
    """Applies one step's policy and collects its dead letters; a step that offers none fails."""

    def __init__(self, step: str, on_error: OnError | None, counts: StepCounts, now: int) -> None:
        self._step, self._on_error, self._counts, self._now = step, on_error, counts, now
        self._letters: list[dict[str, Any]] = []
        self.origin_of: Callable[[bytes | None], str] | None = None
        """For rows that were replayed: where one of them comes from, by its form in a letter."""

    def refuse(
        self, record: Any, problem: UserProblem | str, *, origin: str = "", taken: TakenRow | None = None
    ) -> None:
        """Count a bad record and keep it, or raise what ends the run.

        Args:
            record: the record, as people are to see it.
            problem: what is wrong with it.
            origin: where it stands outside.
            taken: the row that the step took, where that is not the record.
        """
        raw = record if isinstance(record, bytes) else None
        if self._on_error == "dead_letter" and not isinstance(record, (str, bytes)):
            raw = raw_row(taken or TakenRow(record))
        self._keep(record, problem, origin, raw)
        if self._on_error == "skip":
            self._counts.skipped += 1
        else:
            self._counts.failed += 1

    def refuse_result(self, row: Any, problem: UserProblem | str) -> None:
        """The same for one of several rows made from a good record: the record itself has passed."""
        self._keep(row, problem, "", MADE)
        self._counts.refused += 1

    def _keep(self, record: Any, problem: UserProblem | str, origin: str, raw: bytes | None) -> None:
        # Who calls `sys.exit` wants to end, whatever is to become of bad records.
        is_end = isinstance(problem, SystemExit)
        if self._on_error is None or self._on_error == "fail" or is_end:
            ways = (
                "" if self._on_error is None or is_end else ", or set on_error='skip' or on_error=ms.dead_letter(sink)"
            )
            made = failure(self._step, record, problem, hint=_MEND + ways, origin=origin)
            raise made from (None if isinstance(problem, str) else problem)
        if self._on_error == "skip":
            return
        self._letters.append(
            {
                "step": self._step,
                "error": _text(problem),
                "record": as_text(record),
                "at": to_datetime(self._now),
                "origin": origin or (self.origin_of(raw) if self.origin_of is not None else "") or None,
                "raw": raw,
            }
        )

    def take_letters(self) -> pa.RecordBatch | None:
        """The dead letters since the last call."""
        if not self._letters:
            return None
        letters, self._letters = self._letters, []
        return pa.RecordBatch.from_pylist(letters, schema=DEAD_SCHEMA.arrow)


def failure(step: str, record: Any, problem: UserProblem | str, *, hint: str = _MEND, origin: str = "") -> StepFailed:
    """The error of a failed step: the user's file and line first, then the record."""
    if isinstance(problem, StepFailed):
        return problem
    where = "" if isinstance(problem, str) else user_line(problem)
    return StepFailed(
        f"{_text(problem)}{where}",
        step=step,
        found=f"record {as_text(record)[:_SHOWN]}" + (f" of {origin}" if origin else ""),
        hint=hint,
    )


def generator_failure(step: str, method: str, problem: UserProblem | str, found: str) -> StepFailed:
    """The error of a watermark generator, which is about no single record."""
    where = "" if isinstance(problem, str) else user_line(problem)
    return StepFailed(f"{_text(problem)}{where}", step=step, found=found, hint=f"correct {method} of the generator")


def as_text(record: Any) -> str:
    """A record as JSON text; values JSON does not know as their text."""
    if isinstance(record, str):
        return record
    if isinstance(record, bytes):
        return record.decode(errors="backslashreplace")
    plain = dict(record) if isinstance(record, Mapping) else getattr(record, "__dict__", record)
    return json.dumps(plain, default=str, ensure_ascii=False)


def _text(problem: UserProblem | str) -> str:
    if isinstance(problem, str):
        return problem
    if isinstance(problem, MillstreamError):
        offending = f"; found {problem.found}" if problem.found else ""
        return problem.message + offending + (f"; expected {problem.known}" if problem.known else "")
    return f"{type(problem).__name__}: {problem}"


def user_line(problem: BaseException) -> str:
    """The innermost line of the user's code: the last frame outside this package and the standard library.

    A program's own signal handler may end it while a step runs: its `SystemExit` is no failure of that step and goes on.
    """
    if isinstance(problem, SystemExit) and _is_of_signal(problem):
        raise problem
    package = str(Path(__file__).parent.parent)
    frames = traceback.extract_tb(problem.__traceback__)
    mine = [frame for frame in frames if not frame.filename.startswith((package, "<frozen"))]
    outside = [frame for frame in mine if "site-packages" not in frame.filename and "/lib/python" not in frame.filename]
    chosen = (outside or mine)[-1:] if not isinstance(problem, MillstreamError) else []
    return "".join(f" at {Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in chosen)


def _is_of_signal(problem: SystemExit) -> bool:
    handlers = {getattr(signal.getsignal(number), "__code__", None) for number in signal.valid_signals()}
    return any(frame.f_code in handlers for frame, _ in traceback.walk_tb(problem.__traceback__))
