"""Strings without a loop over rows: slices of two random pools, and tables that indices look up."""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.nexmark.draws import Draws, Numbers

POOL = 2**20
"""Characters in a pool."""
CHANNELS = 10_000
HOT_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_LETTERS, _WORDS = 64, 65
_URL_WORDS = (70, 78, 86)
_URL_FLAG = 94
_FILLER_DRAWS = 338
_INLINE = 12
_SPACE = ord(" ")


class Pool:
    """Random characters from which long text is cut."""

    def __init__(self, characters: npt.NDArray[np.uint8]) -> None:
        self._buffer = pa.py_buffer(characters)
        padded = np.concatenate([characters, np.zeros(_INLINE, np.uint8)])
        self._words = np.lib.stride_tricks.sliding_window_view(padded, 4).copy().view(np.uint32).ravel()
        indices = np.arange(POOL)
        is_text = characters != _SPACE
        # Where the next text at or after a position begins, and where the last text at or before it ends.
        self._begins = np.minimum.accumulate(np.where(is_text, indices, POOL)[::-1])[::-1]
        self._ends = np.maximum.accumulate(np.where(is_text, indices + 1, 0))

    def cut(self, offset: Numbers, length: Numbers) -> pa.Array:
        """The slices that begin at the offsets."""
        views = np.empty((len(offset), 4), np.uint32)
        views[:, 0] = length
        views[:, 1] = self._words[offset] & _kept(length)
        views[:, 2] = 0
        views[:, 3] = offset
        short = np.flatnonzero(length <= _INLINE)
        for word in (1, 2):
            views[short, word + 1] = self._words[offset[short] + 4 * word] & _kept(length[short] - 4 * word)
        buffers = [None, pa.py_buffer(views), self._buffer]
        return pa.Array.from_buffers(pa.string_view(), len(offset), buffers).cast(pa.string())

    def trimmed(self, offset: Numbers, length: Numbers) -> tuple[Numbers, Numbers]:
        """Offset and length of the slices without spaces around them."""
        begin = self._begins[offset]
        end = self._ends[offset + length - 1]
        return np.where(begin < end, begin, 0), np.maximum(end - begin, 0)


def _kept(length: Numbers) -> npt.NDArray[np.uint32]:
    """Masks for the first bytes of a little-endian word: as many as the length, none or all four beyond that."""
    bits = np.clip(length, 0, 4).astype(np.uint64) * np.uint64(8)
    return ((np.uint64(1) << bits) - np.uint64(1)).astype(np.uint32)


@functools.lru_cache(maxsize=4)
def letters(seed: int) -> Pool:
    """The pool of letters a to z."""
    return Pool((Draws(seed, np.arange(POOL)).below(_LETTERS, 26) + ord("a")).astype(np.uint8))


@functools.lru_cache(maxsize=4)
def words(seed: int) -> Pool:
    """The pool of letters and spaces."""
    return Pool(_filled(Draws(seed, np.arange(POOL)), _WORDS, " "))


def _filled(draws: Draws, field: int, filler: str) -> npt.NDArray[np.uint8]:
    drawn = draws.below(field, _FILLER_DRAWS)
    return np.where(drawn < 26, ord(filler), ord("a") + drawn % 26).astype(np.uint8)


@functools.lru_cache(maxsize=4)
def urls(seed: int) -> pa.Array:
    """The url of each channel, the hot ones last."""
    count = CHANNELS + len(HOT_CHANNELS)
    draws = Draws(seed, np.arange(count))
    folders = [_url_words(draws, field) for field in _URL_WORDS]
    is_marked = draws.below(_URL_FLAG, 10) > 0
    marks = [f"&channel_id={_channel_id(i)}" if i < CHANNELS and is_marked[i] else "" for i in range(count)]
    rows = zip(*folders, marks, strict=True)
    return pa.array([f"https://www.nexmark.com/{a}/{b}/{c}/item.htm?query=1{mark}" for a, b, c, mark in rows])


def _url_words(draws: Draws, field: int) -> list[str]:
    lengths = 3 + draws.below(field, 2)
    characters = np.stack([_filled(draws, field + 1 + place, "_") for place in range(4)], axis=1)
    return [bytes(row[:length]).decode() for row, length in zip(characters, lengths, strict=True)]


def _channel_id(channel: int) -> int:
    """The absolute value of the reversed 32 bits; like Java's, it leaves the lowest number negative."""
    reversed_bits = int(f"{channel:032b}"[::-1], 2)
    signed = reversed_bits - 2**32 if reversed_bits >= 2**31 else reversed_bits
    return signed if signed == -(2**31) else abs(signed)


@functools.cache
def channels() -> pa.Array:
    """The name of each channel, the hot ones last."""
    return pa.array([*(f"channel-{i}" for i in range(CHANNELS)), *HOT_CHANNELS])


@functools.cache
def card_groups() -> pa.Array:
    """Four digits for each number below 10 000."""
    return pa.array([f"{number:04d}" for number in range(10_000)])


def looked_up(table: pa.Array, index: Numbers) -> pa.Array:
    """The entry of each index."""
    return table.take(pa.array(index))


def lengths(texts: pa.Array) -> Numbers:
    """Characters of each text; all are ASCII."""
    counted: Numbers = pc.binary_length(texts).to_numpy().astype(np.int64)
    return counted
