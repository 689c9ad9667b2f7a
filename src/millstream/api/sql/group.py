"""GROUP BY: keys, aggregates and what SELECT and HAVING make of them."""

from __future__ import annotations

import dataclasses
import re

from sqlglot import exp

from millstream.api.sql.aggregates import aggregate_of, call_of, first_call
from millstream.api.sql.building import Building, Names
from millstream.api.sql.refusal import COLUMN, GROUPING, WINDOW, Place
from millstream.api.sql.relation import WINDOW_COLUMNS, Relation, Windowed, named, relation_of, resolved
from millstream.api.sql.select_list import SelectedColumn, select_list
from millstream.api.sql.times import WINDOW_TIME, window_ends
from millstream.api.sql.windows import group_window, is_group_window
from millstream.api.sql.writing import column, text_of
from millstream.api.streams.stream import DataStream
from millstream.graph.expressions import reading
from millstream.graph.expressions.refusal import Site
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Aggregate, KeyedAggregate
from millstream.graph.operations.rows import Filter, Select, WithColumns
from millstream.graph.operations.window import Window
from millstream.graph.windows.window import WindowSpec

_ALL_ROWS = "all_rows"
_LONGEST = 60


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A column by which rows are grouped."""

    name: str
    node: exp.Expr
    is_end: bool = False
    """Whether it is the end of the window whose results are grouped, which the window step gives itself."""

    @property
    def is_computed(self) -> bool:
        """Whether the stream does not hold it yet."""
        return self.node != column(self.name)


def is_grouped(select: exp.Select) -> bool:
    """Whether a SELECT aggregates."""
    if select.args.get("group") or select.args.get("having"):
        return True
    return any(first_call(node) is not None for node in select.expressions)


def grouped(building: Building, select: exp.Select, relation: Relation, names: Names) -> Relation:
    """Group the rows of a relation; the result has the columns of the SELECT list."""
    place = building.place
    building.require_final(relation, "an aggregate")
    relation, parts = _parts(select, relation, place)
    if any(isinstance(node, exp.Star) or isinstance(node.this, exp.Star) for node in select.expressions):
        raise place.refuse(GROUPING, "* has no place beside GROUP BY", hint="name the grouped columns and aggregates")
    items = select_list(select, relation, place)
    having = select.args.get("having")
    wanted = None if having is None else _condition(having, items, relation, place)
    relation, keys = _of_windows(relation, _keys(parts, items, relation, place))
    rewriter = _Rewriter(keys, relation, place)
    rewriter.name_all(items)
    given = [(item.name, rewriter.rewritten(item.node)) for item in items]
    condition = None if wanted is None else rewriter.rewritten(wanted)
    stream = _aggregated(building, relation, keys, rewriter.aggregates, names)
    made = relation_of(stream, "", stateful=stream, is_updating=_is_updating(stream._node.operation))
    if condition is not None:
        where = text_of(condition, place)
        stream = building.step(Filter(where=where), (stream._as_input(),), names.child("having"), state=False)
    columns = tuple((name, text_of(node, place)) for name, node in given)
    if stream.changelog is not None:
        # What became of a group cannot be named in the statement: it is no column of what is read.
        columns += ((stream.changelog.op, text_of(column(stream.changelog.op), place)),)
    if [(name, text_of(column(name), place)) for name in stream.schema.names] != list(columns):
        stream = building.step(Select(columns=columns), (stream._as_input(),), names.child("select"), state=False)
    return relation_of(stream, "", stateful=made.stateful, is_updating=made.is_updating)


def _condition(having: exp.Having, items: list[SelectedColumn], relation: Relation, place: Place) -> exp.Expr:
    """The condition of HAVING, in which names of the SELECT list stand for their expressions, as in Spark."""

    def spelled(node: exp.Expr) -> exp.Expr:
        if not isinstance(node, exp.Column) or len(node.parts) > 1:
            return node
        selected = next((item.node for item in items if item.name.lower() == node.name.lower()), None)
        if selected is None or not named(node.name, None, relation):
            return node if selected is None else exp.Placeholder(this=selected.copy())
        if selected != resolved(node, relation, place):
            hint = "give the column of the SELECT list another name"
            raise place.refuse(COLUMN, f"{node.name!r} in HAVING means two columns", at=node, hint=hint)
        return node

    condition = resolved(having.this.transform(spelled), relation, place)
    return condition.transform(_filled_in)


def _filled_in(node: exp.Expr) -> exp.Expr:
    # Parameters of the run are placeholders too; they hold their name.
    is_spelled = isinstance(node, exp.Placeholder) and isinstance(node.this, exp.Expr)
    return _bracketed(node.this) if is_spelled else node


def _bracketed(node: exp.Expr) -> exp.Expr:
    is_simple = isinstance(node, (exp.Column, exp.Anonymous, exp.Filter, exp.IgnoreNulls))
    return node if is_simple else exp.Paren(this=node)


def _is_updating(operation: Operation) -> bool:
    """Running aggregates say a group again, and windows that wait for late rows fire again."""
    if isinstance(operation, Window):
        return operation.lateness > 0
    return isinstance(operation, KeyedAggregate) and operation.emit != "end"


def _parts(select: exp.Select, relation: Relation, place: Place) -> tuple[Relation, list[exp.Expr]]:
    """The relation with the window of GROUP BY, and what is grouped by beside it."""
    group = select.args.get("group")
    parts: list[exp.Expr] = []
    for node in [] if group is None else group.expressions:
        if isinstance(node, exp.Tuple):
            parts += node.expressions
        elif is_group_window(node):
            relation = group_window(node, relation, place)
        else:
            parts.append(node.this if isinstance(node, exp.Paren) else node)
    return relation, parts


def _keys(parts: list[exp.Expr], items: list[SelectedColumn], relation: Relation, place: Place) -> list[Key]:
    """The keys beside the window, each once."""
    nodes = [_grouped_node(part, items, relation, place) for part in parts]
    window = relation.window
    if window is not None and window.alias is None:
        said = {node.name for node in nodes if isinstance(node, exp.Column)}
        if not {"window_start", "window_end"} <= said:
            hint = "write GROUP BY window_start, window_end"
            raise place.refuse(WINDOW, "a window table must be grouped by its window", hint=hint)
        nodes = [node for node in nodes if not (isinstance(node, exp.Column) and node.name in WINDOW_COLUMNS)]
    keys: list[Key] = []
    for node in nodes:
        if all(node != key.node for key in keys):
            keys.append(Key(name=_key_name(node, items, keys, relation), node=node))
    _check_partition(keys, relation, place)
    return keys


def _grouped_node(part: exp.Expr, items: list[SelectedColumn], relation: Relation, place: Place) -> exp.Expr:
    """A part of GROUP BY: an expression, the number of a column in the SELECT list, or its name there."""
    node = None
    if isinstance(part, exp.Literal) and not part.args.get("is_string"):
        number = int(part.name) if part.name.isdigit() else 0
        if not 1 <= number <= len(items):
            problem = f"GROUP BY {part.name} names no column of the SELECT list"
            raise place.refuse(GROUPING, problem, at=part, known=f"1 to {len(items)}", hint="correct the number")
        node = items[number - 1].node
    elif isinstance(part, exp.Column) and len(part.parts) == 1 and not named(part.name, None, relation):
        node = next((item.node for item in items if item.name.lower() == part.name.lower()), None)
    node = resolved(part, relation, place) if node is None else node
    if first_call(node) is not None:
        raise place.refuse(GROUPING, "an aggregate cannot be grouped by", at=part, hint="group in a second statement")
    return node


def _key_name(node: exp.Expr, items: list[SelectedColumn], keys: list[Key], relation: Relation) -> str:
    if isinstance(node, exp.Column) and len(node.parts) == 1:
        return node.name
    taken = {*relation.stream.schema.names, *(key.name for key in keys), *WINDOW_COLUMNS}
    wanted = next((item.name for item in items if item.node == node and item.name not in taken), None)
    return wanted or free_name("key", taken)


def free_name(kind: str, taken: set[str]) -> str:
    """`sum_1`, or the next number that is free."""
    return next(name for n in range(1, len(taken) + 2) if (name := f"{kind}_{n}") not in taken)


def _of_windows(relation: Relation, keys: list[Key]) -> tuple[Relation, list[Key]]:
    """Results of windows, grouped by the end of their windows: all rows of a group happened at one instant.

    So the group is complete once the watermark has passed it. It is a window as long as that instant, whose end is the
    end of the windows below, and it says its result once.
    """
    ends = window_ends(relation.stream._job._steps, relation.stream._as_input())
    if relation.window is not None or not any(key.name in ends and not key.is_computed for key in keys):
        return relation, keys
    taken = {*relation.stream.schema.names, *(key.name for key in keys), *WINDOW_COLUMNS}
    made = []
    for key in keys:
        is_end, name = key.name in ends and not key.is_computed, key.name
        if is_end or name in WINDOW_COLUMNS:
            name = "window_end" if is_end else free_name("key", taken)
            taken.add(name)
        made.append(Key(name=name, node=key.node, is_end=is_end))
    instant = Windowed(spec=WindowSpec(kind="tumbling", size=1, slide=1), alias=None, is_instant=True)
    return dataclasses.replace(relation, window=instant), made


def _check_partition(keys: list[Key], relation: Relation, place: Place) -> None:
    """Sessions of a window table belong to what it is partitioned by, and ours to the keys."""
    if relation.window is None or relation.window.partition is None:
        return
    said = [resolved(node, relation, place) for node in relation.window.partition]
    if {node.sql() for node in said} != {key.node.sql() for key in keys}:
        names = ", ".join(key.node.sql("spark") for key in keys)
        hint = f"write SESSION(TABLE ... PARTITION BY {names}, ...)" if keys else "remove PARTITION BY"
        raise place.refuse(WINDOW, "sessions must be partitioned by what they are grouped by", hint=hint)


class _Rewriter:
    """Turns expressions over the rows into expressions over keys and aggregates, and collects the aggregates."""

    def __init__(self, keys: list[Key], relation: Relation, place: Place) -> None:
        self._keys, self._relation, self._place = keys, relation, place
        self._has_window = relation.window is not None and not relation.window.is_instant
        self._known: list[tuple[exp.Expr, str]] = []
        self.aggregates: dict[str, Aggregate] = {}
        self._taken = {*(key.name for key in keys), *WINDOW_COLUMNS, _ALL_ROWS}

    def name_all(self, items: list[SelectedColumn]) -> None:
        """Aggregates that are a column of the result bear its name in the state, as in a step written by hand."""
        for item in items:
            if call_of(item.node) is not None:
                self._named(item.node, item.name)

    def rewritten(self, node: exp.Expr) -> exp.Expr:
        """The expression over the columns behind the aggregate."""
        return node.transform(self._replaced)

    def _replaced(self, node: exp.Expr) -> exp.Expr:
        for key in self._keys:
            if node == key.node:
                return column(key.name)
        if call_of(node) is not None:
            return column(self._named(node, None))
        if not isinstance(node, exp.Column):
            return node
        if self._has_window and node.name == "window_time":
            return reading.read(Site(text=WINDOW_TIME, step=self._place.step))
        if self._has_window and node.name in WINDOW_COLUMNS:
            return node
        hint = f"add it to GROUP BY, or write FIRST({node.name}) IGNORE NULLS"
        problem = f"column {node.name!r} is neither grouped nor aggregated"
        raise self._place.refuse(GROUPING, problem, known=[key.name for key in self._keys], hint=hint)

    def _named(self, node: exp.Expr, wanted: str | None) -> str:
        known = next((name for other, name in self._known if other == node), None)
        if known is not None:
            return known
        aggregate = aggregate_of(node, self._relation.stream.schema, self._place)
        name = wanted or _described(aggregate)
        name = name if name not in self._taken else free_name(name, self._taken)
        self._taken.add(name)
        self._known.append((node.copy(), name))
        self.aggregates[name] = aggregate
        return name


def _described(aggregate: Aggregate) -> str:
    """A name that says what is aggregated, so that it stays when others are added."""
    words = re.sub(r"\W+", "_", aggregate.text).strip("_").lower()
    return words[:_LONGEST].rstrip("_")


def _aggregated(
    building: Building, relation: Relation, keys: list[Key], aggregates: dict[str, Aggregate], names: Names
) -> DataStream:
    stream = relation.stream
    keys = [key for key in keys if not key.is_end]
    computed = [(key.name, text_of(key.node, building.place)) for key in keys if key.is_computed]
    key_names = [key.name for key in keys]
    if not keys:
        constant = _ALL_ROWS if _ALL_ROWS not in stream.schema else free_name(_ALL_ROWS, set(stream.schema.names))
        computed, key_names = [(constant, "1")], [constant]
    if computed:
        operation = WithColumns(columns=tuple(computed))
        stream = building.step(operation, (stream._as_input(),), names.child("keys"), state=False)
    keyed = stream.key_by(*key_names)
    made = tuple(aggregates.items()) or ((free_name("count", set(key_names)), Aggregate(kind="count")),)
    if relation.window is None:
        running = KeyedAggregate(aggregates=made, emit=building.running_emit())
        return building.step(running, (keyed._as_input(),), names, state=True)
    window = Window(window=relation.window.spec, lateness=building.window_lateness(), aggregates=made)
    return building.step(window, (keyed._as_input(),), names, state=True)
