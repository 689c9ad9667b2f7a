"""Leaves a request in a checkpoint for whoever runs it, and waits for the answer; needs nothing of the process that runs it."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.api.running.control import Action, Answer, Request, RequestBox, checked_request
from millstream.api.running.job import checked
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.inspect.checkpoint import CheckpointView

ENDS: tuple[Action, ...] = ("drain", "suspend", "cancel")
_POLL_SECONDS = 0.1
_SILENT_SECONDS = 3.0
"""A run that starts again by itself is without an owner for a moment."""


def request_for(action: Action, *, to: str | None = None, id: str | None = None, native: bool = False) -> Request:
    """A request; places are absolute, since the run may have another working directory."""
    place = "" if to is None else str(Path(to).resolve())
    form = "native" if native else "canonical"
    return checked_request(action, to=place, form=form, id=id or uuid.uuid4().hex[:12])


def answered_before(view: CheckpointView, request: Request) -> Answer | None:
    """The answer to an earlier request of this id."""
    answer = RequestBox(view.store).answer(request.id)
    return None if answer is None else checked(answer)


def ask(view: CheckpointView, request: Request, seconds: float) -> Answer:
    """The answer of the run; for a request that ends it, the run is over when this returns.

    A request that nobody answers is taken back: the next run must not find it.
    """
    earlier = answered_before(view, request)
    if earlier is not None:
        return earlier
    if not view.is_running:
        raise not_running(view)
    deadline = time.monotonic() + seconds
    with _left(view, request):
        answer: Answer = checked(_answer(view, request, deadline))
    if request.action in ENDS:
        while view.is_running and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    return answer


@contextlib.contextmanager
def _left(view: CheckpointView, request: Request) -> Iterator[None]:
    RequestBox(view.store).put(request)
    try:
        yield
    finally:
        view.store.delete(f"requests/{request.id}.json")


def _answer(view: CheckpointView, request: Request, deadline: float) -> Any:
    box, seen = RequestBox(view.store), time.monotonic()
    while True:
        now, is_running = time.monotonic(), view.is_running
        # The answer is read after the lease: a run answers before it goes.
        answer = box.answer(request.id)
        if answer is not None:
            return answer
        seen = now if is_running else seen
        if now - seen > _SILENT_SECONDS:
            raise not_running(view)
        if now > deadline:
            msg = f"{request.action} was not answered in time"
            raise ExternalFailure(msg, code="CLI-008", found=f"request {request.id}", hint="ask again with --timeout")
        time.sleep(_POLL_SECONDS)


def not_running(view: CheckpointView) -> CheckpointRefused:
    """The error for a request that nobody can serve."""
    lease = view.lease()
    process = None if lease is None else f"last run: process {lease.process.pid} on {lease.process.host}"
    msg = f"nothing runs checkpoint {view.root}"
    hint = "start the job; a savepoint of a stopped job is taken by `millstream savepoint create`"
    return CheckpointRefused(msg, code="CLI-007", found=process, hint=hint)
