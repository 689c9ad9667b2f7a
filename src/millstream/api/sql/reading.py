"""What FROM and WHERE give: a stream by name, a window table, a statement in brackets, a join, or a ranking."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from millstream.api.sql.aggregates import first_call
from millstream.api.sql.context import Building, Names
from millstream.api.sql.join import joined
from millstream.api.sql.rank import ranked
from millstream.api.sql.refusal import CLAUSE, GROUPING, TABLE, WINDOW, Place
from millstream.api.sql.scope import WINDOW_COLUMNS, Relation, relation_of, resolved, uses
from millstream.api.sql.shapes import ranking_of, window_call
from millstream.api.sql.windows import windowed_table
from millstream.api.sql.writing import all_of, conjuncts, text_of
from millstream.graph.operations.rows import Filter


def read_from(
    building: Building, select: exp.Select, names: Names, roles: dict[str, Names]
) -> tuple[Relation, list[exp.Expr]]:
    """What a SELECT reads, and the conditions of WHERE that are left."""
    source, joins = select.args.get("from_"), select.args.get("joins") or []
    if source is None:
        hint = f"add FROM {next(iter(building.streams))}"
        raise building.place.refuse(TABLE, "reads nothing", hint=hint)
    conditions = _conditions(select, building.place)
    if len(joins) > 1 or (joins and "rank" in roles):
        hint = "join two of them in FROM (SELECT ...), or in a sql step before"
        raise building.place.refuse(TABLE, "joins more than two streams, or a ranking", at=joins[-1], hint=hint)
    shape = ranking_of(select)
    if shape is not None:
        inner, left = read_from(building, shape.inner, names.child("from"), {"join": names.child("from.join")})
        inner = filtered(building, inner, left, names.child("from.where"))
        return ranked(building, shape, inner, conditions, roles["rank"])
    relation = _table(building, source.this, names, is_version=False)
    if not joins:
        return relation, conditions
    other = _table(building, joins[0].this, names, is_version=True)
    return joined(building, joins[0], (relation, other), conditions, roles["join"])


def _conditions(select: exp.Select, place: Place) -> list[exp.Expr]:
    where = select.args.get("where")
    found = [] if where is None else conjuncts(where.this)
    for node in found:
        if first_call(node) is not None:
            raise place.refuse(GROUPING, "an aggregate has no place in WHERE", at=node, hint="write it in HAVING")
    return found


def _table(building: Building, node: exp.Expr, names: Names, *, is_version: bool) -> Relation:
    """One thing that FROM or JOIN names; what is joined may be versions."""
    if node.args.get("version") and not is_version:
        hint = "write it behind a stream that is joined: JOIN versions FOR SYSTEM_TIME AS OF l.ts AS r ON ..."
        raise building.place.refuse(CLAUSE, "FOR SYSTEM_TIME AS OF is not offered here", at=node, hint=hint)
    alias = node.alias
    call = window_call(node)
    if call is not None:
        return windowed_table(call, lambda named: building.relation_named(named.name, alias, named), building.place)
    if isinstance(node, exp.Subquery):
        from millstream.api.sql.build import query

        made = query(building, node.this, names.child(alias or "from"))
        return dataclasses.replace(
            relation_of(made.stream, alias), is_updating=made.is_updating, stateful=made.stateful
        )
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return building.relation_named(node.name, alias, node)
    problem = "FROM takes streams, window tables and SELECT in brackets"
    known = "stream, TUMBLE(...), HOP(...), CUMULATE(...), SESSION(...), (SELECT ...)"
    raise building.place.refuse(TABLE, problem, at=node, found=node.sql("spark"), known=known)


def filtered(building: Building, relation: Relation, where: list[exp.Expr], names: Names) -> Relation:
    """The relation behind the conditions of WHERE."""
    if not where:
        return relation
    place = building.place
    condition = resolved(all_of(where), relation, place)
    if relation.window is not None and uses(condition, WINDOW_COLUMNS) is not None:
        hint = "write the condition in HAVING, or around the ranking"
        raise place.refuse(WINDOW, "WHERE comes before the window", at=where[0], hint=hint)
    operation = Filter(where=text_of(condition, place))
    return relation.on(building.step(operation, (relation.stream._as_input(),), names, state=False))
