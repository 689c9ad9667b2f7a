"""Claims: a node takes a scheduled run, with a token above every earlier one of the job, and keeps it by renewing its lease."""

from __future__ import annotations

import datetime as dt
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

from sqlalchemy import Row, Select, String, cast, literal, select, update

from millstream.checkpoint.failpoint import failpoint
from millstream.control.act import Act
from millstream.control.lifecycle.moves import record
from millstream.control.lifecycle.states import OWNED, Status
from millstream.control.metadata.tables.jobs import job_version
from millstream.control.metadata.tables.nodes import lease
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.upserts import insert_into

TERM = dt.timedelta(seconds=15)
"""A lease that was not renewed for so long is another's to take."""
_LOOKED_AT = 50
"""Scheduled runs that a node reads at once to find one whose labels it has; where there is none, it reads on."""


class Renewal(NamedTuple):
    """What became of leases that were to be renewed; of what is in neither nobody knows, for somebody else looks at it now."""

    kept: Collection[str]
    lost: Collection[str]


class Claim(NamedTuple):
    """A run that a node has taken, and the token with which it acts for it."""

    run: Row[Any]
    token: int


def lease_name(job_id: int, slot: int) -> str:
    """One lease for each slot of a job: what a slot writes has one checkpoint, and tokens rise along it."""
    return f"job:{job_id}:{slot}"


def claim(act: Act, owner: str, labels: Mapping[str, str]) -> Claim | None:
    """Take the oldest scheduled run that is due and fits; `None` where there is none."""
    beyond = 0
    while rows := list(act.connection.execute(_due(act, beyond))):
        for run in rows:
            token = _taken(act, run, owner) if _fits(run.settings, labels) else None
            if token is not None:
                return _claimed(act, run.id, owner, token)
        beyond = rows[-1].id
    return None


def _taken(act: Act, run: Row[Any], owner: str) -> int | None:
    """The token of a run that is locked, and whose lease nobody holds."""
    # Only those that fit are locked: others may look at the rest meanwhile.
    still = execution.c.id == run.id, execution.c.status == Status.SCHEDULED, execution.c.not_before <= act.now
    free = select(execution.c.id).where(*still).with_for_update(skip_locked=True)
    if act.connection.execute(free).first() is None:
        return None
    return _take_lease(act, lease_name(run.job_id, run.slot_no), owner)


def _claimed(act: Act, identifier: int, owner: str, token: int) -> Claim:
    # The row is locked, or the database is: nobody can have taken it since it was read.
    changed = update(execution).where(execution.c.id == identifier, execution.c.status == Status.SCHEDULED)
    changed = changed.values(
        status=Status.INITIALIZING,
        node_id=owner,
        token=token,
        attempt=execution.c.attempt + 1,
        row_version=execution.c.row_version + 1,
        driver=None,
    )
    row = act.connection.execute(changed.returning(execution)).one()
    cause = act.cause(f"claimed by node {owner}", attempt=row.attempt)
    moved = {"before": Status.SCHEDULED, "after": Status.INITIALIZING}
    record(act.connection, row.execution_id, "moved", cause, now=act.now, token=token, **moved)
    failpoint("claimed")
    return Claim(row, token)


def _due(act: Act, beyond: int) -> Select[Any]:
    joined = execution.join(
        job_version, (job_version.c.job_id == execution.c.job_id) & (job_version.c.version == execution.c.job_version)
    )
    columns = execution.c.id, execution.c.job_id, execution.c.slot_no, job_version.c.settings
    due = execution.c.status == Status.SCHEDULED, execution.c.not_before <= act.now, execution.c.id > beyond
    return select(*columns).select_from(joined).where(*due).order_by(execution.c.id).limit(_LOOKED_AT)


def _fits(settings: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return all(labels.get(name) == value for name, value in settings.get("labels", {}).items())


def _take_lease(act: Act, name: str, owner: str) -> int | None:
    """Take a lease that nobody holds; its token rises. `None` where it is held."""
    until = act.now + TERM
    added = insert_into(act.connection, lease).values(name=name, owner=owner, token=1, expires_at=until)
    free = (lease.c.owner.is_(None)) | (lease.c.expires_at <= act.now) | (lease.c.owner == owner)
    taken = added.on_conflict_do_update(
        index_elements=["name"], set_={"owner": owner, "token": lease.c.token + 1, "expires_at": until}, where=free
    )
    token: int | None = act.connection.execute(taken.returning(lease.c.token)).scalar()
    return token


def renew(act: Act, owner: str, held: Mapping[str, int]) -> Renewal:
    """Renew every lease of a node in one statement.

    An expired lease is renewed too, as long as nobody took it: its token is the same. One that somebody locked, such as a
    dispatcher that was stopped while it swept, keeps the others from nothing: it is renewed the next time, or lost.
    """
    if not held:
        return Renewal((), ())
    mine = lease.c.owner == owner, lease.c.name.in_(held)
    free = select(lease.c.name).where(*mine).order_by(lease.c.name).with_for_update(skip_locked=True)
    changed = update(lease).where(lease.c.name.in_(free)).values(expires_at=act.now + TERM)
    renewed = act.connection.execute(changed.returning(lease.c.name, lease.c.token))
    kept = {row.name for row in renewed if held[row.name] == row.token}
    here = act.connection.execute(select(lease.c.name, lease.c.token).where(*mine))
    return Renewal(kept, set(held) - {row.name for row in here if held[row.name] == row.token})


def release(act: Act, name: str, token: int) -> None:
    """Give a lease back, so that the next run of the job need not wait for its end."""
    matching = update(lease).where(lease.c.name == name, lease.c.token == token)
    act.connection.execute(matching.values(owner=None, expires_at=act.now))


def take_back(act: Act, name: str, token: int) -> bool:
    """Free a lease that ran out; `False` says that its owner renewed it meanwhile."""
    matching = lease.c.name == name, lease.c.token == token, lease.c.expires_at <= act.now
    freed = update(lease).where(*matching).values(owner=None)
    return act.connection.execute(freed.returning(lease.c.name)).first() is not None


def owned_runs(act: Act, owner: str) -> list[Row[Any]]:
    """Runs that this node answers for, whichever process of it claimed them."""
    matching = execution.c.node_id == owner, execution.c.status.in_(OWNED)
    return list(act.connection.execute(select(execution).where(*matching).order_by(execution.c.id)))


def owned_run(act: Act, owner: str, run: str, token: int) -> Row[Any] | None:
    """One of them, if it is still this node's by this claim."""
    claimed = execution.c.execution_id == run, execution.c.token == token
    mine = execution.c.node_id == owner, execution.c.status.in_(OWNED)
    return act.connection.execute(select(execution).where(*claimed, *mine)).first()


def expired(act: Act) -> list[Row[Any]]:
    """Runs whose owner has not renewed its lease in time."""
    job, slot = cast(execution.c.job_id, String), cast(execution.c.slot_no, String)
    name = literal("job:").concat(job).concat(":").concat(slot)
    joined = execution.join(lease, lease.c.name == name)
    matching = execution.c.status.in_(OWNED), lease.c.expires_at <= act.now, lease.c.token == execution.c.token
    return list(act.connection.execute(select(execution).select_from(joined).where(*matching).order_by(execution.c.id)))
