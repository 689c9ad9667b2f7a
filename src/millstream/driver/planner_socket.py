"""The planner behind a local socket: Spark's source asks it what the next epoch is."""

from __future__ import annotations

import json
import socket
import socketserver
import threading
import time
from pathlib import Path
from typing import Any

import msgspec

from millstream.errors import MillstreamError
from millstream.jobmaster.run import Run
from millstream.plan.epoch import EpochPlan, plan_from_json

_LOOK_SECONDS = 0.01
_ANSWER_SECONDS = 0.1
"""How long Spark waits for the answer that nothing is due. Each of its questions passes the JVM and another process, so a job
without input that was asked anew all the time would keep a fifth of a core busy."""
_FIRST_SECONDS = 0.5
"""The same for the first epoch of input that has an end: Spark runs it in any case, and the first rows are on their way."""


class PlannerSocket:
    """Serves one run's planner until it is closed; keeps the first error, which ends the run."""

    def __init__(self, run: Run, path: Path, *, begun: int = -1) -> None:
        self._run = run
        self._planned = begun
        self.path = str(path)
        self.problem: Exception | None = None
        self._lock = threading.Lock()
        self._server = socketserver.ThreadingUnixStreamServer(self.path, self._handler())
        self._server.daemon_threads = True
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="millstream-planner", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        # `serve_forever` looks twice a second whether it is to end, and the end of a run would wait for that.
        while not self._closed.is_set():
            try:
                self._server.process_request(*self._server.get_request())
            except (OSError, RuntimeError):  # closed; or too many files or threads, which passes
                self._closed.wait(0.05)

    @property
    def planned(self) -> int:
        """The newest epoch that Spark was told of, in this run or before; waits for an answer under way."""
        with self._lock:
            return self._planned

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        answer = self._answer

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                for line in self.rfile:
                    self.wfile.write(json.dumps(answer(json.loads(line))).encode() + b"\n")
                    self.wfile.flush()

        return Handler

    def _answer(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"ok": self._ANSWERS[request["op"]](self, request)}
        except Exception as problem:
            self.problem = self.problem or problem
            text = problem.message if isinstance(problem, MillstreamError) else f"{type(problem).__name__}: {problem}"
            return {"error": text}

    def _initial(self, _: dict[str, Any]) -> Any:
        with self._lock:
            return self._run.planner.initial().to_json()

    def _next(self, request: dict[str, Any]) -> Any:
        last = plan_from_json(request["last"])
        is_first = last.epoch < 0
        until = time.monotonic() + (_FIRST_SECONDS if is_first and self._run.deployment.is_bounded else _ANSWER_SECONDS)
        while (plan := self._planned_behind(last)) is last and not self._is_over(last) and time.monotonic() < until:
            self._closed.wait(_LOOK_SECONDS)
        if plan is last and is_first:
            # Spark takes the very first offset for new, also when it is the one before it: its first batch runs in any case.
            plan = self._planned_behind(last, always_begins=True)
        # Spark starts a batch when the text of the offset changes; nothing due must give back the very same value.
        return request["last"] if plan == last else plan.to_json()

    def _planned_behind(self, last: EpochPlan, *, always_begins: bool = False) -> EpochPlan:
        with self._lock:
            plan = self._run.plan_next(last, always_begins=always_begins)
            self._planned = max(self._planned, plan.epoch)
            return plan

    def _is_over(self, last: EpochPlan) -> bool:
        """Whether no epoch will follow: whoever ends the query is not to wait for an answer."""
        return last.terminal or self._closed.is_set() or self._run.requests.ended is not None

    def _tasks(self, request: dict[str, Any]) -> Any:
        start, end = plan_from_json(request["start"]), plan_from_json(request["end"])
        with self._lock:
            tasks = self._run.planner.tasks(start, end, self._run.identity_for(end))
        return [msgspec.msgpack.encode(task).hex() for task in tasks]

    _ANSWERS = {"initial": _initial, "next": _next, "tasks": _tasks}

    def close(self) -> None:
        """Stop serving; once more does no harm."""
        if self._closed.is_set():
            return
        self._closed.set()
        self._server.socket.shutdown(socket.SHUT_RDWR)
        self._server.server_close()
        self._thread.join()
