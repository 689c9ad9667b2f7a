"""The reading processes of a node: a few at once, kept for the next question, ended when nobody asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from millstream import errors
from millstream.contract.stored_questions import StoredAnswer, StoredQuestion
from millstream.control.stored.process import StoredProcess
from millstream.errors import ExternalFailure, MillstreamError

AT_ONCE = 3
SECONDS = 40.0
_IDLE_SECONDS = 300.0


class StoredReaders:
    """Asks processes; a question never waits for another, it is refused when there are too many.

    Args:
        at_once: questions under way.
        seconds: what one may take.
        idle: seconds without a question after which a process ends.
    """

    def __init__(
        self,
        *,
        at_once: int = AT_ONCE,
        seconds: float = SECONDS,
        idle: float = _IDLE_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._free, self._at_once = threading.BoundedSemaphore(at_once), at_once
        self._seconds, self._idle, self._monotonic = seconds, idle, monotonic
        self._lock = threading.Lock()
        self._waiting: list[tuple[StoredProcess, float]] = []
        """Processes that nobody asks now, the last used at the end, and since when."""
        self._busy: set[StoredProcess] = set()
        self._is_closed = False

    def ask(self, question: StoredQuestion, *, alone: bool = False) -> dict[str, Any]:
        """The answer to a question.

        Args:
            question: what is to be read.
            alone: in a process that nobody asked before or asks again, since code of a job runs in it.

        Raises:
            ExternalFailure: (CTL-140) as many as may are under way already; or it took too long.
            MillstreamError: what the process met.
        """
        if not self._free.acquire(blocking=False):
            msg = "the node is reading for others"
            hint = "ask again in a moment"
            raise ExternalFailure(msg, code="CTL-140", found=f"{self._at_once} readings under way", hint=hint)
        try:
            return _value(self._asked(question, alone=alone))
        finally:
            self._free.release()

    def _asked(self, question: StoredQuestion, *, alone: bool) -> StoredAnswer:
        process, is_sound = self._taken(alone=alone), False
        try:
            answer = process.ask(question, self._seconds)
            is_sound = True
            return answer
        finally:
            self._put_back(process, is_sound=is_sound, is_kept=is_sound and not alone)

    def _taken(self, *, alone: bool) -> StoredProcess:
        with self._lock:
            if self._is_closed:
                msg = "the node ends"
                raise ExternalFailure(msg, code="CTL-140", hint="ask again in a moment")
            process = None
            while process is None and self._waiting and not alone:
                process, _ = self._waiting.pop()
                if not process.is_alive:
                    process.close()
                    process = None
            process = process or StoredProcess()
            self._busy.add(process)
            return process

    def _put_back(self, process: StoredProcess, *, is_sound: bool, is_kept: bool) -> None:
        with self._lock:
            self._busy.discard(process)
            if is_kept and not self._is_closed:
                self._waiting.append((process, self._monotonic()))
                return
        process.close(at_once=not is_sound)

    def tend(self) -> None:
        """End those that nobody has asked for a while."""
        with self._lock:
            since = self._monotonic() - self._idle
            over = [process for process, used in self._waiting if used <= since]
            self._waiting = [each for each in self._waiting if each[1] > since]
        for process in over:
            process.close()

    def pids(self) -> list[int]:
        """The processes that there are."""
        with self._lock:
            return [process.pid for process in (*self._busy, *(each for each, _ in self._waiting))]

    def close(self) -> None:
        """End all of them, whatever they do."""
        with self._lock:
            self._is_closed = True
            over, self._waiting = self._waiting, []
            busy = list(self._busy)
        for process, _ in over:
            process.close()
        for process in busy:
            process.kill()


def _value(answer: StoredAnswer) -> dict[str, Any]:
    if answer.error is not None:
        raise error_in(answer.error)
    assert answer.value is not None, "an answer is a value or an error"
    return answer.value


def error_in(facts: dict[str, Any]) -> MillstreamError:
    """An error as it was met in another process, with its class and fields."""
    kind = getattr(errors, str(facts.get("kind")), None)
    if not (isinstance(kind, type) and issubclass(kind, MillstreamError)):
        kind = ExternalFailure if facts.get("domain") == "external" else MillstreamError
    fields = {name: facts.get(name) for name in ("code", "step", "found", "known", "hint")}
    return kind(facts.get("message") or "it could not be read", **fields)
