"""A store in a table of a database. The statements are the same for every database; a `Session` runs them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NoReturn
from urllib.parse import urlencode

from millstream.checkpoint.stores.base import checked_name, checked_prefix
from millstream.checkpoint.stores.remote import RemoteStore, Stored
from millstream.database.session import Session, Trouble
from millstream.database.url import DatabaseUrl, database_url
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidPlan

TABLE = "millstream_objects"
_INSERT = f"INSERT INTO {TABLE} (content, writer, store, name) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING"
_REPLACE = f"UPDATE {TABLE} SET content = ?, writer = ? WHERE store = ? AND name = ? AND content = ?"
_LOOK = f"SELECT content, writer FROM {TABLE} WHERE store = ? AND name = ?"
_NAMES = f"SELECT name FROM {TABLE} WHERE store = ? AND substr(name, 1, length(?)) = ?"
_DELETE = f"DELETE FROM {TABLE} WHERE store = ? AND name = ?"
_OWN = ("store",)
_FAILED = "check that the database runs and its disk has room"
_UNREACHED = "check that the database runs, and the host, user and password of the url"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """The url of a store: its database, and which store in the table it is."""

    address: DatabaseUrl
    store: str

    @property
    def driver(self) -> str:
        """What the driver gets."""
        return self.address.driver

    @property
    def shown(self) -> str:
        """What people may see."""
        return f"{self.address.shown}?{urlencode({'store': self.store})}"

    def failure(self, why: object, *, hint: str = _FAILED) -> ExternalFailure:
        """What went wrong with the database, without its password."""
        msg, text = f"the database {self.shown} failed", self.address.hidden(str(why).strip())
        return ExternalFailure(msg, code="CKPT-032", found=text[:500], hint=hint)

    def fail(self, trouble: Trouble) -> NoReturn:
        """Raise what the store says about an error of the database; the driver's own text may hold the password."""
        raise self.failure(trouble.cause, hint=_UNREACHED if trouble.is_connecting else _FAILED) from None


def parse_url(url: str) -> StoreUrl:
    """Take a url apart; `?store=NAME` keeps several checkpoints in one database."""
    try:
        address = database_url(url, own=_OWN)
    except ValueError:
        msg, known = "the url of the store names no file", "sqlite:///relative.db, sqlite:////absolute.db"
        raise InvalidPlan(msg, code="PLAN-034", found=url, known=known, hint="name a file") from None
    parsed = StoreUrl(address=address, store=address.own.get("store", "default"))
    if not parsed.store:
        msg = "the url of the store has an empty name in `?store=`"
        raise InvalidPlan(msg, code="PLAN-034", found=parsed.shown, hint="give the store a name, or leave `store` out")
    return parsed


@contextlib.contextmanager
def closed_on_failure(session: Session) -> Iterator[None]:
    """Close a session that does not become a store."""
    try:
        yield
    except BaseException:
        session.close()
        raise


def check_table(rows: Sequence[object], url: StoreUrl) -> None:
    """Refuse a database in which nothing says that it has our table."""
    if not rows:
        msg = f"there is no checkpoint in {url.shown}"
        raise CheckpointRefused(msg, code="CKPT-016", hint="check --manifests URL: the database has no such table")


class DatabaseStore(RemoteStore):
    """Objects as rows. The conflict on the primary key and the condition of the update decide who wins."""

    def __init__(self, session: Session, url: StoreUrl) -> None:
        self._session, self._url = session, url

    def __repr__(self) -> str:
        return f"DatabaseStore({self._url.shown!r})"

    def names(self, prefix: str) -> list[str]:
        """Names that start with a prefix, sorted."""
        checked_prefix(prefix)
        # Sorted here: the order of a database depends on its locale.
        return sorted(name for (name,) in self._session.query(_NAMES, self._url.store, prefix, prefix))

    def delete(self, name: str) -> None:
        """Remove an object, if it is there."""
        # Repeating a deletion does no harm, so it may be asked again like a query.
        self._session.query(_DELETE, self._url.store, checked_name(name))

    def close(self) -> None:
        """Give the connection back."""
        self._session.close()

    def _insert(self, name: str, stored: Stored) -> bool:
        return self._session.change(_INSERT, stored.content, stored.writer, self._url.store, name) == 1

    def _replace(self, name: str, expected: bytes, stored: Stored) -> bool:
        values = (stored.content, stored.writer, self._url.store, name, expected)
        return self._session.change(_REPLACE, *values) == 1

    def _look(self, name: str) -> Stored | None:
        rows = self._session.query(_LOOK, self._url.store, name)
        return Stored(content=bytes(rows[0][0]), writer=rows[0][1]) if rows else None

    def _failure(self, why: str) -> ExternalFailure:
        return self._url.failure(why)
