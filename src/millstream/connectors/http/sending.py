"""What a batch of rows becomes: a request with a body and a name. Values in, values out."""

from __future__ import annotations

import dataclasses
import hashlib

import msgspec
import pyarrow as pa

from millstream.connectors.formats.json_text import lines
from millstream.connectors.http.paging.page_request import PageRequest
from millstream.connectors.http.paging.paths import with_value
from millstream.connectors.http.sink_settings import SinkSettings

_CONTENT_TYPES = {"array": "application/json", "lines": "application/x-ndjson", "object": "application/json"}
_LONGEST_KEY = 200


def batch_request(settings: SinkSettings, batch: pa.RecordBatch, key: str) -> PageRequest:
    """The request that sends a batch."""
    content = batch_body(settings, batch)
    headers = [*settings.request.headers]
    if not any(name.lower() == "content-type" for name, _ in headers):
        headers.append(("Content-Type", _CONTENT_TYPES[settings.body]))
    if settings.key_header is not None:
        headers.append((settings.key_header, batch_key(key)))
    return dataclasses.replace(settings.request, headers=tuple(headers), content=content)


def batch_body(settings: SinkSettings, batch: pa.RecordBatch) -> bytes:
    """The rows as the receiver wants them."""
    text = lines(batch)
    if settings.body == "lines":
        return text
    rows = text.rstrip(b"\n").split(b"\n")
    if settings.body == "object":
        return rows[0]
    array = b"[" + b",".join(rows) + b"]"
    if not settings.records:
        return array
    return msgspec.json.encode(with_value(settings.template, settings.records, msgspec.Raw(array)))


def batch_key(key: str) -> str:
    """The name of a batch as it fits a header: a long one keeps its beginning, and a hash of it all."""
    if len(key) <= _LONGEST_KEY and key.isascii():
        return key
    head = key.encode("ascii", "replace").decode("ascii")[: _LONGEST_KEY - 33]
    return f"{head}-{hashlib.blake2b(key.encode(), digest_size=16).hexdigest()}"
