"""Joins of two streams: for ever, within bounds of event time, or in the same window."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from sqlglot import exp

from millstream.api.sql.building import Building, Names
from millstream.api.sql.conditions import JoinConditions, Sides
from millstream.api.sql.group import free_name
from millstream.api.sql.refusal import JOIN, TABLE, WINDOW, Place
from millstream.api.sql.relation import WINDOW_COLUMNS, Relation, Visible, resolved
from millstream.api.sql.temporal import temporal_operation, version_of
from millstream.api.sql.times import event_columns, window_ends
from millstream.api.sql.writing import all_of, column, conjuncts, text_of
from millstream.api.streams.job_steps import JobSteps
from millstream.api.streams.keyed import KeyedStream
from millstream.graph.operations.join import How, Join, JoinOperation, WindowJoin, right_names
from millstream.graph.operations.rows import Filter, WithColumns
from millstream.graph.step import StepInput
from millstream.model.schema import Field, Schema

_HOWS: dict[str, How] = {
    "": "inner", "INNER": "inner", "CROSS": "inner",
    "LEFT": "left", "LEFT OUTER": "left", "RIGHT": "right", "RIGHT OUTER": "right", "FULL": "full", "FULL OUTER": "full",
}  # fmt: skip


def joined(
    building: Building, join: exp.Join, sides: tuple[Relation, Relation], where: list[exp.Expr], names: Names
) -> tuple[Relation, list[exp.Expr]]:
    """Both relations as one, and the conditions of WHERE that are left; an inner join takes them all."""
    place = building.place
    how, instant = _how(join, place), version_of(join, place)
    takes_where = how == "inner" and instant is None
    _check_sides(building, sides)
    relation, prefix = _together(sides, join, how, place)
    conditions = _conditions(join, where if takes_where else [], sides, relation, place)
    if takes_where:
        sides = _filtered(building, conditions, sides, relation, names)
    if instant is None:
        operation = _operation(conditions, how, prefix, sides, building)
    else:
        operation = temporal_operation(instant, conditions, how, prefix, relation)
    left, right = _keyed(building, conditions, sides, relation, names)
    made = building.step(operation, (left._as_input(), right._as_input()), names, state=True)
    return dataclasses.replace(relation, stream=made, stateful=made), [] if takes_where else where


def _conditions(
    join: exp.Join, where: list[exp.Expr], sides: tuple[Relation, Relation], relation: Relation, place: Place
) -> JoinConditions:
    conditions = JoinConditions(sides=_sides(sides, relation), place=place)
    given = conjuncts(join.args.get("on")) + where
    pairs = [_is_same_window(node, sides) for node in given]
    _check_window(sides, given, pairs, place)
    for node, is_window in zip(given, pairs, strict=True):
        if not is_window:
            conditions.take(resolved(node, relation, place))
    conditions.keys += [_using_pair(name, sides, relation, place) for name in join.args.get("using") or ()]
    conditions.check_bounds()
    conditions.widen_keys()
    return conditions


def _how(join: exp.Join, place: Place) -> How:
    said = " ".join(str(join.args[part]).upper() for part in ("side", "kind") if join.args.get(part))
    if said not in _HOWS:
        known = "JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN"
        hint = "select what you need behind one of them"
        raise place.refuse(JOIN, f"{said} JOIN is not offered", at=join, known=known, hint=hint)
    return _HOWS[said]


def _check_sides(building: Building, sides: tuple[Relation, Relation]) -> None:
    left, right = sides
    for side in sides:
        building.require_final(side, "a join")
    if {name.lower() for name in left.tables} & {name.lower() for name in right.tables}:
        hint = "give one of them another name, as in JOIN payments AS p"
        raise building.place.refuse(TABLE, "both sides have the same name", found=", ".join(left.tables), hint=hint)


def _together(sides: tuple[Relation, Relation], join: exp.Join, how: How, place: Place) -> tuple[Relation, str | None]:
    """The columns of both sides as the joined row names them, and the prefix of those that both have."""
    left, right = sides
    mine, theirs = left.stream.schema, right.stream.schema
    prefix = None
    if set(mine.names) & set(theirs.names):
        prefix = f"{(right.tables[0] or 'right').lower()}_"
        while any(f"{prefix}{name}" in mine or f"{prefix}{name}" in theirs for name in theirs.names if name in mine):
            prefix += "_"
    names = dict(zip(theirs.names, right_names(mine, theirs, prefix, place.step), strict=True))
    shared = {name.name.lower() for name in join.args.get("using") or ()}
    hides_left = how == "right"
    seen = [dataclasses.replace(v, is_hidden=hides_left and v.name.lower() in shared) for v in left.columns]
    seen += [
        dataclasses.replace(v, column=names[v.column], is_hidden=not hides_left and v.name.lower() in shared)
        for v in right.columns
    ]
    if shared and how == "full":
        hint = "write ON, and coalesce(l.x, r.x) AS x"
        raise place.refuse(JOIN, "USING is not offered for FULL JOIN", at=join, hint=hint)
    if left.window is not None:
        seen += _window_columns(sides, how)
    return Relation(stream=left.stream, columns=tuple(seen)), prefix


def _window_columns(sides: tuple[Relation, Relation], how: How) -> list[Visible]:
    """The window of a pair; the side whose rows may be missing has none of its own."""
    owners = {"inner": sides, "left": sides[:1], "right": sides[1:], "full": ()}[how]
    tables = [relation.tables[0] for relation in owners]
    said = [("", False), *((table, True) for table in tables)]
    return [
        Visible(table=table, name=name, column=name, is_hidden=is_hidden)
        for name in WINDOW_COLUMNS[:2]
        for table, is_hidden in said
    ]


def _sides(sides: tuple[Relation, Relation], relation: Relation) -> Sides:
    left, right = sides
    origin = _origins(sides, relation)
    names = list(origin)

    def known(columns_of: Callable[[JobSteps, StepInput], frozenset[str]]) -> frozenset[str]:
        mine = columns_of(left.stream._job._steps, left.stream._as_input()) & set(left.stream.schema.names)
        theirs = columns_of(right.stream._job._steps, right.stream._as_input())
        return mine | {name for name in names if origin[name] in theirs}

    fields = [*left.stream.schema, *(Field(name, right.stream.schema[origin[name]].type) for name in names)]
    return Sides(
        left=frozenset(left.stream.schema.names),
        right=frozenset(names),
        times=known(event_columns),
        ends=known(window_ends),
        schema=Schema(tuple(fields)),
    )


def _origins(sides: tuple[Relation, Relation], relation: Relation) -> dict[str, str]:
    """Columns of the joined row that come from the right, with their names there."""
    behind = relation.columns[len(sides[0].columns) : len(sides[0].columns) + len(sides[1].columns)]
    return {after.column: before.column for after, before in zip(behind, sides[1].columns, strict=True)}


def _is_same_window(node: exp.Expr, sides: tuple[Relation, Relation]) -> str | None:
    """`l.window_start = r.window_start`, or of their ends."""
    if not isinstance(node, exp.EQ) or any(side.window is None for side in sides):
        return None
    one, other = node.this, node.expression
    if not isinstance(one, exp.Column) or not isinstance(other, exp.Column):
        return None
    tables = {one.table.lower(), other.table.lower()}
    is_pair = tables == {side.tables[0].lower() for side in sides}
    is_same = one.name.lower() == other.name.lower() and one.name.lower() in WINDOW_COLUMNS[:2]
    return one.name.lower() if is_pair and is_same else None


def _check_window(
    sides: tuple[Relation, Relation], given: list[exp.Expr], pairs: list[str | None], place: Place
) -> None:
    left, right = (side.window for side in sides)
    if left is None and right is None:
        return
    if left is None or right is None or left.spec != right.spec:
        hint = "write the same TUMBLE(...) or HOP(...) on both sides"
        raise place.refuse(WINDOW, "the two sides have different windows", hint=hint)
    if not {"window_start", "window_end"} <= set(pairs):
        one, other = (side.tables[0] for side in sides)
        hint = f"add ON {one}.window_start = {other}.window_start AND {one}.window_end = {other}.window_end"
        raise place.refuse(
            WINDOW, "window tables are joined by their windows", at=given[0] if given else None, hint=hint
        )


def _using_pair(
    name: exp.Expr, sides: tuple[Relation, Relation], relation: Relation, place: Place
) -> tuple[exp.Expr, exp.Expr]:
    one, other = (exp.Column(this=name.copy(), table=exp.to_identifier(side.tables[0])) for side in sides)
    return resolved(one, relation, place), resolved(other, relation, place)


def _operation(
    conditions: JoinConditions, how: How, prefix: str | None, sides: tuple[Relation, Relation], building: Building
) -> JoinOperation:
    place = building.place
    where = text_of(all_of(conditions.rest), place) if conditions.rest else None
    if not conditions.keys:
        hint = "add l.key = r.key to ON: rows meet by equal keys"
        raise place.refuse(JOIN, "a join without an equality of both sides", hint=hint)
    if sides[0].window is not None:
        lateness = building.window_lateness()
        return WindowJoin(window=sides[0].window.spec, how=how, where=where, prefix=prefix, lateness=lateness)
    if how != "inner" and conditions.lower is None:
        hint = "bound it: AND r.ts BETWEEN l.ts AND l.ts + INTERVAL '1' HOUR, or join window tables"
        problem = f"a {how} join without bounds of time: no row is ever known to have no partner"
        raise place.refuse(JOIN, problem, hint=hint)
    return Join(how=how, lower=conditions.lower, upper=conditions.upper, where=where, prefix=prefix)


def _filtered(
    building: Building, conditions: JoinConditions, sides: tuple[Relation, Relation], relation: Relation, names: Names
) -> tuple[Relation, Relation]:
    """Conditions on one side alone come before the join, so that it keeps fewer rows, unless they may fail."""
    origins, made = _origins(sides, relation), []
    for side, role in zip(sides, ("left", "right"), strict=True):
        early = [
            node for node in conditions.rest if conditions.sides.of(node) == role and not conditions.may_fail(node)
        ]
        conditions.rest = [node for node in conditions.rest if all(node is not each for each in early)]
        if early:
            condition = all_of(early)
            condition = condition.transform(_before, origins) if role == "right" else condition
            where = Filter(where=text_of(condition, building.place))
            own = names.child(f"{role}.where")
            side = side.on(building.step(where, (side.stream._as_input(),), own, state=False))  # noqa: PLW2901
        made.append(side)
    return made[0], made[1]


def _keyed(
    building: Building, conditions: JoinConditions, sides: tuple[Relation, Relation], relation: Relation, names: Names
) -> tuple[KeyedStream, KeyedStream]:
    """Both streams by the keys that must be equal; computed ones become columns before."""
    origins = _origins(sides, relation)
    made = []
    for place_of, (side, role) in enumerate(zip(sides, ("left", "right"), strict=True)):
        stream, keys, computed = side.stream, [], []
        taken = set(conditions.sides.schema.names) | set(stream.schema.names)
        for pair in conditions.keys:
            node = pair[place_of].transform(_before, origins) if role == "right" else pair[place_of]
            if isinstance(node, exp.Column) and len(node.parts) == 1:
                keys.append(node.name)
                continue
            keys.append(free_name(f"{role}_key", taken))
            taken.add(keys[-1])
            computed.append((keys[-1], text_of(node, building.place)))
        if computed:
            adding = WithColumns(columns=tuple(computed))
            stream = building.step(adding, (stream._as_input(),), names.child(role), state=False)
        made.append(stream.key_by(*keys))
    return made[0], made[1]


def _before(node: exp.Expr, origins: dict[str, str]) -> exp.Expr:
    """A column of the joined row as the right side calls it."""
    if not isinstance(node, exp.Column):
        return node
    first, *fields = [part.name for part in node.parts]
    return column(origins[first], *fields)
