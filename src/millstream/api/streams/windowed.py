"""Windows per key, and what closes them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from millstream.api.functions.window import WindowFunction
from millstream.api.streams.aggregates import checked_aggregates
from millstream.api.streams.choices import checked_how
from millstream.api.streams.processing import window_function_options
from millstream.api.streams.rankings import kept_of_window
from millstream.errors import InvalidStep
from millstream.graph.function import function_ref
from millstream.graph.operations.aggregate import Aggregate
from millstream.graph.operations.join import HOWS, How, WindowJoin
from millstream.graph.operations.rank import WindowRank
from millstream.graph.operations.window import Accumulation, Window
from millstream.graph.windows.evictor import EvictorSpec
from millstream.graph.windows.trigger import TriggerSpec, checked_trigger
from millstream.graph.windows.window import WindowSpec
from millstream.model.schema import SchemaLike
from millstream.tracebacks import public

if TYPE_CHECKING:
    from millstream.api.streams.keyed import KeyedStream
    from millstream.api.streams.stream import DataStream


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WindowOptions:
    """How windows are made and when they fire, whatever closes them."""

    window: WindowSpec
    lateness: int = 0
    trigger: TriggerSpec | None = None
    accumulation: Accumulation = "accumulating"
    evictor: EvictorSpec | None = None


def window_options(window: Any, lateness: int, trigger: Any, accumulation: Accumulation, evictor: Any) -> WindowOptions:
    """The options of `KeyedStream.window`, checked one by one; whether they go together is checked with the step."""
    if not isinstance(window, WindowSpec):
        msg = "not a window"
        raise InvalidStep(msg, code="STEP-072", found=repr(window), hint="pass ms.tumbling('1m')")
    if evictor is not None and not isinstance(evictor, EvictorSpec):
        msg = "not an evictor"
        raise InvalidStep(msg, code="STEP-127", found=repr(evictor), hint="pass ms.evictor.count(100)")
    chosen = None if trigger is None else checked_trigger(trigger)
    if chosen == _default_trigger(window):
        chosen = None
    return WindowOptions(window=window, lateness=lateness, trigger=chosen, accumulation=accumulation, evictor=evictor)


def _default_trigger(window: WindowSpec) -> TriggerSpec | None:
    """The trigger that a window has anyway."""
    if not window.has_bounds:
        return None
    return TriggerSpec(kind="event_time" if window.is_event_timed else "processing_time")


@public
class WindowedStream:
    """Windows per key; the methods say what becomes of a window's rows when it fires."""

    def __init__(self, stream: KeyedStream, options: WindowOptions) -> None:
        self._stream, self._options = stream, options

    def aggregate(
        self, *, id: str | None = None, uid: str | None = None, pane: bool = False, **aggregates: Aggregate
    ) -> DataStream:
        """Built-in aggregates: key columns, `window_start` and `window_end` where windows have them, one column each.

        Args:
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
            pane: add the columns `pane_index` and `pane_timing` (`EARLY`, `ON_TIME`, `LATE`).
            aggregates: `total=ms.sum("amount")`.
        """
        return self._close(id, uid, aggregates=checked_aggregates(aggregates, id), pane=pane)

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
        function: Callable[..., Any] | WindowFunction | type[WindowFunction] | str,
        *,
        schema: SchemaLike | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Call `function(key, window, rows)`, or a `WindowFunction` with state, with all rows of a window.

        Args:
            function: returns or yields rows.
            schema: of those rows, unless the function is annotated.
            outputs: side outputs of a `WindowFunction`, by name and schema.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        called = window_function_options(function, schema, outputs, id or self._stream._label("window"))
        return self._close(id, uid, **called)

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
        options = self._options
        if options != WindowOptions(window=options.window, lateness=options.lateness):
            msg = "a window join fires when event time has passed, and keeps its rows until then"
            raise InvalidStep(
                msg, code="STEP-123", step=id, hint="remove trigger=, accumulation= and evictor= before join"
            )
        operation = WindowJoin(
            window=options.window, how=checked_how(how, HOWS), where=where, prefix=prefix, lateness=options.lateness
        )
        return self._stream._pair(other, operation, id, uid)

    def top_n(
        self,
        n: int,
        *,
        by: str,
        rank: str = "rank_number",
        ties: bool = False,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """The first N rows of each key and window in an order, with `window_start`, `window_end` and their rank from 1 on.

        They are emitted once, when the watermark has passed the window; with `allowed_lateness` again for late rows.

        Args:
            n: how many rows of each key and window stay.
            by: an order, as in `price desc, event_id`; of equal rows the first to come comes first.
            rank: the name of the column with the rank.
            ties: equal rows share a rank, and all rows with a rank up to `n` stay.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        return self._ranked(id, uid, n=n, by=by, rank=rank, ties=ties)

    def deduplicate(
        self,
        *,
        keep: Literal["first", "last"] = "first",
        by: str | None = None,
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """One row of each key and window, with `window_start` and `window_end`, when the watermark has passed the window.

        Args:
            keep: `first` or `last`, to come or in the order `by`.
            by: an order, as in `event_time, sequence`; of equal rows the first, or last, to come stays.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        order, is_newest_first = kept_of_window(keep, by)
        return self._ranked(id, uid, n=1, by=order, newest_first=is_newest_first)

    def _ranked(self, given_id: str | None, uid: str | None, **how: Any) -> DataStream:
        options = self._options
        if options != WindowOptions(window=options.window, lateness=options.lateness):
            msg = "rows of a window are ranked when event time has passed, all of them"
            hint = "remove trigger=, accumulation= and evictor=, or use process"
            raise InvalidStep(msg, code="STEP-123", step=given_id, hint=hint)
        return self._stream._then(WindowRank(window=options.window, lateness=options.lateness, **how), given_id, uid)

    def _close(self, given_id: str | None, uid: str | None, **how: Any) -> DataStream:
        options = {field.name: getattr(self._options, field.name) for field in dataclasses.fields(self._options)}
        return self._stream._then(Window(**options, **how), given_id, uid)
