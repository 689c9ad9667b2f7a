"""Unpacks answers that were packed for the way, piece by piece: a small answer may become a huge one, or be cut off.

A packed answer that ends too early looks whole to whoever reads its lines. So its end is waited for, and so are further parts
behind it: servers that join packed files send several.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from millstream.connectors.http.asking.library import httpcore2
from millstream.connectors.http.paging.pages import not_readable

_CHUNK = 1 << 20
_GZIP_BITS = 16 + zlib.MAX_WBITS
_GZIP_NAMES = ("gzip", "x-gzip")


def unpacked_parts(parts: Iterable[bytes], encodings: str) -> Iterator[bytes]:
    """The pieces of a body as they were before packing, each of at most a mebibyte unless it was not packed.

    Args:
        parts: the body as it came.
        encodings: the header `Content-Encoding`.

    Raises:
        ExternalFailure: (HTTP-012) it is packed as nobody asked for.
        RemoteProtocolError: it is broken, or ends too early.
    """
    names = [name for each in encodings.split(",") if (name := each.strip().lower()) not in ("", "identity")]
    if not names:
        yield from parts
    elif len(names) > 1 or names[0] not in (*_GZIP_NAMES, "deflate"):
        found = f"Content-Encoding: {encodings}"
        raise not_readable(found, form="gzip or deflate")
    else:
        try:
            yield from _unpacked(parts, is_gzip=names[0] in _GZIP_NAMES)
        except zlib.error as problem:
            msg = f"the packed answer is broken: {problem}"
            raise httpcore2.RemoteProtocolError(msg) from None


def _unpacked(parts: Iterable[bytes], *, is_gzip: bool) -> Iterator[bytes]:
    inside, is_behind = None, False
    for part in parts:
        left = part
        while left:
            if inside is None:
                # Behind the end there may be zeros that fill up, and of gzip a further part.
                left = left.lstrip(b"\0") if is_behind else left
                if not left or (is_behind and not is_gzip):
                    break
                inside = zlib.decompressobj(_GZIP_BITS if is_gzip else _deflate_bits(left))
            yield from _taken_in(inside, left)
            left = inside.unconsumed_tail
            if inside.eof:
                left, inside, is_behind = inside.unused_data, None, True
    if inside is not None:
        msg = "the packed answer ends too early"
        raise httpcore2.RemoteProtocolError(msg)


def _taken_in(inside: Any, packed: bytes) -> Iterator[bytes]:
    """A piece; and what was taken in and is more than that."""
    got = inside.decompress(packed, _CHUNK)
    yield got
    while len(got) == _CHUNK and not inside.unconsumed_tail and not inside.eof:
        got = inside.decompress(b"", _CHUNK)
        yield got


def _deflate_bits(begin: bytes) -> int:
    """Servers mean two things by deflate: with a head that says so, or without one."""
    has_head = begin[0] & 0x0F == zlib.DEFLATED and (len(begin) < 2 or int.from_bytes(begin[:2], "big") % 31 == 0)
    return zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS
