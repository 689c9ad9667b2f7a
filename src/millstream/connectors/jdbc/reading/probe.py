"""What the driver asks a database: columns, keys, boundaries and estimates, never the rows themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa

from millstream.connectors.jdbc.reading.forms import SourceColumn
from millstream.connectors.jdbc.reading.keys import Key, KeyValues
from millstream.connectors.jdbc.reading.statements import Dialect, Statement

SAMPLED = 100
"""Rows that are looked at where a database does not say what a column holds, or how wide a row is."""


class StatementTimedOut(Exception):
    """The database ended a statement that ran longer than it may; a smaller range may do."""


class Probe(Protocol):
    """One connection that opens itself, and reads only."""

    source: str
    """The query or table as it stands behind FROM."""

    @property
    def dialect(self) -> Dialect:
        """The words of the database."""
        ...

    @property
    def server(self) -> str:
        """Which of several servers with different words it is; empty where there is one."""
        ...

    def columns(self) -> list[SourceColumn]:
        """The columns of the query or table."""
        ...

    def primary_key(self) -> list[str]:
        """The columns of a table's primary key, in its order; none of a query, a view or a table without one."""
        ...

    def key(self, columns: Sequence[SourceColumn]) -> Key:
        """Columns as a key."""
        ...

    def form(self, column: SourceColumn, wanted: pa.DataType) -> str | None:
        """How a column is asked for to be read as a type; `None` where it cannot be."""
        ...

    def fetch(self, statement: Statement) -> list[tuple[Any, ...]]:
        """The rows of a small answer; asked again while the database is away.

        Raises:
            StatementTimedOut: it took longer than the source allows.
        """
        ...

    def key_values(self, row: Sequence[Any]) -> KeyValues:
        """A fetched key as JSON."""
        ...

    def estimate(self) -> int | None:
        """About how many rows there are, without counting them."""
        ...

    def width(self, names: Sequence[str]) -> int:
        """About how many bytes these columns of a row have, by the first rows; 0 without any."""
        ...

    def explain(self, statement: Statement) -> list[str]:
        """The database's plan for a statement, line by line."""
        ...

    def cancel(self) -> None:
        """End the statement that another thread waits for."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...
