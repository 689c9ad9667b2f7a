"""A look at the target of a sink before a job runs: nothing is created or changed."""

from __future__ import annotations

from pathlib import Path

from millstream.connectors.jdbc.database import Cursor
from millstream.connectors.jdbc.layout import find_target, layout_of, open_database
from millstream.database.url import address_of
from millstream.model.connector import Options
from millstream.model.schema import Schema


def look_at_table(options: Options, schema: Schema, step: str) -> list[str]:
    """Connect, and see whether the table takes the rows."""
    address = address_of(options["url"])
    if address.kind == "sqlite" and not Path(address.path).exists():
        return [f"the {address.label} is missing and will be created"]
    database = open_database(options, job="connectors test", step=step)
    try:
        layout = layout_of(options, schema, database, step=step)

        def look(cursor: Cursor) -> list[str] | None:
            return find_target(cursor, database, layout, create=options["create"], step=step)

        columns = database.run(look)
    finally:
        database.close()
    table = f"table {options['table']!r}"
    found = f"{table} is missing and will be created" if columns is None else f"{table} takes the rows"
    there = [] if columns is None else [f"its columns: {', '.join(columns)}"]
    return [f"the {address.label} answers", found, *there]
