"""Asks the table for long values that an update left alone and the server did not send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.connectors.postgres_cdc.publication import quoted
from millstream.connectors.postgres_cdc.rows import Texts
from millstream.connectors.postgres_cdc.server import PATIENCE, CdcLogin
from millstream.database.postgres import PostgresSession
from millstream.model.connector import Options

_TYPES = """
SELECT n.nspname, c.relname, a.attname::text, format_type(a.atttypid, a.atttypmod)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE c.oid = $1::bigint::oid AND a.attname = ANY ($2::text[])"""


class TableLookup:
    """Looks rows up by their key. What it finds may be newer than the change: later changes say so again."""

    def __init__(self, options: Options, oid: int, *, step: str) -> None:
        self._options, self._oid = options, oid
        login = CdcLogin(options, step)
        self._session = PostgresSession(login.connected, patience=PATIENCE, fail=login.fail)

    def __call__(self, keys: Sequence[Texts], names: Sequence[str]) -> Sequence[Texts]:
        """The columns of each row, null where it is gone."""
        wanted: list[Any] = [[_text(value) for value in column] for column in zip(*keys, strict=True)]
        return self._session.run(lambda cursor: self._found(cursor, wanted, names))

    def _found(self, cursor: Any, keys: list[Any], names: Sequence[str]) -> list[Texts]:
        described = cursor.execute(_TYPES.encode(), (self._oid, self._options["keys"])).fetchall()
        table = f"{quoted(described[0][0])}.{quoted(described[0][1])}"
        types = {name: kind for _, _, name, kind in described}
        arrays = ", ".join(f"${number}::text[]" for number in range(1, len(keys) + 1))
        aliases = ", ".join(f"k{number}" for number in range(len(keys)))
        same = " AND ".join(
            f"t.{quoted(name)} = k.k{number}::{types[name]}" for number, name in enumerate(self._options["keys"])
        )
        columns = ", ".join(f"t.{quoted(name)}::text" for name in names)
        statement = (
            f"SELECT {columns} FROM unnest({arrays}) WITH ORDINALITY AS k({aliases}, place) "
            f"LEFT JOIN {table} t ON {same} ORDER BY k.place"
        )
        rows = cursor.execute(statement.encode(), keys).fetchall()
        return [[None if value is None else value.encode() for value in row] for row in rows]

    def close(self) -> None:
        """End the session."""
        self._session.close()


def _text(value: bytes | None) -> str | None:
    return None if value is None else value.decode()
