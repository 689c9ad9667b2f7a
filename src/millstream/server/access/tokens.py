"""Tokens: 256 random bits that are shown once; what is stored is their hash."""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import itertools
import os
import re
import secrets
from pathlib import Path
from typing import Any, NamedTuple, cast

from sqlalchemy import Row, func, insert, select, update

from millstream.control.act import Act
from millstream.control.metadata.tables.access import api_token, session
from millstream.control.refusals import StateConflict, UnknownName
from millstream.errors import InvalidStep
from millstream.server.access.roles import Caller, Role

LONGEST = dt.timedelta(days=365)
_FORM = re.compile(r"ms_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")
_NOTED_AGAIN = dt.timedelta(minutes=1)
"""How exactly the last use is known: each note is a write."""


class NewToken(NamedTuple):
    """A token in the only moment in which it is known."""

    text: str
    row: Row[Any]


def create_token(act: Act, name: str, role: Role, lifetime: dt.timedelta) -> NewToken:
    """A new token.

    Raises:
        InvalidStep: (REST-027) it would live longer than a year, or not at all.
        StateConflict: (REST-025) a token that still works has this name: audits name callers by it.
    """
    if not dt.timedelta() < lifetime <= LONGEST:
        msg = "a token lives for a day at least and a year at most"
        raise InvalidStep(msg, code="REST-027", found=str(lifetime), hint="pass for example days=90")
    in_use = api_token.c.name == name, api_token.c.revoked.is_(None), api_token.c.expires > act.now
    if act.connection.execute(select(api_token.c.id).where(*in_use).limit(1)).first() is not None:
        msg = "there is a token of that name"
        raise StateConflict(msg, code="REST-025", found=repr(name), hint="revoke it first, or take another name")
    identifier = secrets.token_hex(8)
    text = f"ms_{identifier}_{secrets.token_urlsafe(32)}"
    values = {"id": identifier, "name": name, "hash": hash_of(text), "role": role}
    times = {"created": act.now, "expires": act.now + lifetime}
    row = act.connection.execute(insert(api_token).values(**values, **times).returning(api_token)).one()
    return NewToken(text, row)


def hash_of(text: str) -> str:
    """What is stored. A slow hash would add nothing to 256 random bits."""
    return hashlib.sha256(text.encode()).hexdigest()


def holder(act: Act, text: str) -> Row[Any] | None:
    """The row of a token that works."""
    found = _FORM.fullmatch(text)
    if found is None:
        return None
    row = act.connection.execute(select(api_token).where(api_token.c.id == found[1])).first()
    told = hash_of(text)
    is_it = hmac.compare_digest(told, row.hash if row is not None else hash_of(""))
    return row if row is not None and is_it and works(row, act.now) else None


def works(row: Row[Any], now: dt.datetime) -> bool:
    """Neither revoked nor expired."""
    return row.revoked is None and row.expires > now


def caller_of(row: Row[Any], csrf: str | None = None) -> Caller:
    """Who has this token."""
    return Caller(token_id=row.id, name=row.name, role=cast("Role", row.role), csrf=csrf)


def is_due(row: Row[Any], now: dt.datetime) -> bool:
    """Whether the use of a token is to be noted again."""
    return row.last_used is None or now - row.last_used > _NOTED_AGAIN


def note_use(act: Act, identifier: str) -> None:
    """The token was used now."""
    act.connection.execute(update(api_token).where(api_token.c.id == identifier).values(last_used=act.now))


def revoke_token(act: Act, identifier: str) -> Row[Any]:
    """It works no more, and neither do its sessions.

    Raises:
        UnknownName: (REST-026) there is none of that id.
    """
    known = act.connection.execute(select(api_token).where(api_token.c.id == identifier)).first()
    if known is None:
        msg = "there is no such token"
        raise UnknownName(msg, code="REST-026", found=repr(identifier), hint="list the tokens: millstream token list")
    act.connection.execute(session.delete().where(session.c.token_id == identifier))
    revoked = func.coalesce(api_token.c.revoked, act.now)
    changed = update(api_token).where(api_token.c.id == identifier).values(revoked=revoked)
    return act.connection.execute(changed.returning(api_token)).one()


def first_admin_token(act: Act, path: Path) -> bool:
    """Where no token was ever made, make one for an admin and write it into a file that only its owner reads.

    One that is there is of another database, which may come back: it is kept beside it.
    """
    if act.connection.execute(select(api_token.c.id).limit(1)).first() is not None:
        return False
    made = create_token(act, "first admin", "admin", LONGEST)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_file() and not path.is_symlink():
        path.rename(_free_name(path))
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)
        file.write(made.text + "\n")
        file.flush()
        os.fsync(descriptor)
    return True


def _free_name(path: Path) -> Path:
    numbered = (path.with_name(f"{path.name}.{number}") for number in itertools.count(1))
    return next(each for each in numbered if not each.exists())
