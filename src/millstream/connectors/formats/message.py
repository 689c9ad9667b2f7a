"""What decoding messages gives: rows with the places of their messages, and the messages that are bad."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar, cast

import numpy as np
import pyarrow as pa

from millstream.connectors.formats.text_columns import Part
from millstream.contract.source import BadRecord


class DecodedRows(NamedTuple):
    """Rows, and which messages they came from: one row for each index, ascending."""

    rows: pa.RecordBatch
    taken: range | np.ndarray


class BadMessage(NamedTuple):
    """A message that could not be decoded."""

    index: int  # type: ignore[assignment]  # as a tuple it also has a method of that name, which nobody calls
    raw: bytes
    error: str


Decoded: TypeAlias = DecodedRows | BadMessage


class MessageDecoder(Protocol):
    """Turns messages into rows of the schema it was opened with."""

    def decode(self, values: Sequence[bytes | None]) -> Iterator[Decoded]:
        """Rows and bad messages in the order of the messages; a good block is one batch."""
        ...


V = TypeVar("V")
Parts: TypeAlias = Callable[[Sequence[V]], Iterable[Part]]

REFUSED = (pa.ArrowException, ValueError, ArithmeticError)
"""What a reader of several messages raises when it cannot tell which of them is to blame."""
_FEW = 128
"""Messages that are read one by one rather than in two halves, where nothing else is said."""
_NO_VALUE = "null value: the message has none, and none that the format gives a meaning"


def decoded(values: Sequence[bytes | None], parts: Parts[bytes]) -> Iterator[Decoded]:
    """What `parts` makes of the messages between those without a value, which are bad."""
    first = 0
    nulls = [index for index, value in enumerate(values) if value is None] if None in values else ()
    for index in nulls:
        yield from placed(parts(_present(values[first:index])), values, range(first, index))
        yield BadMessage(index, b"", _NO_VALUE)
        first = index + 1
    yield from placed(parts(_present(values[first:])), values, range(first, len(values)))


def _present(values: Sequence[bytes | None]) -> Sequence[bytes]:
    return cast("Sequence[bytes]", values)


def in_halves(
    values: Sequence[V], whole: Callable[[Sequence[V]], pa.RecordBatch], few: Parts[V], *, at_most: int = _FEW
) -> Iterator[Part]:
    """Rows of all messages at once; where that is refused, of each half, and of a few messages by `few`.

    So a bad message costs the speed of its neighbours only, and not of the block.

    Args:
        values: the messages.
        whole: the rows of messages; raises `ValueError` when one of them is bad, or is good and beyond it.
        few: the same for any messages, with a bad record in the place of each bad one.
        at_most: how many are a few.
    """
    if not values:
        return
    try:
        yield whole(values)
    except REFUSED:
        if len(values) <= at_most:
            yield from few(values)
            return
        middle = len(values) // 2
        yield from in_halves(values[:middle], whole, few, at_most=at_most)
        yield from in_halves(values[middle:], whole, few, at_most=at_most)


def placed(parts: Iterable[Part], values: Sequence[bytes | None], taken: range | np.ndarray) -> Iterator[Decoded]:
    """Parts with the places of their messages.

    Args:
        parts: each follows the one before it, and a batch has a row for each message.
        values: all messages.
        taken: the indices of those that the parts are made of.
    """
    position = 0
    waiting: list[pa.RecordBatch] = []
    for part in parts:
        if not isinstance(part, BadRecord):
            waiting.append(part)
            continue
        position += yield from _joined(waiting, taken[position:])
        waiting = []
        index = int(taken[position])
        yield BadMessage(index, values[index] or b"", part.error)
        position += 1
    yield from _joined(waiting, taken[position:])


def _joined(batches: list[pa.RecordBatch], taken: range | np.ndarray) -> Generator[DecodedRows, None, int]:
    length = sum(int(batch.num_rows) for batch in batches)
    if length:
        rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        yield DecodedRows(rows, taken[:length])
    return length


def cut(data: np.ndarray, is_end: np.ndarray) -> pa.BinaryArray:
    """The pieces of some bytes, each up to a byte that ends it and is left out."""
    ends = np.flatnonzero(is_end)
    offsets = np.concatenate([[0], ends - np.arange(len(ends))]).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data[~is_end])]
    return pa.Array.from_buffers(pa.binary(), len(ends), buffers)


def interleaved(groups: Iterable[tuple[np.ndarray, Iterable[Part]]]) -> Iterator[Part]:
    """Parts in the order of places, from groups of parts that each follow some of the places."""
    batches: list[pa.RecordBatch] = []
    rows: list[np.ndarray] = []
    bad: dict[int, BadRecord] = {}
    for places, parts in groups:
        position = 0
        for part in parts:
            if isinstance(part, BadRecord):
                bad[int(places[position])] = part
                position += 1
                continue
            batches.append(part)
            rows.append(places[position : position + part.num_rows])
            position += part.num_rows
    return _in_order(batches, rows, bad)


def _in_order(batches: list[pa.RecordBatch], rows: list[np.ndarray], bad: dict[int, BadRecord]) -> Iterator[Part]:
    places = np.concatenate([*rows, np.array([], np.int64)])
    order = np.argsort(places)
    batch = pa.concat_batches(batches).take(pa.array(order)) if batches else None
    start = 0
    for place in sorted(bad):
        end = int(np.searchsorted(places[order], place))
        if batch is not None and end > start:
            yield batch.slice(start, end - start)
        yield bad[place]
        start = end
    if batch is not None and start < batch.num_rows:
        yield batch.slice(start)
