"""A SELECT becomes steps: what FROM reads, WHERE, GROUP BY or the SELECT list, DISTINCT; brackets hold another SELECT."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from millstream.api.sql.aggregates import first_call
from millstream.api.sql.building import Building, Names
from millstream.api.sql.group import grouped, is_grouped
from millstream.api.sql.join import joined
from millstream.api.sql.rank import ranked
from millstream.api.sql.refusal import CLAUSE, GROUPING, TABLE, WINDOW, Place
from millstream.api.sql.relation import WINDOW_COLUMNS, Relation, relation_of, resolved, uses
from millstream.api.sql.select_list import columns_of, select_list
from millstream.api.sql.shapes import ranking_of, window_call
from millstream.api.sql.windows import windowed_table
from millstream.api.sql.writing import all_of, column, conjuncts, text_of
from millstream.graph.operations.rank import Deduplicate
from millstream.graph.operations.rows import Filter, Select


def query(building: Building, tree: exp.Expr, names: Names) -> Relation:
    """The rows of a SELECT, or of several with UNION ALL between them."""
    if isinstance(tree, exp.Subquery):
        return query(building, tree.this, names)
    if isinstance(tree, exp.Union):
        return _united(building, tree, names)
    if not isinstance(tree, exp.Select):
        hint = "write a name, or (SELECT ...) name"
        raise building.place.refuse(TABLE, "brackets hold a SELECT", at=tree, found=tree.sql("spark"), hint=hint)
    return _selected(building, tree, names)


def _united(building: Building, tree: exp.Union, names: Names) -> Relation:
    place = building.place
    if tree.args.get("distinct"):
        hint = "write UNION ALL, and SELECT DISTINCT around it: SELECT DISTINCT * FROM (... UNION ALL ...)"
        raise place.refuse(CLAUSE, "UNION without ALL is not offered", hint=hint)
    parts = _union_parts(tree)
    made = [query(building, part, names.child(str(number))) for number, part in enumerate(parts, 1)]
    first, *others = [relation.stream for relation in made]
    for number, other in enumerate(others, 2):
        if len(other.schema.names) != len(first.schema.names):
            numbers = f"{len(first.schema.names)} and {len(other.schema.names)} columns"
            raise place.refuse(CLAUSE, "UNION ALL of different columns", found=numbers, hint="select as many columns")
        if other.schema.names != first.schema.names:
            pairs = zip(first.schema.names, other.schema.names, strict=True)
            columns = tuple((wanted, text_of(column(name), place)) for wanted, name in pairs)
            renamed = names.child(f"{number}.names")
            others[number - 2] = building.step(Select(columns=columns), (other._as_input(),), renamed, state=False)
    stream = first.union(*others, id=names.id)
    return relation_of(stream, "", is_updating=any(relation.is_updating for relation in made))


def _union_parts(tree: exp.Expr) -> list[exp.Expr]:
    if isinstance(tree, exp.Union) and not tree.args.get("distinct"):
        return [*_union_parts(tree.this), *_union_parts(tree.expression)]
    return [tree]


def _selected(building: Building, select: exp.Select, names: Names) -> Relation:
    """Steps that hold state get the name of the statement, the last of them as it is; without any, the last step."""
    roles = _roles(select, names)
    relation, where = _read_from(building, select, names, roles)
    if "group" in roles:
        relation = _filtered(building, relation, where, names.child("where"))
        relation = grouped(building, select, relation, roles["group"])
    else:
        relation = _projected(building, select, relation, where, names, is_stateless=not roles)
    if "distinct" in roles:
        relation = _distinct(building, relation, roles["distinct"])
    return relation


def _roles(select: exp.Select, names: Names) -> dict[str, Names]:
    """The steps of a SELECT that hold state, in their order."""
    is_held = {
        "join": bool(select.args.get("joins")),
        "rank": ranking_of(select) is not None,
        "group": is_grouped(select),
        "distinct": bool(select.args.get("distinct")),
    }
    roles = [role for role, is_there in is_held.items() if is_there]
    return {role: names if role == roles[-1] else names.child(role) for role in roles}


def _projected(
    building: Building,
    select: exp.Select,
    relation: Relation,
    where: list[exp.Expr],
    names: Names,
    *,
    is_stateless: bool,
) -> Relation:
    place = building.place
    if relation.window is not None:
        hint = "write GROUP BY window_start, window_end, rank its rows with ROW_NUMBER(), or join two such tables"
        raise place.refuse(WINDOW, "a window table without GROUP BY", hint=hint)
    columns = columns_of(select_list(select, relation, place), place)
    is_same = list(columns) == [(name, text_of(column(name), place)) for name in relation.stream.schema.names]
    is_last = is_stateless and is_same and bool(where)
    relation = _filtered(building, relation, where, names if is_last else names.child("where"))
    stream = relation.stream
    if not is_same or (is_stateless and not where):
        own = names if is_stateless else names.child("select")
        stream = building.step(Select(columns=columns), (stream._as_input(),), own, state=False)
    return relation_of(stream, "", is_updating=relation.is_updating, stateful=relation.stateful)


def _distinct(building: Building, relation: Relation, names: Names) -> Relation:
    """The first row of each that are equal in all columns."""
    building.require_final(relation, "DISTINCT")
    stream = relation.stream
    keyed = stream.key_by(*stream.schema.names)
    made = building.step(Deduplicate(emit=building.rank_emit()), (keyed._as_input(),), names, state=True)
    return relation_of(made, "", stateful=made)


def _read_from(
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
        inner, left = _read_from(building, shape.inner, names.child("from"), {"join": names.child("from.join")})
        inner = _filtered(building, inner, left, names.child("from.where"))
        return ranked(building, shape, inner, conditions, roles["rank"])
    relation = _table(building, source.this, names, is_version=False)
    if not joins:
        return relation, conditions
    other = _table(building, joins[0].this, names, is_version=True)
    return joined(building, joins[0], (relation, other), conditions, roles["join"])


def _conditions(select: exp.Select, place: Place) -> list[exp.Expr]:
    where = select.args.get("where")
    conditions = [] if where is None else conjuncts(where.this)
    for node in conditions:
        if first_call(node) is not None:
            raise place.refuse(GROUPING, "an aggregate has no place in WHERE", at=node, hint="write it in HAVING")
    return conditions


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
        made = query(building, node.this, names.child(alias or "from"))
        return dataclasses.replace(
            relation_of(made.stream, alias), is_updating=made.is_updating, stateful=made.stateful
        )
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        return building.relation_named(node.name, alias, node)
    problem = "FROM takes streams, window tables and SELECT in brackets"
    known = "stream, TUMBLE(...), HOP(...), CUMULATE(...), SESSION(...), (SELECT ...)"
    raise building.place.refuse(TABLE, problem, at=node, found=node.sql("spark"), known=known)


def _filtered(building: Building, relation: Relation, where: list[exp.Expr], names: Names) -> Relation:
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
