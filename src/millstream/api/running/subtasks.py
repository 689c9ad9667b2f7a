"""The subtasks of a run, epoch by epoch: which attempt of which is where, while it runs and for a while behind that."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

KEPT_EPOCHS = 20


class SubtaskState(StrEnum):
    """Where an attempt of a subtask is. As in Flink; what it calls deploying and initializing takes no time of its own here."""

    SCHEDULED = "SCHEDULED"
    """Its level has not begun, or nobody has taken it yet."""
    RUNNING = "RUNNING"
    FINISHED = "FINISHED"
    CANCELED = "CANCELED"
    FAILED = "FAILED"

    @property
    def is_final(self) -> bool:
        """Whether nothing follows."""
        return self not in (SubtaskState.SCHEDULED, SubtaskState.RUNNING)


class SubtaskAttempt(msgspec.Struct, kw_only=True):
    """One attempt at a subtask. All vertices of its level run in it."""

    level: int
    subtask: int
    attempt: int
    state: SubtaskState
    seconds: float | None = None
    """How long it was at work."""
    error: str = ""


class SubtaskBook:
    """What is known of the subtasks of the last epochs; shared between threads."""

    def __init__(self, kept: int = KEPT_EPOCHS) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        self._epochs: dict[int, dict[tuple[int, int, int], SubtaskAttempt]] = {}
        self._tried: dict[tuple[int, int], int] = {}
        """Attempts at subtasks of the epoch under way that an earlier try of the whole epoch had made."""
        self._measures: dict[str, dict[int, tuple[float, int, int]]] = {}
        self.changes = 0
        """Counts what has changed: equal numbers say that nothing has."""

    def begin(self, epoch: int, subtasks: Sequence[int]) -> None:
        """An epoch begins, with so many subtasks in each level; one that is run again counts its attempts on."""
        with self._lock:
            attempts = self._epochs.pop(epoch, {})
            _close(attempts, SubtaskState.CANCELED, "the epoch began anew")
            self._tried = {}
            for level, subtask, attempt in attempts:
                self._tried[level, subtask] = max(attempt + 1, self._tried.get((level, subtask), 0))
            self._epochs[epoch] = attempts
            for level, count in enumerate(subtasks):
                for subtask in range(count):
                    self._note(level, subtask, 0, SubtaskState.SCHEDULED)
            while len(self._epochs) > self._kept:
                del self._epochs[min(self._epochs)]

    def note(
        self,
        level: int,
        subtask: int,
        attempt: int,
        state: SubtaskState,
        *,
        error: str = "",
        seconds: float | None = None,
    ) -> None:
        """An attempt of the epoch under way is in a state; a later attempt says that those before it have failed."""
        with self._lock:
            if self._epochs:
                self._note(level, subtask, attempt, state, error=error, seconds=seconds)

    def _note(
        self,
        level: int,
        subtask: int,
        attempt: int,
        state: SubtaskState,
        *,
        error: str = "",
        seconds: float | None = None,
    ) -> None:
        attempts = self._epochs[next(reversed(self._epochs))]
        number = attempt + self._tried.get((level, subtask), 0)
        found = attempts.get((level, subtask, number))
        if found is not None and (found.state.is_final or found.state is state):
            found.seconds = found.seconds if seconds is None else seconds
            return
        made = SubtaskAttempt(level=level, subtask=subtask, attempt=number, state=state, seconds=seconds, error=error)
        attempts[level, subtask, number] = made
        before = attempts.get((level, subtask, number - 1))
        if before is not None and not before.state.is_final:
            before.state, before.error = SubtaskState.FAILED, before.error or "it was tried again"
        self.changes += 1

    def abort(self, error: str | None) -> None:
        """The epoch under way does not come to its end: what runs has failed, or was canceled where nothing is wrong."""
        with self._lock:
            if self._epochs:
                attempts = self._epochs[next(reversed(self._epochs))]
                state = SubtaskState.CANCELED if error is None else SubtaskState.FAILED
                self.changes += _close(attempts, state, error or "")

    def measure(self, measures: dict[str, dict[int, tuple[float, int, int]]]) -> None:
        """What subtasks did in the newest epoch: by vertex and subtask the seconds at work, and rows in and out."""
        with self._lock:
            self._measures = measures

    def measures(self) -> dict[str, dict[str, tuple[float, int, int]]]:
        """What was measured last, with numbers of subtasks as text, as JSON has them."""
        with self._lock:
            return {
                vertex: {str(subtask): values for subtask, values in each.items()}
                for vertex, each in self._measures.items()
            }

    def facts(self) -> list[dict[str, Any]]:
        """The last epochs, oldest first: `[level, subtask, attempt, state, seconds, error]` of each attempt."""
        with self._lock:
            return [
                {"epoch": epoch, "attempts": [list(msgspec.structs.astuple(attempts[key])) for key in sorted(attempts)]}
                for epoch, attempts in self._epochs.items()
            ]


def _close(attempts: dict[tuple[int, int, int], SubtaskAttempt], state: SubtaskState, error: str) -> int:
    """End what has not ended; what was never taken is canceled."""
    left = [each for each in attempts.values() if not each.state.is_final]
    for each in left:
        each.error = error
        each.state = state if each.state is SubtaskState.RUNNING else SubtaskState.CANCELED
    return len(left)
