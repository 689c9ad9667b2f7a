"""Windows of a statement: `FROM TUMBLE(TABLE s, DESCRIPTOR(ts), ...)`, or in GROUP BY `window(ts, ...)` and `TUMBLE(ts, ...)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from millstream.api.sql.parse import WINDOW_TABLES
from millstream.api.sql.refusal import EVENT_TIME, WINDOW, Place
from millstream.api.sql.relation import WINDOW_COLUMNS, Relation, Windowed, resolved
from millstream.api.sql.times import event_columns, interval_ms
from millstream.errors import InvalidStep
from millstream.graph.windows.window import WindowSpec

_FORMS = {
    "TUMBLE": "TUMBLE(TABLE stream, DESCRIPTOR(ts), INTERVAL size [, INTERVAL offset])",
    "HOP": "HOP(TABLE stream, DESCRIPTOR(ts), INTERVAL slide, INTERVAL size [, INTERVAL offset])",
    "CUMULATE": "CUMULATE(TABLE stream, DESCRIPTOR(ts), INTERVAL step, INTERVAL size [, INTERVAL offset])",
    "SESSION": "SESSION(TABLE stream [PARTITION BY key, ...], DESCRIPTOR(ts), INTERVAL gap)",
    "window": "window(ts, 'size' [, 'slide' [, 'start']])",
    "session_window": "session_window(ts, 'gap')",
}
_MOST = {
    "TUMBLE": (1, 2), "HOP": (2, 3), "CUMULATE": (2, 3), "SESSION": (1, 1), "window": (1, 3), "session_window": (1, 1),
}  # fmt: skip
GROUP_WINDOWS = ("window", "session_window")
_GROUP_FORMS = {
    "TUMBLE": "TUMBLE(ts, INTERVAL size)",
    "HOP": "HOP(ts, INTERVAL slide, INTERVAL size)",
    "SESSION": "SESSION(ts, INTERVAL gap)",
}
"""Windows that stand in GROUP BY under the names of window tables."""


def is_group_window(node: exp.Expr) -> bool:
    """Whether a part of GROUP BY is a window."""
    name = str(node.this) if isinstance(node, exp.Anonymous) else ""
    return name.lower() in GROUP_WINDOWS or name.upper() in WINDOW_TABLES


def windowed_table(call: exp.Anonymous, named: Callable[[exp.Table], Relation], place: Place) -> Relation:
    """The relation with the window that a table function in FROM gives it."""
    name = str(call.this).upper()
    arguments = call.expressions[1:]
    if not call.expressions or not isinstance(call.expressions[0], exp.Table):
        raise _wrong(name, call, place)
    relation = named(call.expressions[0])
    place_of_time = next((n for n, each in enumerate(arguments) if _is_descriptor(each)), None)
    if place_of_time is None:
        raise _wrong(name, call, place)
    partition = tuple(arguments[:place_of_time])
    if partition and name != "SESSION":
        raise place.refuse(WINDOW, f"PARTITION BY has no place in {name}", at=call, hint="name the keys in GROUP BY")
    _check_names(call, relation, place)
    _check_time(arguments[place_of_time].expressions[0], relation, place)
    spec = _spec(name, arguments[place_of_time + 1 :], call, place)
    keys = tuple(part for each in partition for part in _unpacked(each))
    window = Windowed(spec=spec, alias=None, partition=keys if name == "SESSION" else None)
    return dataclasses.replace(relation, window=window)


def _unpacked(node: exp.Expr) -> list[exp.Expr]:
    if isinstance(node, exp.Tuple):
        return list(node.expressions)
    return [node.this] if isinstance(node, exp.Paren) else [node]


def _is_descriptor(node: exp.Expr) -> bool:
    is_call = isinstance(node, exp.Anonymous) and str(node.this).upper() == "DESCRIPTOR"
    return is_call and len(node.expressions) == 1


def group_window(call: exp.Anonymous, relation: Relation, place: Place) -> Relation:
    """The relation with the window that stands in GROUP BY."""
    if str(call.this).upper() in WINDOW_TABLES:
        return _group_function(call, relation, place)
    name = str(call.this).lower()
    if relation.window is not None:
        raise place.refuse(WINDOW, "two windows in one statement", at=call, hint="keep one of them")
    if not call.expressions:
        raise _wrong(name, call, place)
    _check_names(call, relation, place)
    _check_time(call.expressions[0], relation, place)
    spec = _spec(name, call.expressions[1:], call, place)
    return dataclasses.replace(relation, window=Windowed(spec=spec, alias=name))


def _group_function(call: exp.Anonymous, relation: Relation, place: Place) -> Relation:
    """`GROUP BY TUMBLE(ts, size)`; `TUMBLE_START(ts, size)` gives its bounds."""
    name = str(call.this).upper()
    if relation.window is not None:
        raise place.refuse(WINDOW, "two windows in one statement", at=call, hint="keep one of them")
    if name not in _GROUP_FORMS:
        hint = f"write FROM {_FORMS[name]} and GROUP BY window_start, window_end"
        raise place.refuse(WINDOW, f"{name} has no place in GROUP BY", at=call, hint=hint)
    least, _ = _MOST[name]
    if len(call.expressions) != least + 1:
        raise place.refuse(WINDOW, f"{name} is written otherwise", at=call, known=_GROUP_FORMS[name], hint="correct it")
    _check_names(call, relation, place)
    _check_time(call.expressions[0], relation, place)
    spec = _spec(name, call.expressions[1:], call, place)
    return dataclasses.replace(relation, window=Windowed(spec=spec, alias="", call=call))


def _spec(name: str, arguments: list[exp.Expr], call: exp.Expr, place: Place) -> WindowSpec:
    least, most = _MOST[name]
    if not least <= len(arguments) <= most:
        raise _wrong(name, call, place)
    lengths = [interval_ms(each, place, bare=name if name in GROUP_WINDOWS else None) for each in arguments]
    try:
        match name:
            case "SESSION" | "session_window":
                return WindowSpec(kind="session", gap=lengths[0])
            case "HOP" | "CUMULATE":
                slide, size, offset = (*lengths, 0)[:3]
            case "TUMBLE":
                slide, size, offset = lengths[0], *(*lengths, 0)[:2]
            case _:
                size, slide, offset = lengths[0], lengths[1] if len(lengths) > 1 else lengths[0], (*lengths, 0, 0)[2]
        kind = "cumulative" if name == "CUMULATE" else "tumbling" if slide == size else "sliding"
        return WindowSpec(kind=kind, size=size, slide=slide, offset=offset)  # type: ignore[arg-type]
    except InvalidStep as problem:
        raise place.refuse(WINDOW, problem.message, at=call, found=problem.found, hint=_FORMS[name]) from None


def _wrong(name: str, call: exp.Expr, place: Place) -> InvalidStep:
    return place.refuse(WINDOW, f"{name} is written otherwise", at=call, known=_FORMS[name], hint="correct it")


def _check_names(call: exp.Expr, relation: Relation, place: Place) -> None:
    clash = [column for column in WINDOW_COLUMNS if column in relation.stream.schema]
    if clash:
        hint = "give them other names in the statement before, as in window_start AS first_start"
        raise place.refuse(WINDOW, "the stream has columns of the window already", at=call, found=clash, hint=hint)


def _check_time(node: exp.Expr, relation: Relation, place: Place) -> None:
    """The column of a window must be the event time of its stream: rows are put into windows by that."""
    stream = relation.stream
    name = resolved(node, relation, place).name if isinstance(node, exp.Column) else node.sql("spark")
    known = event_columns(stream._job._steps, stream._as_input()) & frozenset(stream.schema.names)
    if not isinstance(node, exp.Column) or name not in known:
        hint = f"call .event_time({name!r}) on the stream before" if isinstance(node, exp.Column) else "name a column"
        raise place.refuse(
            EVENT_TIME,
            f"a window over {name!r} needs it to be the event time of the stream",
            at=node,
            known=", ".join(sorted(known)) or "no column of it",
            hint=hint,
        )
