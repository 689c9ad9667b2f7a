"""Rows as Avro messages, with the number of the schema in a registry where there is one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pyarrow as pa

from millstream.connectors.formats.avro.derived import schema_of_columns
from millstream.connectors.formats.avro.pieces import constant, messages, side_by_side
from millstream.connectors.formats.avro.registry import UnknownSchema, registry_at
from millstream.connectors.formats.avro.schema import avro_type
from millstream.connectors.formats.avro.writing import row_writing
from millstream.errors import InvalidSchema, InvalidStep
from millstream.model.connector import Options
from millstream.model.schema import Schema


def avro_encoder(schema: Schema, options: Options) -> Callable[[pa.RecordBatch], pa.Array]:
    """Write in the schema given, or in that of the columns."""
    given = options["avro_schema"]
    text = given if isinstance(given, str) else json.dumps(given or schema_of_columns(schema))
    write = row_writing(avro_type(text), schema)
    prefix = b"" if options["registry"] is None else _prefix(text, options)

    def encode(batch: pa.RecordBatch) -> pa.Array:
        try:
            pieces = write(batch)
        except (ValueError, pa.ArrowException) as problem:
            msg = "rows do not fit the Avro schema"
            hint = "change the rows, or avro_schema="
            raise InvalidSchema(msg, code="FORMAT-005", found=str(problem), hint=hint) from None
        return messages(side_by_side([constant(prefix, batch.num_rows), pieces]) if prefix else pieces)

    return encode


def _prefix(schema: str, options: Options) -> bytes:
    try:
        number = registry_at(options["registry"]).number(options["subject"], schema, registers=options["register"])
    except UnknownSchema as problem:
        msg = f"the registry has no such schema under the subject {options['subject']!r}"
        hint = "register it first, or pass register=True"
        raise InvalidStep(msg, code="FORMAT-012", found=str(problem), hint=hint) from None
    return b"\0" + number.to_bytes(4, "big")
