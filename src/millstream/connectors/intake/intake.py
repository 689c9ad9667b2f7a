"""Receives in threads of the driver, ahead of the epochs: what came lies in the log, and waits there until an epoch takes it.

A source gives a `Receiver`. Its thread begins behind what the log already holds, hands over what it receives, and stops where it
is too far ahead. Nobody waits in `advance` for it: what is durable is there at once, and what went wrong is raised there.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from millstream.connectors.intake.files import LoggedEntry, LogPlace, entries_between
from millstream.connectors.intake.log import IntakeLog, ReceivedEntry, delete_behind
from millstream.contract.source import Ahead
from millstream.errors import CheckpointRefused, ExternalFailure

_CLOSING_SECONDS = 10.0
_GROUP_SECONDS = 0.01
"""How long groups are apart at least: to make one durable takes time from those who receive, and nobody waits for single ones."""


class Receiver(Protocol):
    """What fetches or listens."""

    def run(self, intake: Intake, waiting: Sequence[LoggedEntry]) -> None:
        """Receive until there is nothing more or `intake.is_closed`. `waiting` lies in the log already, behind the start."""
        ...

    def stop(self) -> None:
        """End what `run` waits for; called from another thread."""
        ...


class Intake:
    """The log of one source, with the thread that fills it and what is known of it without reading it."""

    def __init__(
        self, folder: Path, token: int, *, ahead_bytes: int, takes_rest: bool, file_bytes: int | None = None
    ) -> None:
        """`ahead_bytes` may wait for epochs; `takes_rest` says whether to go on behind what an earlier owner has received."""
        self._folder, self._ahead_bytes, self._takes_rest = folder, ahead_bytes, takes_rest
        self._log = IntakeLog(folder, token) if file_bytes is None else IntakeLog(folder, token, file_bytes=file_bytes)
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        """Set when somebody waits until all that was received is durable, or the intake closes."""
        self._received: deque[ReceivedEntry] = deque()
        self._unwritten = 0
        """How many entries were received and are not durable yet."""
        self._logged: list[LoggedEntry] = []
        self._index: dict[LogPlace, int] = {}
        """Per place how many of the entries lie before it."""
        self._taken = 0
        """How many of the entries an epoch has taken for certain."""
        self._waiting_bytes = 0
        self._failure: BaseException | None = None
        self._is_final = False
        """Whether the failure has ended a thread."""
        self._is_done = self.is_closed = False
        self._acknowledged: LogPlace | None = None
        self._threads: list[threading.Thread] = []
        self._receiver: Receiver | None = None

    # The driver's side.

    def begin(self, start: LogPlace, receiver: Receiver) -> None:
        """Start receiving behind a place; once, where the first epoch of this owner begins."""
        if self._receiver is None:
            self._receiver = receiver
            self._index[start] = 0
            self._start(self._write, start, receiver)

    def after(self, start: LogPlace) -> list[LoggedEntry]:
        """What is durable behind a place; what lies before it is taken, and makes room."""
        with self._changed:
            first = self._index.get(start)
            if first is None:
                raise _unknown(self._folder, start)
            self._waiting_bytes -= sum(entry.bytes for entry in self._logged[self._taken : first])
            self._taken = max(self._taken, first)
            self._changed.notify_all()
            return self._logged[first:]

    @property
    def is_filling(self) -> bool:
        """Whether more may come by itself: nothing has ended or failed, and there is room."""
        with self._changed:
            is_over = self._is_done or self.is_closed or self._failure is not None
            return not is_over and self._waiting_bytes < self._ahead_bytes

    def ahead(self, admitted: Sequence[LoggedEntry]) -> Ahead:
        """What waits for later epochs than the one that admits these entries."""
        with self._changed:
            return Ahead(max(0, self._waiting_bytes - sum(entry.bytes for entry in admitted)), self._ahead_bytes)

    def raise_failure(self) -> None:
        """Raise what went wrong in the threads. What the receiver can try again, it tries once that is told."""
        with self._changed:
            failure = self._failure
            if not self._is_final:
                self._failure = None
                self._changed.notify_all()
        if failure is not None:
            raise failure

    def between(self, start: LogPlace, end: LogPlace) -> list[LoggedEntry]:
        """What lies between two places, also when an earlier owner planned them."""
        with self._changed:
            first, last = self._index.get(start), self._index.get(end)
            if first is not None and last is not None:
                return self._logged[first:last]
        return entries_between(self._folder, start, end)

    def acknowledge(self, place: LogPlace) -> None:
        """Everything before a place is published: delete the files behind the place acknowledged before it.

        The epoch that is published last may be run once more, to rebuild state: what it read stays until the next one is.
        """
        if place == self._acknowledged:
            return
        if self._acknowledged is not None:
            delete_behind(self._folder, self._acknowledged)
            self._forget(self._acknowledged)
        self._acknowledged = place

    def _forget(self, place: LogPlace) -> None:
        with self._changed:
            count = self._index.get(place)
            if count is None or count > self._taken:
                return
            del self._logged[:count]
            self._taken -= count
            self._index = {each: number - count for each, number in self._index.items() if number >= count}

    def close(self) -> None:
        """End the threads and close the file."""
        with self._changed:
            self.is_closed = True
            self._hurry.set()
            self._changed.notify_all()
        if self._receiver is not None:
            self._receiver.stop()
        for thread in self._threads:
            thread.join(_CLOSING_SECONDS)

    # The receiver's side.

    def wait_for_room(self) -> bool:
        """Wait while too much lies ahead of the epochs; `False` when the intake is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self.is_closed or self._waiting_bytes < self._ahead_bytes)
            return not self.is_closed

    def put(self, entry: ReceivedEntry) -> None:
        """Hand over what was received; the order of calls is the order of the log. Behind the close it is let go."""
        with self._changed:
            if self.is_closed:
                return
            self._received.append(entry)
            self._unwritten += 1
            self._waiting_bytes += len(entry.body)
            if len(self._received) == 1:
                self._changed.notify_all()

    def fail(self, problem: ExternalFailure) -> bool:
        """Leave word that the outside is away, and wait until that was told; `False` when receiving is over."""
        with self._changed:
            self._wait_until_written()
            self._failure = self._failure or problem
            self._changed.notify_all()
            self._changed.wait_for(lambda: self.is_closed or self._failure is None)
            return not self.is_closed

    def wait(self, seconds: float) -> bool:
        """Let time pass; `False` when the intake is closed meanwhile."""
        with self._changed:
            return not self._changed.wait_for(lambda: self.is_closed, seconds)

    # The thread that writes.

    def _write(self, start: LogPlace, receiver: Receiver) -> None:
        with self._failing(), contextlib.closing(self._log):
            waiting = self._log.adopt(start, rest=self._takes_rest)
            self._take(waiting, ())
            self._start(self._receive, receiver, waiting)
            while received := self._next():
                written = time.monotonic()
                self._take(self._log.append(received), received)
                self._hurry.wait(max(0.0, written + _GROUP_SECONDS - time.monotonic()))

    def _next(self) -> list[ReceivedEntry]:
        """Everything that came since the group before, at the close too: it need not be asked for again. Nothing at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._received or self.is_closed or self._is_done)
            received = list(self._received)
            self._received.clear()
            return received

    def _take(self, logged: Sequence[LoggedEntry], received: Sequence[ReceivedEntry]) -> None:
        with self._changed:
            for entry in logged:
                self._logged.append(entry)
                self._index[entry.place] = len(self._logged)
            self._waiting_bytes += sum(entry.bytes for entry in logged) - sum(len(entry.body) for entry in received)
            self._unwritten -= len(received)
            self._changed.notify_all()

    def _wait_until_written(self) -> None:
        """What came before an error is durable before the error is told: it is read first."""
        self._hurry.set()
        self._changed.wait_for(lambda: not self._unwritten or self.is_closed or self._is_final)
        if not self.is_closed:
            self._hurry.clear()

    def _receive(self, receiver: Receiver, waiting: Sequence[LoggedEntry]) -> None:
        with self._failing():
            try:
                receiver.run(self, waiting)
            finally:
                with self._changed:
                    self._wait_until_written()
        with self._changed:
            self._is_done = True
            self._changed.notify_all()

    def _start(self, target: object, *arguments: object) -> None:
        assert callable(target)
        thread = threading.Thread(target=target, args=arguments, name="millstream-intake", daemon=True)
        with self._changed:
            if self.is_closed:
                return
            self._threads.append(thread)
            thread.start()

    @contextlib.contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except BaseException as problem:
            # Whatever ends this thread: whoever waits for what it brings must hear of it.
            with self._changed:
                if not self._is_final:
                    self._failure, self._is_final = problem, True
                self._changed.notify_all()


def _unknown(folder: Path, place: LogPlace) -> CheckpointRefused:
    msg = f"a place is not known in the intake log {str(folder)!r}"
    hint = "restore the folder of the source inside the checkpoint, with all its files"
    return CheckpointRefused(msg, code="INTAKE-003", found=repr(list(place)), hint=hint)
