"""Rankings: `ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn` in FROM, with `WHERE rn <= N` around it."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from millstream.api.sql.building import Building, Names
from millstream.api.sql.group import free_name
from millstream.api.sql.refusal import RANK, Place
from millstream.api.sql.relation import Relation, relation_of, resolved
from millstream.api.sql.select_list import SelectedColumn, columns_of, select_list
from millstream.api.sql.shapes import RankingShape
from millstream.api.sql.times import WINDOW_TIME, event_columns
from millstream.api.sql.window_rank import beside_window, window_ranking, with_window_columns
from millstream.api.sql.writing import column, text_of
from millstream.graph.expressions import reading
from millstream.graph.expressions.refusal import Site
from millstream.graph.operations.rank import Deduplicate, RankEmit, TopN, WindowRank
from millstream.graph.operations.rows import Select, WithColumns

_SHAPE = (
    "SELECT ... FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY v DESC) AS rn FROM stream) WHERE rn <= 3"
)
_FLIPPED = {exp.GTE: exp.LTE, exp.GT: exp.LT, exp.EQ: exp.EQ}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """Columns to add before the step, those it is keyed by, and its order."""

    computed: tuple[tuple[str, str], ...]
    keys: tuple[str, ...]
    columns: tuple[tuple[str, bool], ...]
    """Each with whether the largest value comes first."""

    @property
    def by(self) -> str:
        """The order as text."""
        return ", ".join(f"`{name}` {'desc' if is_down else 'asc'}" for name, is_down in self.columns)

    def first_row(self, times: frozenset[str], emit: RankEmit) -> Deduplicate:
        """The step that keeps the first row; of the latest ones the last to come, where time alone decides."""
        if len(self.columns) == 1 and (self.columns[0][0] in times and self.columns[0][1]):
            return Deduplicate(keep="last", by=f"`{self.columns[0][0]}` asc", emit=emit)
        return Deduplicate(keep="first", by=self.by, emit=emit)


def ranked(
    building: Building, shape: RankingShape, relation: Relation, conditions: list[exp.Expr], names: Names
) -> tuple[Relation, list[exp.Expr]]:
    """The ranked rows under the names of the inner SELECT, and the conditions beside the bound of the rank."""
    place = building.place
    function = _checked(shape, place)
    building.require_final(relation, "a ranking")
    most, left = _bound(shape, conditions, place)
    order = _order(shape, relation, place)
    items = _items(shape, with_window_columns(relation), place)
    stream = relation.stream
    if order.computed:
        adding = WithColumns(columns=order.computed)
        stream = building.step(adding, (stream._as_input(),), names.child("keys"), state=False)
    # The SELECT list need not give a column of the rows that has the name of the rank.
    rank = str(shape.rank)
    own = rank if rank not in stream.schema else free_name(rank, set(stream.schema.names))
    ranking = TopN(n=most, by=order.by, rank=own, ties=function == "RANK", emit="end")
    operation = _operation(building, ranking, relation, order)
    made = building.step(operation, (stream.key_by(*order.keys)._as_input(),), names, state=True)
    number = exp.Literal.number("1L") if isinstance(operation, Deduplicate) else column(own)
    columns = columns_of([SelectedColumn(name=i.name, node=number if i.name == rank else i.node) for i in items], place)
    stream = made
    if list(columns) != [(name, text_of(column(name), place)) for name in made.schema.names]:
        stream = building.step(Select(columns=columns), (made._as_input(),), names.child("ranked"), state=False)
    return relation_of(stream, shape.table, stateful=made, is_updating=_is_updating(operation)), left


def _operation(building: Building, ranking: TopN, relation: Relation, order: _Order) -> TopN | Deduplicate | WindowRank:
    """The step that keeps the first rows of each key, or of each key and window."""
    if relation.window is not None:
        return window_ranking(building, ranking, relation)
    emit = building.rank_emit()
    if ranking.n > 1 or ranking.ties:
        return dataclasses.replace(ranking, emit=emit)
    times = event_columns(relation.stream._job._steps, relation.stream._as_input())
    return order.first_row(times, emit)


def _is_updating(operation: TopN | Deduplicate | WindowRank) -> bool:
    """Whether a row may be said again with another rank."""
    return operation.lateness > 0 if isinstance(operation, WindowRank) else operation.emit != "end"


def _checked(shape: RankingShape, place: Place) -> str:
    """The function that ranks; anything else in the inner SELECT has a step of its own."""
    call = shape.over.this
    function = str(call.this).upper() if isinstance(call, exp.Anonymous) and not call.expressions else ""
    if function not in {"ROW_NUMBER", "RANK"}:
        hint = "use GROUP BY window(ts, '10 seconds') or .process(...); ROW_NUMBER() and RANK() make a ranking"
        raise place.refuse(RANK, "OVER is offered for rankings only", at=shape.over, known=_SHAPE, hint=hint)
    others = [clause for clause in ("group", "having", "distinct") if shape.inner.args.get(clause)]
    windows = [node for node in shape.inner.find_all(exp.Window) if node.parent_select is shape.inner]
    if others or len(windows) > 1 or shape.rank is None or shape.over.args.get("order") is None:
        reason = ", ".join(others) or "more than one OVER" if others or len(windows) > 1 else "no name, or no ORDER BY"
        raise place.refuse(RANK, "is not a ranking", at=shape.over, found=reason, known=_SHAPE)
    return function


def _items(shape: RankingShape, relation: Relation, place: Place) -> list[SelectedColumn]:
    """The SELECT list of the inner statement, with the rank where it stands."""
    inner = shape.inner.copy()
    placed = [
        exp.Alias(this=exp.Literal.number(0), alias=exp.to_identifier(shape.rank, quoted=True))
        if isinstance(node, exp.Alias) and isinstance(node.this, exp.Window)
        else node
        for node in inner.expressions
    ]
    inner.set("expressions", placed)
    time = reading.read(Site(text=WINDOW_TIME, step=place.step))

    def computed(node: exp.Expr) -> exp.Expr:
        is_time = relation.window is not None and node == column("window_time")
        return time.copy() if is_time else node

    return [
        SelectedColumn(name=item.name, node=item.node.transform(computed))
        for item in select_list(inner, relation, place)
    ]


def _bound(shape: RankingShape, conditions: list[exp.Expr], place: Place) -> tuple[int, list[exp.Expr]]:
    """How many ranks stay: from `rn <= 3`, `rn < 4`, `rn = 1` or the same turned round."""
    bounds = [(node, most) for node in conditions if (most := _most(node, str(shape.rank))) is not None]
    if len(bounds) != 1:
        problem = f"a ranking needs one condition such as {shape.rank} <= 3"
        count = f"{len(bounds)} of them"
        raise place.refuse(RANK, problem, at=shape.over, found=count, known=_SHAPE)
    return bounds[0][1], [node for node in conditions if node is not bounds[0][0]]


def _most(node: exp.Expr, rank: str) -> int | None:
    kind, left, right = type(node), node.args.get("this"), node.args.get("expression")
    if isinstance(left, exp.Literal) and kind in _FLIPPED:
        kind, left, right = _FLIPPED[kind], right, left
    is_rank = isinstance(left, exp.Column) and left.name.lower() == rank.lower()
    if not is_rank or not isinstance(right, exp.Literal) or not str(right.this).isdigit():
        return None
    number = int(right.this) - (kind is exp.LT)
    is_bound = kind in {exp.LTE, exp.LT} or (kind is exp.EQ and number == 1)
    return number if is_bound and number >= 1 else None


def _order(shape: RankingShape, relation: Relation, place: Place) -> _Order:
    computed: list[tuple[str, str]] = []
    taken = {*relation.stream.schema.names, str(shape.rank)}

    def name_of(node: exp.Expr, kind: str) -> str:
        expression = resolved(node, relation, place)
        if isinstance(expression, exp.Column) and len(expression.parts) == 1:
            return expression.name
        name = free_name(kind, taken)
        taken.add(name)
        computed.append((name, text_of(expression, place)))
        return name

    keys = [name_of(node, "key") for node in shape.over.args.get("partition_by") or ()]
    if relation.window is not None:
        keys = beside_window(keys, shape, place)
    if not keys:
        keys.append(name_of(exp.Literal.number(1), "all_rows"))
    columns = []
    for ordered in shape.over.args["order"].expressions:
        is_down = bool(ordered.args.get("desc"))
        if bool(ordered.args.get("nulls_first")) == is_down:
            hint = "leave NULLS FIRST and NULLS LAST out: null is the smallest value, as in Spark"
            raise place.refuse(RANK, "the place of nulls is fixed", at=ordered, hint=hint)
        columns.append((name_of(ordered.this, "order"), is_down))
    return _Order(computed=tuple(computed), keys=tuple(keys), columns=tuple(columns))
