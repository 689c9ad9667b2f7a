"""Time in statements: intervals as milliseconds, and which columns of a stream hold its event time."""

from __future__ import annotations

import re
from collections.abc import Callable

from sqlglot import exp

from millstream.api.sql.refusal import DURATION, Place
from millstream.api.streams.job_steps import JobSteps
from millstream.graph.operations.enrich import Lookup
from millstream.graph.operations.join import TemporalJoin, WindowJoin
from millstream.graph.operations.rank import Deduplicate, WindowRank
from millstream.graph.operations.rows import Filter, PythonMap, Select, Union, WithColumns
from millstream.graph.operations.watermark import EventTime
from millstream.graph.operations.window import Window
from millstream.graph.step import LATE, MAIN, StepInput
from millstream.graph.stream_graph import StreamNode
from millstream.model.time import LONGEST_DURATION

WINDOW_TIME = "timestamp_millis(unix_millis(window_end) - 1)"
"""The last instant of a window, which is the event time of its result."""
_UNITS = {
    "millisecond": 1, "second": 1_000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000, "week": 604_800_000,
}  # fmt: skip
_PART = re.compile(r"\s*([+-]?\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*")


def interval_ms(node: exp.Expr, place: Place, *, bare: str | None = None) -> int:
    """`INTERVAL '10' SECOND`, `INTERVAL 10 SECONDS`, `INTERVAL '1 hour 30 minutes'` or, as in Spark, `'10 seconds'`."""
    text = None
    if isinstance(node, exp.Interval) and isinstance(node.this, exp.Literal):
        text = f"{node.this.this} {node.args['unit'].name}" if node.args.get("unit") else str(node.this.this)
    elif isinstance(node, exp.Literal) and node.args.get("is_string") and bare is not None:
        text = re.sub(r"(?i)^\s*interval\s", "", str(node.this))
    parts = [] if text is None else _PART.findall(text)
    if text is None or not parts or _PART.sub("", text).strip():
        raise _unreadable(node, place)
    length = sum(_part_ms(number, unit, node, place) for number, unit in parts)
    if abs(length) > LONGEST_DURATION:
        hint = "write a shorter interval"
        raise place.refuse(DURATION, "an interval is longer than 1000 years", at=node, found=text, hint=hint)
    return length


def _part_ms(number: str, unit: str, node: exp.Expr, place: Place) -> int:
    size = _UNITS.get(unit.lower().removesuffix("s"))
    if size is None:
        raise _unreadable(node, place)
    ms = max(min(float(number) * size, 2.0 * LONGEST_DURATION), -2.0 * LONGEST_DURATION)
    if ms != int(ms):
        raise place.refuse(DURATION, "time is measured in milliseconds", at=node, found=number, hint="round it")
    return int(ms)


def _unreadable(node: exp.Expr, place: Place) -> Exception:
    known = ", ".join(_UNITS)
    hint = "write INTERVAL '10' SECOND; months and years have no fixed length"
    return place.refuse(DURATION, "not an interval", at=node, found=node.sql("spark"), known=known, hint=hint)


def event_columns(steps: JobSteps, edge: StepInput) -> frozenset[str]:
    """The columns that hold the event time of an output; behind a window also the text that computes it."""
    return _traced(
        steps, edge, lambda node: {node.operation.column} if isinstance(node.operation, EventTime) else {WINDOW_TIME}
    )


def window_ends(steps: JobSteps, edge: StepInput) -> frozenset[str]:
    """The columns that hold the end of the window whose result a row is: its event time is a millisecond before."""
    return _traced(steps, edge, lambda node: set() if isinstance(node.operation, EventTime) else {"window_end"})


def _traced(steps: JobSteps, edge: StepInput, begin: Callable[[StreamNode], set[str]]) -> frozenset[str]:
    """Columns that are known where event time is made, followed through the steps that leave it and them as they are."""
    node = steps.node(edge.step)
    if edge.output == LATE:
        return _traced(steps, node.inputs[0], begin)
    if edge.output != MAIN:
        return frozenset()
    match node.operation:
        case EventTime() | WindowJoin() | WindowRank():
            return frozenset(begin(node))
        case Window() if node.operation.aggregates:
            return frozenset(begin(node))
        case Select() | WithColumns():
            return _renamed(node, _traced(steps, node.inputs[0], begin))
        case Filter() | Union() | Lookup():
            return frozenset.intersection(*(_traced(steps, each, begin) for each in node.inputs))
        case PythonMap(shape="filter_rows") | TemporalJoin():
            return _traced(steps, node.inputs[0], begin)
        case Deduplicate() if node.operation.is_first_come:
            return _traced(steps, node.inputs[0], begin)
    return frozenset()


def _renamed(node: StreamNode, before: frozenset[str]) -> frozenset[str]:
    kept = {
        name
        for name, expression in node.expressions
        if expression.text in before or (expression.direct and expression.direct in {("column", c) for c in before})
    }
    is_end_kept = ("window_end", ("column", "window_end")) in {(n, e.direct) for n, e in node.expressions}
    return frozenset(kept | ({WINDOW_TIME} & before if is_end_kept else set()))
