"""Calls from outside that fire a schedule: they have no token, but each is signed with the secret of its hook."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Header, Path, Request
from pydantic import BaseModel
from sqlalchemy import Connection
from starlette.concurrency import run_in_threadpool

from millstream.control.act import acting
from millstream.control.schedule.dispatching import dispatcher_acts
from millstream.control.schedule.hooks import NO_SECRET, HookSecret, receive_call
from millstream.control.schedule.webhook import HookCall
from millstream.control.secrets.cipher import pretend_decrypting
from millstream.control.secrets.key_ring import SecretRefused
from millstream.control.secrets.named import named_values
from millstream.server.access.audit import write_audit
from millstream.server.asking import unguarded
from millstream.server.facts import facts_of
from millstream.server.service import Service

_log = logging.getLogger(__name__)
router = APIRouter(tags=["schedules"])
HookName = Annotated[str, Path(min_length=1, max_length=64)]


class Received(BaseModel):
    """What became of a call."""

    result: str
    run: str | None


@router.post("/hooks/{hook}", status_code=202, **unguarded(), summary="Call a webhook")
async def call_hook(
    hook: HookName,
    request: Request,
    *,
    x_millstream_id: Annotated[str, Header(max_length=200, description="An id of its own for each call.")],
    x_millstream_time: Annotated[str, Header(max_length=20, description="Seconds since 1970.")],
    x_millstream_signature: Annotated[str, Header(max_length=200, description="`sha256=` and HMAC of time.id.body.")],
) -> Received:
    """Signed, fresh, and each call once; 409 for one that came before. Who cannot sign hears the same of every name."""
    call = HookCall(x_millstream_id, x_millstream_time, x_millstream_signature, await request.body())
    return await run_in_threadpool(_received, request.app.state.service, hook, call, facts_of(request.scope).id)


def _received(service: Service, hook: str, call: HookCall, request_id: str) -> Received:
    actor = f"hook {hook}"
    with acting(service.metadata, actor) as act:
        acts = dispatcher_acts(act.now, actor)
        fired = receive_call(act.connection, hook, call, secret=_secret_of(service), now=act.now, acts=acts)
        told = {"result": fired.result, "run": fired.execution_id, "call": call.call_id}
        write_audit(act, "hook.call", hook, caller=None, request_id=request_id, after=told)
    service.wake()
    return Received(result=fired.result, run=fired.execution_id)


def _secret_of(service: Service) -> HookSecret:
    def secret(connection: Connection, name: str) -> bytes | None:
        assert service.keys is not None, "these routes are there only with keys"
        try:
            found = named_values(connection, service.keys, [name])
        except SecretRefused as problem:
            _log.error("the secret %r of a webhook cannot be read, and its calls are refused: %s", name, problem)
            return None
        if name in found:
            return found[name].encode()
        if name != NO_SECRET:
            _log.warning("the secret %r of a webhook is not there: its calls are refused", name)
        pretend_decrypting(service.keys)
        return None

    return secret
