"""Time in statements: intervals as milliseconds, and which columns of a stream hold its event time."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sqlglot import exp

from millstream.api.sql.refusal import DURATION, Place
from millstream.graph.enrich import Lookup
from millstream.graph.join import WindowJoin
from millstream.graph.rank import Deduplicate
from millstream.graph.step import (
    LATE,
    MAIN,
    Filter,
    PythonMap,
    Select,
    StepInput,
    Union,
    Window,
    WithColumns,
)
from millstream.graph.stream_graph import StreamNode
from millstream.graph.watermark import EventTime

if TYPE_CHECKING:
    from millstream.api.job import Job

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
    return sum(_part_ms(number, unit, node, place) for number, unit in parts)


def _part_ms(number: str, unit: str, node: exp.Expr, place: Place) -> int:
    size = _UNITS.get(unit.lower().removesuffix("s"))
    if size is None:
        raise _unreadable(node, place)
    ms = float(number) * size
    if ms != int(ms):
        raise place.refuse(DURATION, "time is measured in milliseconds", at=node, found=number, hint="round it")
    return int(ms)


def _unreadable(node: exp.Expr, place: Place) -> Exception:
    known = ", ".join(_UNITS)
    hint = "write INTERVAL '10' SECOND; months and years have no fixed length"
    return place.refuse(DURATION, "not an interval", at=node, found=node.sql("spark"), known=known, hint=hint)


def event_columns(job: Job, edge: StepInput) -> frozenset[str]:
    """The columns that hold the event time of an output; behind a window also the text that computes it."""
    node = job.node(edge.step)
    if edge.output == LATE:
        return event_columns(job, node.inputs[0])
    if edge.output != MAIN:
        return frozenset()
    match node.operation:
        case EventTime():
            return frozenset({node.operation.column})
        case Select() | WithColumns():
            return _renamed(node, event_columns(job, node.inputs[0]))
        case Window() if node.operation.aggregates:
            return frozenset({WINDOW_TIME})
        case WindowJoin():
            return frozenset({WINDOW_TIME})
        case Filter() | Union() | Lookup():
            return frozenset.intersection(*(event_columns(job, each) for each in node.inputs))
        case PythonMap(shape="filter_rows"):
            return event_columns(job, node.inputs[0])
        case Deduplicate() if node.operation.is_first_come:
            return event_columns(job, node.inputs[0])
    return frozenset()


def _renamed(node: StreamNode, before: frozenset[str]) -> frozenset[str]:
    kept = {
        name
        for name, expression in node.expressions
        if expression.text in before or (expression.direct and expression.direct in {("column", c) for c in before})
    }
    is_end_kept = ("window_end", ("column", "window_end")) in {(n, e.direct) for n, e in node.expressions}
    return frozenset(kept | ({WINDOW_TIME} & before if is_end_kept else set()))
