"""Secrets of the whole service, by name: written, never read back by people, and given to the runs of jobs that name them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Connection, delete, select

from millstream.control.metadata.tables.access import secret
from millstream.control.metadata.upserts import upsert
from millstream.control.refusals import UnknownName
from millstream.control.secrets.cipher import SECRETS, EncryptedValue, decrypt, encrypt
from millstream.control.secrets.key_ring import KeyRing
from millstream.errors import InvalidStep
from millstream.redaction import SecretText

MOST_BYTES = 64 << 10
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")


class NamedSecret(NamedTuple):
    """What people may know about a secret: everything but its value."""

    name: str
    key_id: str
    create_time: dt.datetime
    update_time: dt.datetime


def set_secret(connection: Connection, ring: KeyRing, name: str, value: str, *, now: dt.datetime) -> None:
    """Keep a secret, in the place of an earlier value.

    Raises:
        InvalidStep: (CTL-304) it cannot be called that, (CTL-305) its value cannot be kept.
    """
    kept = encrypt(ring, checked_value(name, value), place=SECRETS, name=checked_name(name))
    values = {"key_id": kept.key_id, "ciphertext": kept.data, "update_time": now}
    upsert(connection, secret, {"name": name}, values, create_time=now)


def secret_names(connection: Connection) -> list[NamedSecret]:
    """All secrets, without their values."""
    columns = (secret.c.name, secret.c.key_id, secret.c.create_time, secret.c.update_time)
    return [NamedSecret(*row) for row in connection.execute(select(*columns).order_by(secret.c.name))]


def delete_secret(connection: Connection, name: str) -> None:
    """Forget a secret; runs that have it keep it until they end.

    Raises:
        UnknownName: (CTL-306) there is none of that name.
    """
    gone = connection.execute(delete(secret).where(secret.c.name == name).returning(secret.c.name)).scalar()
    if gone is None:
        raise _unknown([name])


def named_values(connection: Connection, ring: KeyRing, names: Collection[str]) -> dict[str, str]:
    """The values of those that there are, for one who may use them: they go to the driver over its socket, and nowhere else."""
    found = connection.execute(
        select(secret.c.name, secret.c.key_id, secret.c.ciphertext).where(secret.c.name.in_(names))
    )
    return {
        name: SecretText(decrypt(ring, EncryptedValue(key_id, bytes(data)), place=SECRETS, name=name))
        for name, key_id, data in found
    }


def refuse_missing(names: Collection[str], known: Collection[str]) -> None:
    """A run that would end at its first connection does not begin.

    Raises:
        UnknownName: (CTL-306) a secret that the job names is not there.
    """
    if missing := sorted(set(names) - set(known)):
        raise _unknown(missing)


def checked_name(name: str) -> str:
    """A name that `${secret:NAME}` can hold."""
    if isinstance(name, str) and _NAME.fullmatch(name):
        return name
    msg = "a secret cannot have this name"
    known = "at most 128 letters, digits and '_', not starting with a digit"
    raise InvalidStep(msg, code="CTL-304", found=repr(name)[:200], known=known, hint="choose another name")


def checked_value(name: str, value: str, *, may_be_empty: bool = False) -> str:
    """A text that can be kept; what is wrong with it is told without it."""
    problem = None
    if not isinstance(value, str) or not (value or may_be_empty):
        problem = "it is empty, or no text"
    elif "\0" in value or not _is_unicode(value):
        problem = "it holds characters that cannot be stored"
    elif len(value.encode()) > MOST_BYTES:
        problem = f"it has more than {MOST_BYTES} bytes"
    if problem is None:
        return value
    msg = f"the value of {name!r} cannot be kept"
    raise InvalidStep(msg, code="CTL-305", found=problem, known="text", hint="give another value")


def _is_unicode(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unknown(names: list[str]) -> UnknownName:
    msg = f"there is no secret {', '.join(map(repr, names))}"
    hint = f"set it: millstream secret set {names[0]}"
    return UnknownName(msg, code="CTL-306", hint=hint)
