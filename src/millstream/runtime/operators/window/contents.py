"""What a window keeps of its rows, row by row, and what it gives when it is closed.

A key may have thousands of open windows of which an epoch touches a few. So the list of them is read with the bounds of each
and its content as bytes, and only what is touched is decoded, and encoded again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from millstream.api.functions.process import TimeWindow
from millstream.graph.operations.window import Window
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import to_datetime
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.records.value_types import list_of, row_type, tuple_of
from millstream.runtime.bad_records import failure
from millstream.runtime.functions.calls import reduced_row, rows_made
from millstream.runtime.operators.aggregate.accumulate_values import ValueAccumulators
from millstream.runtime.operators.window.open_windows import HeldWindow
from millstream.state.entries import not_as_declared
from millstream.state.slots import Slot

Came = tuple[Any, ...]
"""What is kept of one row: its values, or what aggregates take of it."""


class Contents:
    """How a window's content is kept and closed: aggregates, a running reduction, or all rows for a function.

    Content that was decoded or made here belongs to one window and is changed in place.
    """

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        self._node, self._operation, self._names = node, node.operation, node.input_schema.names
        self._row_type = row_type(node.input_schema)
        self._values: ValueAccumulators | None = None
        if node.operation.aggregates:
            fields = [node.outputs[MAIN][name] for name, _ in node.operation.aggregates]
            self._values = ValueAccumulators(node.operation.aggregates, node.expressions, fields, step=node.id)

        self._decoder, self._encoder = msgspec.msgpack.Decoder(self._type), msgspec.msgpack.Encoder()

    @property
    def _type(self) -> Any:
        if self._values is not None:
            return tuple_of(*self._values.state_types)
        return self._row_type if self._operation.reduce is not None else list_of(self._row_type)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """One slot with the list of open windows; it is read as windows whose content is not decoded yet."""
        return (Slot(name="windows", kind="windows", content=list_of(tuple_of(int, int, self._type))),)

    def decoded(self, raw: msgspec.Raw) -> Any:
        """The content of a window that is stored."""
        return self._decoder.decode(raw)

    def encoded(self, key: tuple[Any, ...], content: Any) -> msgspec.Raw:
        """Content as it is stored; if it is not of its type it would poison every later epoch, so it ends this one."""
        try:
            raw = msgspec.Raw(self._encoder.encode(content))
            self._decoder.decode(raw)
        except (msgspec.ValidationError, TypeError, OverflowError) as problem:
            raise not_as_declared(self._node.id, key, content, problem) from problem
        return raw

    def came(self, batch: Batch) -> list[Came]:
        """What windows keep of each row."""
        if batch.times is None or batch.times.null_count:
            first = batch_to_rows(batch.rows.slice(0, 1))[0]
            raise failure(self._node.id, first, "a row without event time reached a window")
        if self._values is not None:
            return self._values.inputs(batch.rows)
        return [tuple(row[name] for name in self._names) for row in batch_to_rows(batch.rows)]

    def opened(self, came: Came) -> Any:
        """The content of a window with one row."""
        if self._values is not None:
            content = self._values.empty()
            self._values.add(content, came)
            return content
        return came if self._operation.reduce is not None else [came]

    def added(self, content: Any, came: Came) -> Any:
        """The content with one more row."""
        if self._values is not None:
            held = _changeable(content)
            self._values.add(held, came)
            return held
        if self._operation.reduce is not None:
            return self._reduced(content, came)
        content.append(came)
        return content

    def merged(self, earlier: Any, later: Any) -> Any:
        """The content of two windows made one; `later` holds what came later."""
        if self._values is not None:
            held = _changeable(earlier)
            self._values.merge(held, list(later))
            return held
        if self._operation.reduce is not None:
            return self._reduced(earlier, later)
        earlier.extend(later)
        return earlier

    def _reduced(self, earlier: Any, later: Any) -> Any:
        assert self._operation.reduce is not None, "only reductions are reduced"
        held, came = (dict(zip(self._names, packed, strict=True)) for packed in (earlier, later))
        row = reduced_row(self._node.id, self._operation.reduce, held, came)
        return tuple(row.get(name) for name in self._names)

    def closed(self, key: tuple[Any, ...], window: HeldWindow, content: Any) -> Iterator[Any]:
        """The rows a window gives."""
        start, end = window.start, window.end
        if self._values is not None:
            row = dict(zip(self._node.keys, key, strict=True))
            row |= {"window_start": to_datetime(start), "window_end": to_datetime(end)}
            names = [name for name, _ in self._operation.aggregates]
            yield row | dict(zip(names, self._values.results(list(content)), strict=True))
        elif self._operation.reduce is not None:
            yield dict(zip(self._names, content, strict=True))
        else:
            assert self._operation.process is not None, "a window has aggregates, a reduction or a function"
            rows = [dict(zip(self._names, packed, strict=True)) for packed in content]
            named = dict(zip(self._node.keys, key, strict=True))
            function = self._operation.process.target
            yield from rows_made(self._node.id, named, function, named, TimeWindow(start, end), rows)


def _changeable(content: Any) -> list[Any]:
    """Aggregates as they were decoded are tuples."""
    return [list(item) if isinstance(item, tuple) else item for item in content] if type(content) is tuple else content
