"""What a worker asks of a database: rows, as Arrow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from millstream.connectors.jdbc.reading.forms import Forms
from millstream.connectors.jdbc.reading.keys import KeyValues
from millstream.connectors.jdbc.reading.statements import Dialect, Statement
from millstream.model.schema import Field, Schema


class ArrowRows(Protocol):
    """One connection that opens itself, and reads only."""

    source: str
    """The query or table as it stands behind FROM."""

    @property
    def dialect(self) -> Dialect:
        """The words of the database."""
        ...

    def table(self, statement: Statement, schema: Schema) -> pa.Table:
        """All rows of a statement; asked again while the database is away.

        Raises:
            StatementTimedOut: it took longer than the source allows.
        """
        ...

    def stream(self, statement: Statement, schema: Schema) -> Iterator[pa.Table]:
        """The rows of a statement piece by piece, by one cursor of the server: as they were when it was opened."""
        ...

    def keys(self, statement: Statement) -> list[KeyValues]:
        """Keys that a statement finds."""
        ...

    def guards(self, field: Field, form: str) -> list[str]:
        """Columns to read beside one, by which a value shows that cannot be read right: where one of them is true."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


def column_list(rows: ArrowRows, schema: Schema, forms: Forms) -> list[str]:
    """What to ask for: the schema's columns in order, and behind them the guards."""
    columns = [rows.dialect.expression(name, forms.get(name, "plain")) for name in schema.names]
    return columns + [guard for field in schema for guard in rows.guards(field, forms.get(field.name, "plain"))]
