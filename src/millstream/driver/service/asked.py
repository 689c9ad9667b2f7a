"""What the node asks of the run, from the line to its answer."""

from __future__ import annotations

import threading

import msgspec

from millstream.api.running.control import Answer, Pending, RunControl, checked_request, failed
from millstream.contract.driver_protocol import RunRequest
from millstream.driver.service.reports import Reports
from millstream.errors import InvalidStep, MillstreamError


class AskedOfRun:
    """Requests under way and answered. They may come before the run begins, and it takes them when it does."""

    def __init__(self, control: RunControl, reports: Reports) -> None:
        self._control, self._reports = control, reports
        self._lock = threading.Lock()
        self._open: dict[str, Pending] = {}
        self._answered: dict[str, Answer] = {}
        self._is_over = False

    def ask(self, line: RunRequest) -> None:
        """Hand a request to the run; one that was answered is answered again."""
        with self._lock:
            self._reports.report("ack", {"id": line.id, "action": line.action})
            if line.id in self._answered:
                self._tell(self._answered[line.id])
            elif self._is_over:
                self._settle(failed(line.id, _ended()))
            elif line.id not in self._open:
                self._begin(line)

    def _begin(self, line: RunRequest) -> None:
        try:
            checked_request(line.action, to=line.to, form=line.form, id=line.id)
        except MillstreamError as problem:
            self._settle(failed(line.id, problem))
            return
        self._open[line.id] = self._control.ask(line.action, to=line.to, form=line.form, id=line.id)

    def look(self) -> None:
        """Report what was answered since the last look."""
        with self._lock:
            for pending in list(self._open.values()):
                try:
                    self._settle(pending.wait(0))
                except TimeoutError:
                    continue

    def end(self) -> None:
        """The run is over: whoever still waits learns that."""
        self.look()
        with self._lock:
            self._is_over = True
            for id, pending in list(self._open.items()):
                # A run that is cancelled before it begins has done what it was asked for.
                is_done = pending.request.action == "cancel"
                self._settle(Answer(id=id, done=True) if is_done else failed(id, _ended()))

    def _settle(self, answer: Answer) -> None:
        self._open.pop(answer.id, None)
        self._answered[answer.id] = answer
        self._tell(answer)

    def _tell(self, answer: Answer) -> None:
        self._reports.report("answer", msgspec.to_builtins(answer))


def _ended() -> InvalidStep:
    return InvalidStep("the run ended before", code="STEP-092", hint="ask again when it runs")
