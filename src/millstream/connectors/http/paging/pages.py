"""An answer of a server as a value: what paginators, stop rules and actions decide by."""

from __future__ import annotations

import codecs
import csv
import dataclasses
import gzip
import hashlib
import io
import re
import zlib
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import msgspec

from millstream.connectors.http.paging.paths import MISSING, Steps, found_at, raw_records, raw_sign
from millstream.errors import ExternalFailure

_GZIP = b"\x1f\x8b"
_CHUNK = 1 << 20
_BODILESS = (204, 205)
"""Answers that say by their status that they hold nothing."""
_SURROGATES = re.compile(
    rb"\\(?:\\|u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u([dD][89a-fA-F][0-9a-fA-F]{2}))"
)
"""A backslash that is meant as such, a pair of surrogates, or half of one, which is the group."""
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


@dataclasses.dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What came back; names of headers are in lower case."""

    status: int
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    body: bytes = b""


@dataclasses.dataclass(frozen=True, slots=True)
class BodyFormat:
    """How an answer holds its records."""

    kind: str
    records: Steps
    delimiter: str
    header: bool


@dataclasses.dataclass(frozen=True, slots=True)
class FetchedPage:
    """An answer that holds records."""

    headers: Mapping[str, str]
    document: Any
    """The decoded body; `MISSING` for formats that are lines."""
    records: Sequence[Any]
    digest: str
    """Of the body: two pages with the same one are the same page."""


def unpacked(body: bytes, *, limit: int) -> bytes:
    """The body of a file that is sent packed; whatever else it is stays as it is, but for a mark that says UTF-8.

    Raises:
        ExternalFailure: (HTTP-013) it unpacks to more than `limit` bytes; (HTTP-012) it is broken.
    """
    if not body.startswith(_GZIP):
        return body.removeprefix(codecs.BOM_UTF8)
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(body)) as packed:
            while part := packed.read(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise too_large(limit)
    except (OSError, EOFError, zlib.error) as problem:
        raise not_readable(str(problem), form="gzip") from None
    return b"".join(parts).removeprefix(codecs.BOM_UTF8)


def page_of(answer: HttpAnswer, form: BodyFormat) -> FetchedPage:
    """What an answer says, for those who decide how to go on.

    Raises:
        ExternalFailure: (HTTP-012) the body is not of its format.
    """
    document: Any = MISSING
    found: Any
    if form.kind == "json":
        document = None if answer.status in _BODILESS and not answer.body else _document(answer.body, form.records)
        found = found_at(document, form.records)
    elif form.kind == "jsonl":
        found = [_line(line) for line in lines_of(answer.body)]
    else:
        found = _csv_rows(answer.body, form)
    digest = hashlib.blake2b(answer.body, digest_size=8).hexdigest()
    return FetchedPage(answer.headers, document, _records(found), digest)


def kept_records(body: bytes, form: BodyFormat, skip: Collection[int]) -> bytes:
    """The records of a page as they are kept: of JSON one in a line, undecoded, without what stands around them.

    Around them stand next addresses, in which a server may repeat the secrets of the request. No line ends inside a string of
    JSON, so line ends in a record are blanks.
    """
    if form.kind == "csv" or not body:
        return body
    records = _raw_records(body, form.records) if form.kind == "json" else lines_of(body)
    left = [record for number, record in enumerate(records) if number not in skip] if skip else records
    if form.kind == "json" and b"\n" in body:
        left = [record.replace(b"\r", b" ").replace(b"\n", b" ") for record in left]
    return b"\n".join(left)


def _raw_records(body: bytes, steps: Steps) -> list[bytes]:
    try:
        return raw_records(body, steps)
    except _UNREADABLE:
        return raw_records(_with_halves(body), steps)


def _document(body: bytes, records: Steps) -> Any:
    try:
        return msgspec.json.decode(body)
    except _UNREADABLE as problem:
        reason = str(problem)
    try:
        return _with_records(msgspec.Raw(_with_halves(body).strip()), records)
    except _UNREADABLE:
        raise not_readable(reason, form="json") from None


def _with_halves(body: bytes) -> bytes:
    """JSON text in which escapes for half of a pair of surrogates stand as bytes.

    So they do not keep the rest from being read, and those who decode the record find text that is not UTF-8.
    """
    return _SURROGATES.sub(lambda found: _half(found[1]) if found[1] else found[0], body)


def _half(digits: bytes) -> bytes:
    return chr(int(digits, 16)).encode("utf-8", "surrogatepass")


def _with_records(raw: msgspec.Raw, steps: Steps) -> Any:
    """A document of which a record cannot be read, for text that is not UTF-8 or a number without end: that one as its bytes.

    It must not keep the others of its page from being read; those who decode it tell what is wrong with it. What stands around
    the records has to be read, for it says how to go on.
    """
    if not steps and raw_sign(raw) == b"[":
        return [_line(bytes(item)) for item in msgspec.json.decode(raw, type=list[msgspec.Raw])]
    if not steps or raw_sign(raw) != b"{":
        return msgspec.json.decode(raw)
    inside = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    return {
        name: _with_records(value, steps[1:]) if name == steps[0] else msgspec.json.decode(value)
        for name, value in inside.items()
    }


def _line(line: bytes) -> Any:
    """A record, or its bytes: a bad line is for those who read the page, and none to turn a page by."""
    try:
        return msgspec.json.decode(line)
    except _UNREADABLE:
        return line


def _csv_rows(body: bytes, form: BodyFormat) -> list[Any]:
    try:
        body.partition(b"\n")[0].decode("utf-8")
    except UnicodeDecodeError as problem:
        msg = f"the first line is not UTF-8: {problem.reason}"
        raise not_readable(msg, form="csv") from None
    text = io.StringIO(body.decode("utf-8-sig", "replace"), newline="")
    try:
        rows = [row for row in csv.reader(text, delimiter=form.delimiter) if row]
    except csv.Error as problem:
        raise not_readable(str(problem), form="csv") from None
    return [dict(zip(rows[0], row, strict=False)) for row in rows[1:]] if form.header else rows


def _records(found: Any) -> Sequence[Any]:
    """Missing and null are no records; a list is many; anything else is one."""
    if found is MISSING or found is None:
        return ()
    return found if isinstance(found, list) else [found]


def lines_of(body: bytes) -> list[bytes]:
    """The lines of a body that hold something."""
    return [line for line in body.split(b"\n") if line.strip()]


def json_of(answer: HttpAnswer) -> Any:
    """The decoded body of an answer that may be anything; `MISSING` when it is no JSON."""
    try:
        return msgspec.json.decode(answer.body)
    except _UNREADABLE:
        return MISSING


def not_readable(problem: str, *, form: str) -> ExternalFailure:
    """The error for a body that is not what it should be."""
    msg = f"the answer is no {form}"
    hint = "look at the answer with `millstream connectors test`, and correct format= or on_status="
    return ExternalFailure(msg, code="HTTP-012", found=problem, hint=hint)


def too_large(limit: int) -> ExternalFailure:
    """The error for an answer that has no end."""
    msg = f"an answer is larger than {limit} bytes"
    return ExternalFailure(msg, code="HTTP-013", hint="ask for smaller pages, or raise max_page_bytes=")
