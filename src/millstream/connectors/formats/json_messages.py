"""Messages that are one json object each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.json

from millstream.connectors.formats.json_lines import are_in_braces, by_record, is_read_by_arrow, parsed
from millstream.connectors.formats.message import Decoded, decoded, in_halves
from millstream.connectors.formats.text_columns import Part, single_batch
from millstream.model.connector import Options
from millstream.model.schema import Schema

_BLANKS = b" \t\r\n"
_LARGEST_BLOCK = (1 << 31) - 1


class JsonMessages:
    """Reads blocks of json objects by Arrow, and the neighbours of a bad one by record."""

    def __init__(self, schema: Schema, options: Options) -> None:
        self._schema = schema
        self._ignores_extra: bool = options["ignore_extra"]
        self._is_read_by_arrow = is_read_by_arrow(schema)

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages."""
        return decoded(values, self.parts)

    def parts(self, texts: Sequence[bytes]) -> Iterator[Part]:
        """Rows and bad records of json texts, in order."""
        if self._is_read_by_arrow:
            return in_halves(texts, self.whole, self._by_record)
        return self._by_record(texts)

    def _by_record(self, texts: Sequence[bytes]) -> Iterator[Part]:
        return by_record(texts, self._schema, lambda text: self.whole([text]), ignore_extra=self._ignores_extra)

    def whole(self, texts: Sequence[bytes]) -> pa.RecordBatch:
        """The rows of json texts, all at once.

        Raises:
            ValueError: a text is bad, or is good and Arrow cannot read it.
        """
        chunk = _objects(texts)
        options = pa.json.ReadOptions(use_threads=False, block_size=min(len(chunk) + 1, _LARGEST_BLOCK))
        table = parsed(chunk, self._schema, texts, ignore_extra=self._ignores_extra, options=options)
        return single_batch(table, self._schema, len(texts))


def _objects(texts: Sequence[bytes]) -> bytes:
    """All texts in lines, if each begins and ends with a brace."""
    chunk = b"\n".join(texts)
    if _are_in_braces(chunk, texts):
        return chunk
    texts = [text.strip(_BLANKS) for text in texts]
    chunk = b"\n".join(texts)
    if not _are_in_braces(chunk, texts):
        msg = "a message is not an object"
        raise ValueError(msg)
    return chunk


def _are_in_braces(chunk: bytes, texts: Sequence[bytes]) -> bool:
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.cumsum(lengths + 1) - 1
    return are_in_braces(np.frombuffer(chunk, np.uint8), ends - lengths, ends)
