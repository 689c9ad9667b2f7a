"""Many Avro messages of one schema read at once: as the one block of a container file, which polars reads into Arrow.

Behind each message stands a mark, a number drawn for this block. Only if every row is followed by it was each row read from its
own message: bytes too many or too few in one would else move the rows behind it.
"""

from __future__ import annotations

import io
import json
import secrets
from collections.abc import Sequence
from typing import Any

import polars
import pyarrow as pa
from polars.exceptions import PanicException, PolarsError

from millstream.connectors.formats.avro.pieces import varint

_MARK = "mark"
_SYNC = bytes(16)


def wire_table(bodies: Sequence[bytes], wire: dict[str, Any], wanted: Sequence[str]) -> pa.Table:
    """The fields wanted of messages whose wire form is given.

    Raises:
        ValueError: one of the messages is bad.
    """
    mark = secrets.randbits(62)
    block = varint(mark).join([*bodies, b""])
    container = b"".join([_head(wire), varint(len(bodies)), varint(len(block)), block, _SYNC])
    try:
        frame = polars.read_avro(io.BytesIO(container), columns=[*wanted, _MARK])
    except (PolarsError, PanicException, OSError) as problem:
        raise ValueError(str(problem)) from None
    if len(frame) != len(bodies) or not (frame[_MARK] == mark).all():
        msg = "bytes are missing in a message, or left behind it"
        raise ValueError(msg)
    return frame.drop(_MARK).to_arrow()


def _head(wire: dict[str, Any]) -> bytes:
    fields = [{"name": name, "type": kind} for name, kind in {**wire, _MARK: "long"}.items()]
    schema = json.dumps({"type": "record", "name": "message", "fields": fields}).encode()
    entries = {b"avro.schema": schema, b"avro.codec": b"null"}
    written = [_text(part) for entry in entries.items() for part in entry]
    return b"".join([b"Obj\x01", varint(len(entries)), *written, varint(0), _SYNC])


def _text(data: bytes) -> bytes:
    return varint(len(data)) + data
