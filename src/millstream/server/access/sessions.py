"""Sessions of browsers: a cookie that stands for a token for half a day, and a second word against forged requests."""

from __future__ import annotations

import datetime as dt
import hmac
import secrets
from typing import Any, NamedTuple

from sqlalchemy import Row, delete, insert, select

from millstream.control.act import Act
from millstream.control.metadata.tables.access import api_token as token
from millstream.control.metadata.tables.access import session
from millstream.server.access.roles import Caller
from millstream.server.access.tokens import caller_of, hash_of, works

LASTS = dt.timedelta(hours=12)
_OVER_TLS = "__Host-millstream"
_ON_LOOPBACK = "millstream"
"""Browsers take the safe name by https only."""


class NewSession(NamedTuple):
    """A session in the only moment in which its cookie is known."""

    cookie: str
    expires: dt.datetime


def cookie_name(*, has_tls: bool) -> str:
    """What the cookie is called."""
    return _OVER_TLS if has_tls else _ON_LOOPBACK


def open_session(act: Act, row: Row[Any]) -> NewSession:
    """A session for the holder of a token; old ones are forgotten on the way."""
    act.connection.execute(delete(session).where(session.c.expires <= act.now))
    cookie = secrets.token_urlsafe(32)
    expires = min(act.now + LASTS, row.expires)
    values = {"hash": hash_of(cookie), "token_id": row.id, "csrf": secrets.token_urlsafe(32), "expires": expires}
    act.connection.execute(insert(session).values(**values))
    return NewSession(cookie, expires)


def session_caller(act: Act, cookie: str) -> Caller | None:
    """Who has this cookie; a session ends with its token."""
    joined = session.join(token, token.c.id == session.c.token_id)
    found = select(token, session.c.csrf, session.c.expires.label("ends")).select_from(joined)
    row = act.connection.execute(found.where(session.c.hash == hash_of(cookie))).first()
    if row is None or row.ends <= act.now or not works(row, act.now):
        return None
    return caller_of(row, row.csrf)


def is_still(act: Act, caller: Caller) -> bool:
    """Whether a caller of some time ago would be let in now, with the same role."""
    row = act.connection.execute(select(token).where(token.c.id == caller.token_id)).first()
    if row is None or not works(row, act.now) or row.role != caller.role:
        return False
    if caller.csrf is None:
        return True
    mine = session.c.token_id == caller.token_id, session.c.csrf == caller.csrf, session.c.expires > act.now
    return act.connection.execute(select(session.c.hash).where(*mine)).first() is not None


def close_session(act: Act, cookie: str) -> None:
    """It ends here."""
    act.connection.execute(delete(session).where(session.c.hash == hash_of(cookie)))


def is_same(told: str | None, csrf: str) -> bool:
    """Whether a page said the session's word."""
    return told is not None and hmac.compare_digest(told.encode(), csrf.encode())
