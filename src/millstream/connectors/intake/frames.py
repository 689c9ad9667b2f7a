"""Frames of an intake file: a head, which is JSON and says what follows, and a body; both have a checksum.

A crash may cut the last frame, or leave zeros where its bytes should be. Such a frame is torn and counts for nothing.
"""

from __future__ import annotations

import dataclasses
import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import msgspec

_SIZES = struct.Struct(">4sIIII")
"""Mark, length of the head, length of the body, checksum of the head and the lengths, checksum of the body."""
_MARK = b"msIN"
_LONGEST_HEAD = 16 << 20


class TornFrame(ValueError):
    """The file ends inside a frame, or holds something else where a frame should be."""


@dataclasses.dataclass(frozen=True, slots=True)
class FrameHead:
    """A frame without its body, and where it lies in its file."""

    start: int
    end: int
    head: Any
    body_bytes: int
    body_sum: int


def framed(head: Any, body: bytes) -> bytes:
    """The bytes of one frame."""
    encoded = msgspec.json.encode(head)
    body_sum = zlib.crc32(body)
    sizes = struct.pack(">III", len(encoded), len(body), body_sum)
    mark = _SIZES.pack(_MARK, len(encoded), len(body), zlib.crc32(encoded, zlib.crc32(sizes)), body_sum)
    return b"".join((mark, encoded, body))


def read_head(file: BinaryIO, at: int) -> FrameHead | None:
    """The frame that begins there, or `None` where the file ends.

    Raises:
        TornFrame: no whole head lies there.
    """
    file.seek(at)
    sizes = file.read(_SIZES.size)
    if not sizes:
        return None
    if len(sizes) < _SIZES.size or not sizes.startswith(_MARK):
        raise TornFrame(at)
    _, head_bytes, body_bytes, head_sum, body_sum = _SIZES.unpack(sizes)
    encoded = file.read(head_bytes) if head_bytes <= _LONGEST_HEAD else b""
    lengths = struct.pack(">III", head_bytes, body_bytes, body_sum)
    if len(encoded) < head_bytes or zlib.crc32(encoded, zlib.crc32(lengths)) != head_sum:
        raise TornFrame(at)
    end = at + _SIZES.size + head_bytes + body_bytes
    return FrameHead(at, end, msgspec.json.decode(encoded), body_bytes, body_sum)


def read_body(file: BinaryIO, frame: FrameHead) -> bytes:
    """The body of a frame.

    Raises:
        TornFrame: the file ends inside it, or it was changed.
    """
    file.seek(frame.end - frame.body_bytes)
    body = file.read(frame.body_bytes)
    if len(body) < frame.body_bytes or zlib.crc32(body) != frame.body_sum:
        raise TornFrame(frame.start)
    return body


def whole_frames(file: BinaryIO, start: int, end: int | None = None) -> Iterator[FrameHead]:
    """The frames from one byte to another, up to the first that is torn; their bodies are checked too."""
    at = start
    while end is None or at < end:
        try:
            frame = read_head(file, at)
            if frame is None:
                return
            read_body(file, frame)
        except TornFrame:
            return
        yield frame
        at = frame.end
