"""Windows per key, and what closes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from millstream.api.join import checked_how
from millstream.api.signatures import output_schema
from millstream.errors import InvalidStep
from millstream.graph.aggregate import Aggregate
from millstream.graph.function import function_ref
from millstream.graph.join import HOWS, How, WindowJoin
from millstream.graph.step import Window
from millstream.graph.window import WindowSpec
from millstream.model.schema import SchemaLike

if TYPE_CHECKING:
    from millstream.api.keyed import KeyedStream
    from millstream.api.stream import DataStream


class WindowedStream:
    """Windows per key; the methods say what becomes of a window's rows when the watermark passes its end."""

    def __init__(self, stream: KeyedStream, window: WindowSpec, lateness: int) -> None:
        self._stream, self._window, self._lateness = stream, window, lateness

    def aggregate(self, *, id: str | None = None, uid: str | None = None, **aggregates: Aggregate) -> DataStream:
        """Built-in aggregates: key columns, `window_start`, `window_end` and one column each."""
        return self._close(id, uid, aggregates=checked(aggregates, id))

    def reduce(
        self,
        function: Callable[[dict[str, Any], dict[str, Any]], Any] | str,
        *,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Combine a window's rows two by two; emits the result."""
        return self._close(id, uid, reduce=function_ref(function, step=id))

    def process(
        self,
        function: Callable[..., Any] | str,
        *,
        schema: SchemaLike | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Call `function(key, window, rows)` with all rows of a window; it returns or yields rows."""
        label = id or self._stream.label("window")
        reference = function_ref(function, step=label)
        target = output_schema(reference.target, schema, step=label, many=True)
        return self._close(id, uid, process=reference, schema=target)

    def join(
        self,
        other: KeyedStream,
        *,
        how: How = "inner",
        where: str | None = None,
        prefix: str | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Pair rows of two keyed streams that have equal keys and happened in the same window.

        Pairs are emitted when the window closes, with its last instant as their event time and with columns
        `window_start` and `window_end`. A row that comes later, within the allowed lateness, gives the pairs that it adds.
        The options are those of `KeyedStream.join`; rows that come too late go to `late` and `late_right`.
        """
        operation = WindowJoin(
            window=self._window, how=checked_how(how, HOWS), where=where, prefix=prefix, lateness=self._lateness
        )
        return self._stream.pair(other, operation, id, uid)

    def _close(self, given_id: str | None, uid: str | None, **how: Any) -> DataStream:
        return self._stream.then(Window(window=self._window, lateness=self._lateness, **how), given_id, uid)


def checked(aggregates: Mapping[str, Any], step: str | None) -> tuple[tuple[str, Aggregate], ...]:
    """Aggregates given as keyword arguments."""
    for name, aggregate in aggregates.items():
        if not isinstance(aggregate, Aggregate):
            msg = f"{name!r} is not an aggregate"
            raise InvalidStep(msg, code="STEP-073", step=step, found=repr(aggregate), hint=f"{name}=ms.sum('column')")
    return tuple(aggregates.items())
