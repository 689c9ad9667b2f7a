"""Messages of Avro: of one schema that is given, or each with the number of its schema in a registry."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from millstream.connectors.formats.avro.registry import UnknownSchema, UnreadableSchema, registry_at
from millstream.connectors.formats.avro.rows import AvroRows
from millstream.connectors.formats.avro.schema import avro_type
from millstream.connectors.formats.message import Decoded, decoded, interleaved
from millstream.connectors.formats.text_columns import Part
from millstream.contract.source import BadRecord
from millstream.model.connector import Options
from millstream.model.schema import Schema

_PREFIX = 5
"""A zero, and the number of the schema in four bytes."""


def avro_messages(schema: Schema, options: Options) -> AvroMessages | RegisteredAvroMessages:
    """The reader of messages of one schema, or of a registry's."""
    if options["registry"] is not None:
        return RegisteredAvroMessages(schema, options["registry"])
    return AvroMessages(schema, options)


class AvroMessages:
    """Messages that are the body of one record of a known schema."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self._rows = AvroRows(avro_type(options["avro_schema"]), schema)

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        return decoded(values, self._rows.parts)


class RegisteredAvroMessages:
    """Messages that begin with the number of their schema. Those of one schema are read together, wherever they stand."""

    def __init__(self, schema: Schema, url: str) -> None:
        self._schema = schema
        self._registry = registry_at(url)
        self._rows: dict[bytes, AvroRows | str] = {}

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        return decoded(values, self._parts)

    def _parts(self, values: Sequence[bytes]) -> Iterator[Part]:
        prefixes = [value[:_PREFIX] for value in values]
        kinds = list(dict.fromkeys(prefixes))
        if len(kinds) == 1:
            return self._parts_of(kinds[0], values)
        places: dict[bytes, list[int]] = {kind: [] for kind in kinds}
        for place, prefix in enumerate(prefixes):
            places[prefix].append(place)
        return interleaved(
            (np.array(taken), self._parts_of(kind, [values[place] for place in taken]))
            for kind, taken in places.items()
        )

    def _parts_of(self, prefix: bytes, values: Sequence[bytes]) -> Iterator[Part]:
        rows = self._rows.get(prefix) or self._opened(prefix)
        if isinstance(rows, str):
            return (BadRecord(value, rows) for value in values)
        return rows.parts([value[_PREFIX:] for value in values])

    def _opened(self, prefix: bytes) -> AvroRows | str:
        """What reads messages of a schema, or why they are bad."""
        if len(prefix) < _PREFIX or prefix[0]:
            return "the message does not begin with a zero and the number of its schema"
        try:
            writer = self._registry.schema(int.from_bytes(prefix[1:], "big"))
        except UnknownSchema as problem:
            return str(problem)  # not remembered: it may be registered later
        except UnreadableSchema as problem:
            return self._rows.setdefault(prefix, str(problem))
        return self._rows.setdefault(prefix, self._resolved(writer))

    def _resolved(self, writer: str) -> AvroRows | str:
        try:
            return AvroRows(avro_type(writer), self._schema)
        except ValueError as problem:
            return str(problem)
