"""The first rows of the table, for those who look before a job runs: no slot is made, and the log is not touched."""

from __future__ import annotations

import pyarrow as pa

from millstream.connectors.postgres_cdc.publication import quoted
from millstream.connectors.postgres_cdc.server import CdcServer
from millstream.connectors.postgres_cdc.spec import column_of, table_schema
from millstream.connectors.postgres_cdc.typed_rows import Part, typed_rows
from millstream.model.change import ChangeKind
from millstream.model.connector import Options
from millstream.model.schema import Schema


def sample(options: Options, schema: Schema, limit: int) -> list[Part]:
    """Some rows as a copy of the table would hold them."""
    table = table_schema(options, schema)
    server = CdcServer(options, step=options["table"])
    try:
        rows = server.rows(_statement(options, table, limit))
    finally:
        server.close()
    columns = {
        name: pa.array([None if row[place] is None else row[place].encode() for row in rows], pa.binary())
        for place, name in enumerate(table.names)
    }
    for name in options["metadata"]:
        columns[name] = pa.nulls(len(rows), schema[name].type)
    columns[str(column_of(options, "op"))] = pa.repeat(ChangeKind.READ.value, len(rows))
    texts = pa.RecordBatch.from_pydict({name: columns[name] for name in schema.names})
    return list(typed_rows(texts, options, schema, lambda _: str(options["table"])))


def _statement(options: Options, table: Schema, limit: int) -> str:
    """Values as COPY writes them: `format` does, a cast to text does not."""
    names = map(quoted, table.names)
    texts = ", ".join(f"CASE WHEN {name} IS NOT NULL THEN format('%s', {name}) END" for name in names)
    place = [quoted(options["schema"])] if options["schema"] is not None else []
    return f"SELECT {texts} FROM {'.'.join([*place, quoted(options['table'])])} LIMIT {limit}"
