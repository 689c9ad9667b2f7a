"""Messages that are one json object each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.formats.json_columns import to_column
from millstream.connectors.formats.json_lines import by_arrow, by_record
from millstream.connectors.formats.json_types import row_type
from millstream.connectors.formats.message import REFUSED, Decoded, decoded, in_halves, interleaved
from millstream.connectors.formats.text_columns import Part, check_no_nulls, check_utf8
from millstream.model.connector import Options
from millstream.model.schema import Schema

_NEGATIVE_ZERO = re.compile(rb"-0[\s,\]}]")
_UNREAD = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


class JsonMessages:
    """Reads each message by msgspec, and their columns all at once.

    A message that msgspec does not take is read by record, which decides; so is one whose values do not become a column.
    """

    def __init__(self, schema: Schema, options: Options) -> None:
        self._schema = schema
        self._ignores_extra: bool = options["ignore_extra"]
        kind = row_type(schema, ignore_extra=self._ignores_extra)
        self._decode = None if kind is None else msgspec.json.Decoder(kind).decode
        self._values = _values(len(schema))
        self._columns = [to_column(field.type) for field in schema]
        self._zeros = [place for place, field in enumerate(schema) if pa.types.is_float64(field.type)]
        self._has_nested_doubles = any(
            "double" in field.type_name for field in schema if pa.types.is_nested(field.type)
        )

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        return decoded(values, self._parts)

    def _parts(self, texts: Sequence[bytes]) -> Iterator[Part]:
        if self._decode is None or not texts:
            return self._by_record(texts)
        try:
            return iter([self.whole(texts)])
        except REFUSED:
            return self._sifted(texts)

    def _by_record(self, texts: Sequence[bytes]) -> Iterator[Part]:
        return by_record(
            texts, self._schema, lambda text: next(by_arrow(text, self._schema)), ignore_extra=self._ignores_extra
        )

    def whole(self, texts: Sequence[bytes]) -> pa.RecordBatch:
        """The rows of json texts, all at once.

        Raises:
            ValueError: a text is bad, or is good and has to be read by record.
        """
        if self._decode is None:
            msg = "columns that are read by record"
            raise ValueError(msg)
        try:
            rows = list(map(self._decode, texts))
        except _UNREAD as problem:
            raise ValueError(str(problem)) from None
        joined = b"".join(texts)
        if not joined.isascii():
            check_utf8(joined)  # msgspec does not look at what no column asks for
        return self._batch(rows, texts)

    def _batch(self, rows: Sequence[Any], texts: Sequence[bytes]) -> pa.RecordBatch:
        values = self._values(rows)
        columns = [column(each) for column, each in zip(self._columns, values, strict=True)]
        if self._may_lose_a_sign(columns) and any(map(_NEGATIVE_ZERO.search, texts)):
            msg = "a zero with a sign, which msgspec drops"
            raise ValueError(msg)
        batch = pa.RecordBatch.from_arrays(columns, schema=self._schema.arrow)
        check_no_nulls(batch, self._schema)
        return batch

    def _may_lose_a_sign(self, columns: Sequence[pa.Array]) -> bool:
        return self._has_nested_doubles or any(pc.any(pc.equal(columns[place], 0)).as_py() for place in self._zeros)

    def _sifted(self, texts: Sequence[bytes]) -> Iterator[Part]:
        """The rows of texts that cannot be read at once: those that msgspec takes in blocks, the others by record."""
        rows = [self._row(text) for text in texts]
        taken = [place for place, row in enumerate(rows) if row is not None]
        left = [place for place, row in enumerate(rows) if row is None]
        parts = in_halves(
            taken,
            lambda places: self._batch([rows[place] for place in places], [texts[place] for place in places]),
            lambda places: self._by_record([texts[place] for place in places]),
        )
        others = self._by_record([texts[place] for place in left])
        return interleaved([(np.array(taken, np.int64), parts), (np.array(left, np.int64), others)])

    def _row(self, text: bytes) -> Any:
        assert self._decode is not None
        try:
            text.decode("utf-8")
            return self._decode(text)
        except _UNREAD:
            return None


def _values(width: int) -> Callable[[Sequence[Any]], list[list[Any]]]:
    """What gives the values of each column. Attributes named in the source are read twice as fast as by `attrgetter`."""
    columns = ", ".join(f"[row.f{place} for row in rows]" for place in range(width))
    source = f"lambda rows: [{columns}]"
    values: Callable[[Sequence[Any]], list[list[Any]]] = eval(source)
    return values
