"""What a triggered window keeps of its rows, and the rows it gives when it fires."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from millstream.graph.operations.window import Window
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import to_datetime
from millstream.records.value_types import list_of, row_type, tuple_of
from millstream.runtime.functions.calls import reduced_row, rows_made
from millstream.runtime.operators.aggregate.accumulate_values import ValueAccumulators
from millstream.runtime.operators.window.triggered.evictors import Element, Evict, eviction
from millstream.runtime.operators.window.triggered.windows import Scope


class TriggeredContents:
    """Accumulators or a running reduction; or rows, where a function, an evictor or a sliding count needs them."""

    def __init__(self, node: StreamNode) -> None:
        assert isinstance(node.operation, Window)
        assert node.input_schema is not None
        operation = node.operation
        self._node, self._operation, self._names = node, operation, node.input_schema.names
        self._row_type = row_type(node.input_schema)
        self._values: ValueAccumulators | None = None
        if operation.aggregates:
            fields = [node.outputs[MAIN][name] for name, _ in operation.aggregates]
            self._values = ValueAccumulators(operation.aggregates, node.expressions, fields, step=node.id)
        self._keeps_rows = operation.keeps_rows
        self._most = operation.window.rows if operation.keeps_rows and operation.window.kind == "count" else None
        evictor = operation.evictor
        self._evict: Evict | None = None if evictor is None else eviction(evictor, self._names, node.id)
        self._evicts_after = evictor is not None and evictor.when == "after"
        self.needs_rows = self._values is None or evictor is not None

    @property
    def type(self) -> Any:
        """The type of a window's content."""
        if self._keeps_rows:
            row = self._row_type if self.needs_rows else tuple_of()
            values = self._values.input_types if self._values is not None else []
            return list_of(tuple_of(int | None, row, tuple_of(*values)))
        return self._row_type if self._values is None else tuple_of(*self._values.state_types)

    def values_of(self, rows: pa.RecordBatch) -> Sequence[tuple[Any, ...]]:
        """The values that aggregates take of each row."""
        return [()] * rows.num_rows if self._values is None else self._values.inputs(rows)

    def added(self, content: Any, row: dict[str, Any], values: tuple[Any, ...], time: int | None) -> Any:
        """The content with one more row; content that may be changed in place is."""
        packed = tuple(row[name] for name in self._names) if self.needs_rows else ()
        if self._keeps_rows:
            elements: list[Element] = [] if content is None else content
            elements.append((time, packed, values))
            if self._most is not None and len(elements) > self._most:
                del elements[0]
            return elements
        if self._values is None:
            return packed if content is None else self._reduced(content, packed)
        held = self._values.empty() if content is None else list(content)
        self._values.add(held, values)
        return held

    def merged(self, contents: list[Any]) -> Any:
        """The content of windows that became one, the earliest first."""
        present = [content for content in contents if content is not None]
        if not present:
            return None
        if self._keeps_rows:
            return [element for content in present for element in content]
        if self._values is None:
            return functools.reduce(self._reduced, present)
        held = list(present[0])
        for other in present[1:]:
            self._values.merge(held, list(other))
        return held

    def _reduced(self, earlier: Any, later: Any) -> Any:
        assert self._operation.reduce is not None, "only reductions are reduced"
        held, came = (dict(zip(self._names, packed, strict=True)) for packed in (earlier, later))
        row = reduced_row(self._node.id, self._operation.reduce, held, came)
        return tuple(row.get(name) for name in self._names)

    def shown(self, content: Any, scope: Scope) -> Any:
        """What a firing sees of the content; an evictor that comes before works on a copy."""
        if self._evict is None or self._evicts_after:
            return content
        return self._evict(list(content), scope.window) or None

    def left(self, content: Any, scope: Scope) -> Any:
        """What a firing leaves of the content."""
        if self._evict is None or not self._evicts_after:
            return content
        return self._evict(list(content), scope.window) or None

    def result(self, content: Any, scope: Scope, function: Any) -> Iterable[Any]:
        """The rows that a firing gives."""
        if self._values is not None:
            return [self._aggregated(self._values, content, scope)]
        if self._operation.reduce is not None:
            rows = [packed for _, packed, _ in content] if self._keeps_rows else [content]
            return [dict(zip(self._names, functools.reduce(self._reduced, rows), strict=True))]
        key = dict(zip(self._node.keys, scope.key, strict=True))
        given = [dict(zip(self._names, packed, strict=True)) for _, packed, _ in content]
        extra = (scope,) if self._operation.is_stateful_function else ()
        return rows_made(self._node.id, key, function, key, scope.window, given, *extra)

    def _aggregated(self, values: ValueAccumulators, content: Any, scope: Scope) -> dict[str, Any]:
        held = list(content)
        if self._keeps_rows:
            held = values.empty()
            for _, _, taken in content:
                values.add(held, taken)
        row = dict(zip(self._node.keys, scope.key, strict=True))
        if self._operation.window.has_bounds:
            row |= {"window_start": to_datetime(scope.open.start), "window_end": to_datetime(scope.open.end)}
        if self._operation.pane:
            row |= {"pane_index": scope.pane.index, "pane_timing": scope.pane.timing.value}
        names = [name for name, _ in self._operation.aggregates]
        return row | dict(zip(names, values.results(held), strict=True))
