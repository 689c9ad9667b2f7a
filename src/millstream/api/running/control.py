"""What people ask of a run while it runs: end it in one of three ways, or take a savepoint."""

from __future__ import annotations

import re
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from millstream.api.running.publishing import Publishing
from millstream.api.running.run_log import RunLog
from millstream.api.running.subtasks import SubtaskBook
from millstream.checkpoint.sealed import damaged
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import ExternalFailure, InvalidStep, MillstreamError

Action = Literal["cancel", "drain", "suspend", "savepoint"]
ACTIONS: tuple[Action, ...] = ("cancel", "drain", "suspend", "savepoint")
Form = Literal["canonical", "native"]
FORMS: tuple[Form, ...] = ("canonical", "native")
_LEAVE_SECONDS = 0.02
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}")
"""An id names objects and directories."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One wish. Its id is chosen by whoever asks: asking again with the same id changes nothing."""

    id: str
    action: Action
    to: str = ""
    """Where the savepoint goes: a folder that holds one directory per savepoint."""
    form: Form = "canonical"


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a request."""

    id: str
    done: bool
    path: str = ""
    """The savepoint's directory."""
    error: dict[str, Any] = {}


class Pending:
    """A request on its way; `wait` gives its answer."""

    def __init__(self, request: Request, *, otherwise: Action | None = None) -> None:
        self.request, self.otherwise = request, otherwise
        self._answered = threading.Event()
        self._answer: Answer | None = None

    def wait(self, timeout: float | None = None) -> Answer:
        """The answer, once there is one."""
        if not self._answered.wait(timeout):
            msg = f"request {self.request.id!r} was not answered in {timeout} s"
            raise TimeoutError(msg)
        assert self._answer is not None, "an answered request has an answer"
        return self._answer

    def settle(self, answer: Answer) -> None:
        """Called by the run."""
        self._answer = answer
        self._answered.set()


class HeldBack(Exception):
    """A run was cancelled while it was not allowed to publish."""


class RunControl:
    """Requests of the process that runs a job; shared between threads."""

    def __init__(
        self,
        *,
        log: RunLog | None = None,
        may_publish: Callable[[], bool] | None = None,
        memory_limit: int | None = None,
    ) -> None:
        """`may_publish` is asked before an epoch becomes durable: whoever watches over the run may hold it back.

        `memory_limit` in bytes is what its processes may hold together, where somebody sees to that.
        """
        self.memory_limit = memory_limit
        self._waiting: deque[Pending] = deque()
        self._may_publish = may_publish
        self.must_end = False
        """Whether the run has to end in some way, whatever becomes of the request."""
        self.is_cancelled = False
        """Whether it is to end at once."""
        self.log = log or RunLog()
        self.subtasks = SubtaskBook()
        self.publishing = Publishing()
        self.failures = 0
        """Failures of the run: those it got over, and the one that ended it."""

    def ask(
        self,
        action: Action,
        *,
        to: str = "",
        form: Form = "canonical",
        id: str | None = None,
        otherwise: Action | None = None,
    ) -> Pending:
        """Hand a request to the run; if it cannot be done, the run does `otherwise`."""
        pending = Pending(checked_request(action, to=to, form=form, id=id), otherwise=otherwise)
        self.must_end = self.must_end or "cancel" in (action, otherwise)
        self.is_cancelled = self.is_cancelled or action == "cancel"
        self._waiting.append(pending)
        return pending

    def await_leave(self) -> None:
        """Wait until the run may publish.

        Raises:
            HeldBack: it is to end at once, and has published nothing meanwhile.
        """
        while self._may_publish is not None and not self._may_publish():
            if self.is_cancelled:
                raise HeldBack
            time.sleep(_LEAVE_SECONDS)

    def taken(self) -> list[Pending]:
        """Requests that came since the last call."""
        taken = []
        while self._waiting:
            taken.append(self._waiting.popleft())
        return taken


def request_ids(store: ManifestStore) -> frozenset[str]:
    """The ids under which requests were left, answered or not."""
    return frozenset(name.removeprefix("requests/").removesuffix(".json") for name in store.names("requests/"))


class RequestBox:
    """Requests and answers of other processes, as objects in the checkpoint's store."""

    def __init__(self, store: ManifestStore) -> None:
        self._store = store
        self._seen: set[str] = set()

    def put(self, request: Request) -> None:
        """Leave a request for whoever runs the checkpoint; the same id again changes nothing."""
        self._store.create(f"requests/{request.id}.json", msgspec.json.encode(request))

    def taken(self) -> list[Pending]:
        """Unanswered requests that were not taken before; one that cannot be read is answered, and must not end the run."""
        taken = []
        for identifier, request in self.waiting(known=self._seen):
            if isinstance(request, InvalidStep):
                self.reply(failed(identifier, request))
            else:
                taken.append(Pending(request))
        return taken

    def waiting(self, *, known: set[str]) -> list[tuple[str, Request | InvalidStep]]:
        """Unanswered requests by the names they were left under, or why they cannot be read; names are added to `known`."""
        unanswered: list[tuple[str, Request | InvalidStep]] = []
        for identifier in sorted(request_ids(self._store) - known):
            known.add(identifier)
            content = self._store.read(f"requests/{identifier}.json")
            if content is not None and self._store.read(_answer_name(identifier)) is None:
                unanswered.append((identifier, _decoded(identifier, content)))
        return unanswered

    def reply(self, answer: Answer) -> None:
        """Answer a request, once."""
        self._store.create(_answer_name(answer.id), msgspec.json.encode(answer))

    def answer(self, identifier: str) -> Answer | None:
        """The answer to a request, if there is one."""
        name = _answer_name(identifier)
        content = self._store.read(name)
        try:
            return None if content is None else msgspec.json.decode(content, type=Answer)
        except msgspec.DecodeError as problem:
            raise damaged(name, str(problem)) from None


def _answer_name(identifier: str) -> str:
    return f"answers/{identifier}.json"


def _decoded(identifier: str, content: bytes) -> Request | InvalidStep:
    """A stored request; its id is the name under which it was left, so that its answer is found there."""
    try:
        request = msgspec.json.decode(content, type=Request)
    except msgspec.DecodeError as problem:
        msg = "a request cannot be read"
        return InvalidStep(msg, code="STEP-094", found=problem, hint="ask again through the command or the API")
    if request.id != identifier or _ID.fullmatch(request.id) is None or "\0" in request.to:
        return _unusable(f"{request.id!r} in requests/{identifier}.json, to {request.to!r}")
    return request


def checked_request(action: str, *, to: str = "", form: str = "canonical", id: str | None = None) -> Request:
    """A request; an unknown action or form is refused."""
    if action not in ACTIONS or form not in FORMS:
        msg = "unknown request"
        raise InvalidStep(
            msg, code="STEP-090", found=f"{action} {form}", known=[*ACTIONS, *FORMS], hint="use a known action and form"
        )
    if id is not None and _ID.fullmatch(id) is None:
        raise _unusable(repr(id))
    return msgspec.convert({"id": id or uuid.uuid4().hex[:12], "action": action, "to": to, "form": form}, Request)


def _unusable(found: str) -> InvalidStep:
    msg = "the id of a request is not usable"
    known = "letters, digits, - _ and ."
    return InvalidStep(msg, code="STEP-094", found=found, known=known, hint="choose another id")


def failed(identifier: str, problem: Exception) -> Answer:
    """The answer to a request that could not be done; `kind` says whose affair it is."""
    if not isinstance(problem, MillstreamError):
        kind = ExternalFailure if isinstance(problem, OSError) else MillstreamError
        problem = kind(f"{type(problem).__name__}: {problem}")
    return Answer(id=identifier, done=False, error={**problem.fields(), "kind": type(problem).__name__})
