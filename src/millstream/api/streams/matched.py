"""What becomes of the matches of a pattern over a keyed stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from millstream.api.streams.signatures import output_schema
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.operations.pattern import MatchPattern
from millstream.graph.patterns.pattern import PatternSpec
from millstream.model.schema import Schema, SchemaLike
from millstream.tracebacks import public

if TYPE_CHECKING:
    from millstream.api.streams.keyed import KeyedStream
    from millstream.api.streams.stream import DataStream


@public
class PatternStream:
    """A pattern over a keyed stream; the methods say what becomes of a match.

    A match is known at the time of the row that completes it, or later where an earlier match might still skip it. Partial
    matches whose time runs out go to the side output `timed_out`, if `timed_out=` says what to make of them.
    """

    def __init__(self, stream: KeyedStream, pattern: PatternSpec, order_by: tuple[str, ...]) -> None:
        self._stream, self._pattern, self._order = stream, pattern, order_by

    def select(
        self,
        function: Callable[..., Any] | str,
        *,
        schema: SchemaLike | None = None,
        timed_out: Callable[..., Any] | str | None = None,
        timed_out_schema: SchemaLike | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Call `function(match)`, with the rows of each stage by name; it returns one row."""
        return self._called(function, schema, (timed_out, timed_out_schema), id, uid, many=False)

    def process(
        self,
        function: Callable[..., Any] | str,
        *,
        schema: SchemaLike | None = None,
        timed_out: Callable[..., Any] | str | None = None,
        timed_out_schema: SchemaLike | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Call `function(match)` or `function(match, info)`; it returns or yields rows."""
        return self._called(function, schema, (timed_out, timed_out_schema), id, uid, many=True)

    def measures(
        self,
        *,
        id: str | None = None,
        uid: str | None = None,
        timed_out: Mapping[str, str] | None = None,
        **measures: str,
    ) -> DataStream:
        """Key columns and one column for each measure, such as `start="first(a.at)"`.

        Args:
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
            timed_out: measures of partial matches whose time runs out.
            measures: expressions over the rows of the match.
        """
        operation = MatchPattern(
            pattern=self._pattern,
            measures=tuple(measures.items()),
            timed_out_measures=tuple((timed_out or {}).items()),
            order_by=self._order,
        )
        return self._stream._then(operation, id, uid)

    def _called(
        self,
        function: Callable[..., Any] | str,
        schema: SchemaLike | None,
        timed_out: tuple[Callable[..., Any] | str | None, SchemaLike | None],
        id: str | None,
        uid: str | None,
        *,
        many: bool,
    ) -> DataStream:
        label = id or self._stream._label("pattern")
        reference, target = _typed(function, schema, label, many=many)
        expired, its_schema = (None, None) if timed_out[0] is None else _typed(*timed_out, label, many=many)
        operation = MatchPattern(
            pattern=self._pattern,
            function=reference,
            schema=target,
            timed_out=expired,
            timed_out_schema=its_schema,
            order_by=self._order,
        )
        return self._stream._then(operation, id, uid)


def ordered(columns: str | Sequence[str]) -> tuple[str, ...]:
    """The columns that order rows of one instant."""
    return (columns,) if isinstance(columns, str) else tuple(columns)


def _typed(
    function: Callable[..., Any] | str | None, schema: SchemaLike | None, label: str, *, many: bool
) -> tuple[FunctionRef, Schema]:
    reference = function_ref(function, step=label)
    return reference, output_schema(reference.target, schema, step=label, many=many)
