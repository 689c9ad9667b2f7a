"""What a statement reads: streams with the names under which it knows them and their columns."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from millstream.api.sql.refusal import COLUMN, Place
from millstream.api.sql.writing import column, refuse_queries
from millstream.api.streams.stream import DataStream
from millstream.graph.expressions.catalogue import NOT_DETERMINISTIC
from millstream.graph.expressions.refusal import nearest_first
from millstream.graph.windows.window import WindowSpec

WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Windowed:
    """A window that a statement names: in FROM (`TUMBLE(...)`), or in GROUP BY (`window(...)`)."""

    spec: WindowSpec
    alias: str | None
    """`window` or `session_window` in GROUP BY, or no text where functions give its bounds; nothing in FROM, where the
    columns are `window_start`, …"""
    partition: tuple[exp.Expr, ...] | None = None
    """What a SESSION in FROM is partitioned by."""
    call: exp.Anonymous | None = None
    """`TUMBLE(ts, size)` in GROUP BY, whose bounds are given by functions of the same arguments: `TUMBLE_START(ts, size)`."""
    is_instant: bool = False
    """Whether no window is named: results of windows are grouped by the end of theirs."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Visible:
    """A column as the statement sees it, and its name in the stream."""

    table: str
    name: str
    column: str
    is_hidden: bool = False
    """Found only with its table's name, as the right column of USING."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Relation:
    """A stream that a statement reads."""

    stream: DataStream
    columns: tuple[Visible, ...]
    window: Windowed | None = None
    is_updating: bool = False
    """Whether a later row may replace an earlier one, as with running aggregates."""
    stateful: DataStream | None = None
    """The last step that holds state."""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables, in order."""
        return tuple(dict.fromkeys(visible.table for visible in self.columns))

    def on(self, stream: DataStream) -> Relation:
        """The same columns behind another step."""
        return dataclasses.replace(self, stream=stream)


def relation_of(stream: DataStream, table: str, **more: object) -> Relation:
    """A stream under a name."""
    columns = tuple(Visible(table=table, name=name, column=name) for name in stream.schema.names)
    return Relation(stream=stream, columns=columns, **more)  # type: ignore[arg-type]


def resolved(node: exp.Expr, relation: Relation, place: Place) -> exp.Expr:
    """The expression over the columns of the relation's stream; table names are gone."""
    refuse_queries(node, place)

    def in_stream(each: exp.Expr) -> exp.Expr:
        if isinstance(each, exp.Anonymous):
            if _is_window_time(each, relation):
                return column("window_time")
            if bound := bound_of(each, relation, place):
                return column(bound)
            each.set("this", str(each.this).lower())  # SUM(x) and sum(x) are one aggregate
        return _stream_column(each, relation, place) if isinstance(each, exp.Column) else each

    return node.transform(in_stream)


def _is_window_time(call: exp.Anonymous, relation: Relation) -> bool:
    """`window_time(window)`, as Spark writes it."""
    if relation.window is None or str(call.this).lower() != "window_time" or len(call.expressions) != 1:
        return False
    return isinstance(call.expressions[0], exp.Column) and call.expressions[0].name.lower() == relation.window.alias


_BOUNDS = {"start": "window_start", "end": "window_end", "rowtime": "window_time"}


def bound_of(call: exp.Anonymous, relation: Relation, place: Place) -> str | None:
    """The column of the window that `TUMBLE_START(ts, size)` means beside `GROUP BY TUMBLE(ts, size)`."""
    window = None if relation.window is None else relation.window.call
    name, _, bound = str(call.this).lower().rpartition("_")
    if window is None or name != str(window.this).lower() or bound not in _BOUNDS:
        return None
    if [each.sql().lower() for each in call.expressions] != [each.sql().lower() for each in window.expressions]:
        hint = f"write {call.this}({', '.join(each.sql('spark') for each in window.expressions)})"
        raise place.refuse(COLUMN, f"{call.this} is of another window than GROUP BY", at=call, hint=hint)
    return _BOUNDS[bound]


def _stream_column(node: exp.Column, relation: Relation, place: Place) -> exp.Expr:
    if isinstance(node.this, exp.Star):
        raise place.refuse(COLUMN, "* cannot stand inside an expression", at=node, hint="name the columns")
    parts = [part.name for part in node.parts]
    if relation.window is not None and [part.lower() for part in parts] == [relation.window.alias]:
        hint = f"select {parts[0]}.start AS window_start, {parts[0]}.end AS window_end"
        raise place.refuse(COLUMN, "a window is no column", at=node, hint=hint)
    windowed = _window_column(parts, relation)
    if windowed is not None:
        return column(windowed)
    table = _table(parts[0], relation) if len(parts) > 1 else None
    name, *fields = parts[1:] if table else parts
    matches = {each.column for each in named(name, table, relation)}
    if not matches and not table and name.lower() in NOT_DETERMINISTIC:
        return node  # the expression is refused for what it is
    if len(matches) != 1:
        known = nearest_first(name, {each.name for each in relation.columns if table in {None, each.table}})
        problem = f"column {name!r} is ambiguous" if matches else f"unknown column {name!r}"
        hint = "write table.column" if matches else "use one of the known columns"
        raise place.refuse(COLUMN, problem, at=node, known=known, hint=hint)
    return column(matches.pop(), *fields)


def _table(name: str, relation: Relation) -> str | None:
    return next((table for table in relation.tables if table.lower() == name.lower()), None)


def named(name: str, table: str | None, relation: Relation) -> list[Visible]:
    """Columns of that name; names differ in case only where no name is exactly the same."""
    seen = [each for each in relation.columns if (table == each.table if table else not each.is_hidden)]
    exact = [each for each in seen if each.name == name]
    return exact or [each for each in seen if each.name.lower() == name.lower()]


def _window_column(parts: list[str], relation: Relation) -> str | None:
    """`window_start` over a window table, or `window.start` beside a window in GROUP BY, as the window step names it."""
    if relation.window is None:
        return None
    last = parts[-1].lower()
    if relation.window.alias is None:
        is_own = len(parts) == 1 or (len(parts) == 2 and _table(parts[0], relation))
        return last if is_own and last in WINDOW_COLUMNS else None
    if len(parts) == 2 and parts[0].lower() == relation.window.alias and last in {"start", "end"}:
        return f"window_{last}"
    return None


def uses(node: exp.Expr, names: tuple[str, ...]) -> exp.Column | None:
    """The first column with one of these names."""
    return next((each for each in node.find_all(exp.Column) if each.name in names), None)
