"""Rows that may be there already: one statement writes them, which no other writer can come between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


def insert_into(connection: Connection, table: Table) -> Any:
    """An insert that can say what happens on a conflict: both databases know how, and SQLAlchemy has it once for each."""
    return (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table)


def upsert(
    connection: Connection, table: Table, keys: Mapping[str, Any], values: Mapping[str, Any], **only_new: Any
) -> None:
    """Write a row.

    Args:
        connection: the transaction it belongs to.
        table: where it stands.
        keys: the columns by which a row is the same one.
        values: what it is to hold.
        **only_new: what it is to hold as well if there was none.
    """
    made = insert_into(connection, table).values(**keys, **values, **only_new)
    connection.execute(made.on_conflict_do_update(index_elements=list(keys), set_=dict(values)))
