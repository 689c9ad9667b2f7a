"""What the sink needs of a database, and its errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NoReturn, Protocol, TypeVar

import pyarrow as pa

from millstream.connectors.jdbc.cells import Rows
from millstream.database.session import Trouble
from millstream.database.url import DatabaseUrl
from millstream.errors import ExternalFailure, InvalidStep, StepFailed
from millstream.model.schema import Schema
from millstream.model.secret import variable, with_secrets

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds for which a database that is away, starting up or locked is asked again."""


class Cursor(Protocol):
    """The part of DB-API cursors that is used."""

    @property
    def rowcount(self) -> int:
        """Rows that the last statement touched."""
        ...

    def execute(self, query: Any, params: Any = ..., /) -> Any:
        """Run a statement with bound values."""
        ...

    def fetchone(self) -> Any:
        """The next row."""
        ...

    def fetchall(self) -> Any:
        """The rows that are left."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FoundColumn:
    """A column of an existing table."""

    type: str
    must_be_given: bool
    """Whether it is `NOT NULL` without a default."""


VIEW_MARK = "millstream: published rows of an outbox"
"""By which a view is known to be ours: as its comment, where a database has comments, else inside its text."""
ViewOrigin = Literal["marked", "unmarked", "foreign"]
"""A view with our mark; one without, whose text is exactly what was made before there were marks; any other relation."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """How to reach a database, and in whose name."""

    address: DatabaseUrl
    password_env: str | None
    job: str
    step: str
    patience: float = dataclasses.field(default_factory=lambda: PATIENCE)
    """Seconds for which the database may be away."""
    advice: str = "correct the table, its rights or the rows"
    """What may help when the database refuses a statement."""

    def password(self) -> str:
        """The password of this process's environment, or else the one that the address holds or names."""
        if self.password_env is None:
            return with_secrets(self.address.password, step=self.step)
        password = variable(self.password_env)
        if password is None:
            msg = f"the environment variable {self.password_env!r} with the database password is not set"
            hint = f"export {self.password_env} where the job runs, on the workers too"
            raise InvalidStep(msg, code="JDBC-003", step=self.step, hint=hint)
        return password

    def fail(self, trouble: Trouble) -> NoReturn:
        """Raise what the sink says about an error of the database."""
        raise (self._away if trouble.is_passing else self._refused)(trouble.cause) from trouble.cause

    def _refused(self, problem: Exception) -> StepFailed:
        msg = f"the {self.address.label} refused a statement"
        hint = f"{self.advice}; the text behind 'found' is the database's own"
        return StepFailed(msg, code="JDBC-013", step=self.step, found=first_lines(problem), hint=hint)

    def _away(self, problem: Exception) -> ExternalFailure:
        msg = f"the {self.address.label} does not answer, or is locked, for {self.patience:.0f} seconds"
        hint = "check that it runs and can be reached, then start the job again"
        return ExternalFailure(msg, code="JDBC-002", step=self.step, found=first_lines(problem), hint=hint)


class Database(Protocol):
    """A connection that opens itself, and the words in which this kind of database differs."""

    mark: str
    """What stands before the number of a bound value."""

    def run(self, work: Callable[[Any], T]) -> T:
        """Do work in one transaction, again when the database was away; so it must be safe to repeat.

        When a reply is lost nobody knows whether the transaction was committed. Each of ours first reads what an
        earlier run of itself would have left: its marker, its part, its fence.
        """
        ...

    def name(self, table: str) -> str:
        """A table's name as it stands in statements."""
        ...

    def lock_layout(self, cursor: Cursor) -> None:
        """Let nobody else create tables until the end of the transaction."""
        ...

    def share_fence(self) -> str:
        """Words behind a SELECT that keep the row as it is until the end of the transaction."""
        ...

    def let_rows_go(self, cursor: Cursor, table: str) -> None:
        """See that rows can be deleted from a table of ours without a key, whoever else follows its changes."""
        ...

    def lock_table(self, cursor: Cursor, table: str) -> None:
        """Let nobody else write to a table until the end of the transaction; readers are not kept from it."""
        ...

    def columns(self, cursor: Cursor, table: str) -> Mapping[str, FoundColumn] | None:
        """The columns of a table or view; `None` when there is none."""
        ...

    def view_origin(self, cursor: Cursor, view: str, query: str | None) -> ViewOrigin:
        """Who made the relation that bears the name of our view; `query` is what one of ours with its columns selects."""
        ...

    def create_view(self, cursor: Cursor, view: str, query: str) -> None:
        """Create a view with our mark."""
        ...

    def mark_view(self, cursor: Cursor, view: str, query: str) -> None:
        """Give our mark to a view of ours that has none, where that is allowed."""
        ...

    def has_key(self, cursor: Cursor, table: str, keys: Sequence[str]) -> bool:
        """Whether a primary key or unique index has exactly these columns."""
        ...

    def column_type(self, arrow: pa.DataType, name: str) -> str:
        """What a column is created as."""
        ...

    def holds(self, kind: str, arrow: pa.DataType, name: str) -> bool:
        """Whether an existing column takes every value of a type unchanged."""
        ...

    def moment(self) -> tuple[str, str]:
        """Type and default of a column that says when a row was written."""
        ...

    def add(self, cursor: Any, table: str, schema: Schema, rows: Rows, before: Mapping[str, pa.Array]) -> None:
        """Add rows to a table, `before` giving the columns of our own."""
        ...

    def temporary(self, cursor: Cursor, columns: str) -> str:
        """Create a table for this transaction alone; its name as it stands in statements."""
        ...

    def refuses_nul(self) -> bool:
        """Whether text may not hold the character NUL."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def quoted(name: str) -> str:
    """An identifier in quotes, whatever is in it."""
    return '"' + name.replace('"', '""') + '"'


def first_lines(problem: Exception) -> str:
    """What a database said, without where and why it says so."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return " ".join(lines[:2]) or type(problem).__name__
