"""How the watermark of a partition follows its rows: `ms.watermark.bounded("5s")`, `ms.watermark.punctuated(...)`, and so on."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any

from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.operations.watermark import EventTime, WatermarkSpec
from millstream.graph.outputs import OnError
from millstream.model.time import DurationLike, duration_ms, positive_ms


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strategy:
    """A way to derive the watermark, as `event_time(watermark=)` takes it."""

    max_delay: int = 0
    spec: WatermarkSpec | None = None
    function: FunctionRef | None = None


class WatermarkGenerator(abc.ABC):
    """A way of your own to derive the watermark of a source partition.

    It works in two places. `on_batch` runs in the tasks, over whole batches; what it returns travels with the report of
    the task. `on_epoch` runs on the driver, once per partition and epoch, and decides. The object itself must keep nothing
    between calls: whatever should be remembered is the state that `on_epoch` returns. It stands in the manifests, so it
    survives restarts and savepoints and does not depend on which task read the rows. An epoch that runs again calls both
    with the same values, and they must answer the same.
    """

    def on_batch(self, rows: Any, times: Any) -> int | None:
        """What a batch says about the progress of its partition: a number, or `None` for nothing.

        The largest number of an epoch counts. Rows may be cut into batches in any way, so answer with the largest of
        something each row says by itself. By default that is the newest event time.

        Args:
            rows: the rows as a `pyarrow.RecordBatch`, at least one.
            times: their event times in milliseconds, as a numpy array.
        """
        return int(times.max())

    @abc.abstractmethod
    def on_epoch(self, state: Any, newest: int | None, rows: int, now: int) -> tuple[Any, int | None]:
        """The new state, and the watermark: rows up to it have come. `None` leaves it where it is; it never goes back.

        Args:
            state: what this method returned for the partition last, `None` at first. A JSON value.
            newest: the largest answer of `on_batch` in this epoch, `None` when there was none.
            rows: how many rows the partition gave in this epoch. Partitions without rows are asked too.
            now: the clock of the epoch.
        """


WatermarkLike = Strategy | WatermarkGenerator | type[WatermarkGenerator] | str
"""A strategy, a generator, or one named by `module:Class`."""


def ascending() -> Strategy:
    """Rows of a partition come in the order of time: its watermark is the newest event time, less a millisecond."""
    return Strategy(spec=WatermarkSpec(kind="ascending"))


def bounded(max_delay: DurationLike) -> Strategy:
    """Rows lie at most `max_delay` behind the newest one of their partition; the same as `event_time(max_delay=)`."""
    return Strategy(max_delay=duration_ms(max_delay, what="max_delay"))


def punctuated(where: str, column: str | None = None) -> Strategy:
    """Only some rows move the watermark: those for which `where` is true say that everything up to an instant has come.

    Args:
        where: an expression over the columns of the stream.
        column: holds the instant, as a timestamp or a long of milliseconds; null says nothing. By default it is the event
            time of the row.
    """
    return Strategy(spec=WatermarkSpec(kind="punctuated", where=where, column=column))


def none() -> Strategy:
    """The watermark stays before all rows until the input ends."""
    return Strategy(spec=WatermarkSpec(kind="none"))


def event_time_operation(
    column: str,
    max_delay: DurationLike,
    watermark: WatermarkLike | None,
    durations: Mapping[str, DurationLike | None],
    *,
    align: str | None,
    on_error: OnError,
    step: str | None,
) -> EventTime:
    """The operation of `event_time`, from what the user wrote."""
    strategy = _strategy(watermark, duration_ms(max_delay, what="max_delay"), step)
    return EventTime(
        column=column,
        max_delay=strategy.max_delay,
        watermark=strategy.spec,
        function=strategy.function,
        align=align,
        on_error=on_error,
        **{name: None if given is None else positive_ms(given, what=name) for name, given in durations.items()},
    )


def _strategy(watermark: WatermarkLike | None, max_delay: int, step: str | None) -> Strategy:
    if watermark is None:
        return Strategy(max_delay=max_delay)
    if max_delay:
        msg = "event_time takes max_delay, or watermark"
        raise InvalidStep(msg, code="STEP-160", step=step, hint="remove max_delay=, or use ms.watermark.bounded()")
    if isinstance(watermark, Strategy):
        return watermark
    if isinstance(watermark, type) and issubclass(watermark, WatermarkGenerator):
        watermark = watermark()
    if isinstance(watermark, str | WatermarkGenerator):
        return Strategy(function=function_ref(watermark, step=step))
    msg = "not a watermark strategy"
    known = "ms.watermark.ascending(), bounded(), punctuated(), none(), a WatermarkGenerator"
    raise InvalidStep(msg, code="STEP-161", step=step, found=repr(watermark), known=known, hint="use one of them")
