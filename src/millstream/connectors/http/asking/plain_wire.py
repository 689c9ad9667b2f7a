"""Requests and answers of the plainest form, as most pages are, written and read at once: in a fifth of the time that h11 takes.

Whatever is not exactly of this form is `None` here, and h11 decides about it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

_TARGET = re.compile(rb"[\x21-\x7e]+")
_OF_MEANING = frozenset(
    {b"connection", b"content-length", b"expect", b"te", b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Headers that say how the request itself, or the connection, goes on."""
_HEAD = re.compile(
    rb"HTTP/1\.1 (2[0-9]{2}|[45][0-9]{2}) [\t\x20-\x7e]*\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\r\n)+)\r\n"
)
_LENGTH = re.compile(rb"[0-9]{1,15}")
_BODILESS = (204, 205)
Headers = list[tuple[bytes, bytes]]


class PlainHead(NamedTuple):
    """The head of an answer, how long its body is, and where in the bytes that came it begins."""

    status: int
    headers: Headers
    body_bytes: int
    begin: int


def plain_request(method: str, target: bytes, headers: Sequence[tuple[bytes, bytes]], content: bytes) -> bytes | None:
    """A request without a body as it is sent. Names and values of its headers were checked."""
    if method != "GET" or content or not _TARGET.fullmatch(target):
        return None
    if any(name.lower() in _OF_MEANING for name, _ in headers):
        return None
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"GET %b HTTP/1.1\r\n%b\r\n" % (target, lines)


def plain_head(came: bytes) -> PlainHead | None:
    """The head of an answer that lies whole at the begin of what came, says how long it is, and keeps the connection."""
    found = _HEAD.match(came)
    if found is None:
        return None
    headers: Headers = []
    lengths: list[bytes] = []
    for line in found[2].split(b"\r\n")[:-1]:
        name, _, value = line.partition(b":")
        value = value.strip(b" \t")
        headers.append((name, value))
        lower = name.lower()
        if lower == b"content-length":
            lengths.append(value)
        elif lower in _OF_MEANING and (lower, value.lower()) != (b"connection", b"keep-alive"):
            return None
    status = int(found[1])
    if len(lengths) != 1 or not _LENGTH.fullmatch(lengths[0]) or status in _BODILESS:
        return None
    return PlainHead(status, headers, int(lengths[0]), found.end())
