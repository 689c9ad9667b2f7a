"""Webhooks in the tables: whose they are, which calls came lately, and the fire that a call makes."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Callable

from sqlalchemy import Connection, delete, select, update

from millstream.control.metadata.tables.schedules import hook, hook_call
from millstream.control.refusals import StateConflict
from millstream.control.schedule.firing import FireResult, Firing, JobFires, RunActs
from millstream.control.schedule.rows import insert_new, keep, locked_schedule
from millstream.control.schedule.spec import ScheduleSpec
from millstream.control.schedule.webhook import FRESH, BadCall, HookCall, believe

HookSecret = Callable[[Connection, str], bytes | None]
NO_SECRET = "?"
"""No secret can be called that."""
_NOBODYS_BYTES = 32
REMEMBERED = 3 * FRESH
"""A call may be signed for five minutes to come and is fresh for five more: until then its id is kept."""
LONGEST_VALUE = 16_384


def claim_hook(connection: Connection, job_id: int, spec: ScheduleSpec) -> None:
    """Give the webhook that a schedule names to its job, and take others away.

    Raises:
        StateConflict: (CTL-212) it is another job's.
    """
    name = spec.event.webhook if spec.event is not None else None
    owner = connection.execute(select(hook.c.job_id).where(hook.c.name == name)).scalar()
    if name is None or spec.event is None or owner is None:
        drop_hook(connection, job_id)
    if name is None or spec.event is None:
        return
    row = {"name": name, "job_id": job_id, "secret_name": spec.event.secret}
    if owner not in {None, job_id} or (owner is None and insert_new(connection, hook, row) is None):
        msg = "schedule: another job has the webhook"
        raise StateConflict(msg, code="CTL-212", found=name, hint="choose another name")
    if owner == job_id:
        connection.execute(update(hook).where(hook.c.name == name).values(secret_name=spec.event.secret))


def drop_hook(connection: Connection, job_id: int) -> None:
    """Take the webhook of a job away, with what was kept of its calls."""
    mine = select(hook.c.name).where(hook.c.job_id == job_id)
    connection.execute(delete(hook_call).where(hook_call.c.name.in_(mine.scalar_subquery())))
    connection.execute(delete(hook).where(hook.c.job_id == job_id))


def receive_call(
    connection: Connection,
    name: str,
    call: HookCall,
    *,
    secret: HookSecret,
    now: dt.datetime,
    acts: RunActs,
) -> FireResult:
    """Fire the schedule that a webhook belongs to.

    Args:
        connection: the transaction; a call that is refused leaves nothing in it.
        name: the webhook.
        call: what came.
        secret: gives the value of a named secret, if there is one.
        now: what time it is.
        acts: how runs are started.

    Raises:
        BadCall: (CTL-221 to CTL-224) the call is not believed; of an unknown webhook no call is.
        StateConflict: (CTL-214) the schedule is paused, (CTL-220) the call came before.
    """
    row = connection.execute(select(hook).where(hook.c.name == name)).one_or_none()
    # Whoever cannot sign must not learn which webhooks there are: an unknown one takes the same steps, with a secret nobody has.
    value = secret(connection, NO_SECRET if row is None else row.secret_name)
    sent = believe(secrets.token_bytes(_NOBODYS_BYTES) if row is None or value is None else value, call, now)
    assert row is not None, "nobody signs with a secret that was made just now"
    stored = locked_schedule(connection, row.job_id)
    if stored is None or not stored.enabled:
        msg = "webhook: the schedule is paused"
        raise StateConflict(msg, code="CTL-214", found=name, hint="resume it, and send the call again")
    _remember(connection, name, call, now)
    fires = JobFires(connection, stored, acts, now)
    result = fires.fire(Firing(sent, f"event:{call.call_id}", value=_value(stored.spec, call)))
    keep(connection, stored, stored.next_time)
    if result is None:
        raise _repeated(call)
    return result


def _remember(connection: Connection, name: str, call: HookCall, now: dt.datetime) -> None:
    old = (hook_call.c.name == name, hook_call.c.time < now - REMEMBERED)
    connection.execute(delete(hook_call).where(*old))
    if insert_new(connection, hook_call, {"name": name, "call_id": call.call_id, "time": now}) is None:
        raise _repeated(call)
    connection.execute(update(hook).where(hook.c.name == name).values(last_seen=now))


def _repeated(call: HookCall) -> StateConflict:
    msg = "webhook: the call came before"
    return StateConflict(msg, code="CTL-220", found=call.call_id, hint="nothing to do: it was taken the first time")


def _value(spec: ScheduleSpec, call: HookCall) -> str | None:
    """The body, for the parameter that the schedule names, if it names one."""
    if spec.event is None or spec.event.param is None:
        return None
    try:
        text = call.body.decode()
    except UnicodeDecodeError:
        text = None
    if text is None or len(call.body) > LONGEST_VALUE:
        msg = f"webhook: the body cannot be the parameter {spec.event.param!r}"
        known = f"UTF-8 text of at most {LONGEST_VALUE} bytes"
        raise BadCall(msg, code="CTL-224", found=f"{len(call.body)} bytes", known=known, hint="send a shorter text")
    return text
