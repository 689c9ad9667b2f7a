"""A statement becomes steps: what FROM reads, WHERE, GROUP BY or the SELECT list, DISTINCT."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sqlglot import exp

from millstream.api.sql.context import Building, Names
from millstream.api.sql.group import grouped, is_grouped
from millstream.api.sql.items import columns_of, items_of
from millstream.api.sql.parse import read_statement
from millstream.api.sql.reading import filtered, read_from
from millstream.api.sql.refusal import CLAUSE, TABLE, WINDOW
from millstream.api.sql.result import SqlStream
from millstream.api.sql.scope import Relation, relation_of
from millstream.api.sql.shapes import ranking_of
from millstream.api.sql.writing import column, text_of
from millstream.errors import InvalidStep
from millstream.graph.operations.aggregate import Emit
from millstream.graph.operations.rank import Deduplicate
from millstream.graph.operations.rows import Select
from millstream.model.time import DurationLike, duration_ms

if TYPE_CHECKING:
    from millstream.api.job import Job
    from millstream.api.streams.stream import DataStream


def sql_stream(
    job: Job,
    text: str,
    streams: Mapping[str, DataStream],
    *,
    emit: Emit | None,
    allowed_lateness: DurationLike | None,
    id: str | None,
    uid: str | None,
) -> SqlStream:
    """The steps of one statement over named streams."""
    _check_streams(job, streams, id)
    names = _names(job, next(iter(streams.values())), id, uid)
    tree, place = read_statement(text, names.id)
    building = Building(
        job=job,
        place=place,
        streams=streams,
        emit=emit,
        lateness=None if allowed_lateness is None else duration_ms(allowed_lateness, what="allowed_lateness"),
        is_derived=id is None,
    )
    with job._all_or_nothing():
        for named in tree.args["with_"].expressions if tree.args.get("with_") else ():
            building.name_table(named.alias, query(building, named.this, names.child(named.alias)), named)
        made = query(building, tree, names)
        building.check_used(uid)
    return SqlStream(made.stream, made.stateful)


def _check_streams(job: Job, streams: Mapping[str, DataStream], step: str | None) -> None:
    from millstream.api.streams.stream import DataStream

    for name, stream in streams.items():
        if not isinstance(stream, DataStream) or stream._job is not job:
            msg = f"{name!r} is not a stream of this job"
            hint = "pass streams without keys, as in orders=orders"
            raise InvalidStep(msg, code=TABLE, step=step, found=repr(stream), hint=hint)
    if not streams:
        msg = "sql needs the streams that it reads"
        raise InvalidStep(msg, code=TABLE, step=step, hint="job.sql('SELECT ... FROM orders', orders=orders)")


def _names(job: Job, stream: DataStream, given_id: str | None, uid: str | None) -> Names:
    """The id of the statement: as given, or `<input>.sql`, which like other derived ids follows the uid of the input."""
    if given_id is not None:
        return Names(id=given_id, uid=uid)
    derived, from_uid = job._free_id(f"{stream.step}.sql"), f"{stream._node.uid}.sql"
    follows = stream._node.uid != stream.step
    return Names(id=derived, uid=uid or (job._free_id(from_uid) if follows else None))


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
            found = f"{len(first.schema.names)} and {len(other.schema.names)} columns"
            raise place.refuse(CLAUSE, "UNION ALL of different columns", found=found, hint="select as many columns")
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
    relation, where = read_from(building, select, names, roles)
    if "group" in roles:
        relation = filtered(building, relation, where, names.child("where"))
        relation = grouped(building, select, relation, roles["group"])
    else:
        relation = _projected(building, select, relation, where, names, is_stateless=not roles)
    if "distinct" in roles:
        relation = _distinct(building, relation, roles["distinct"])
    return relation


def _roles(select: exp.Select, names: Names) -> dict[str, Names]:
    """The steps of a SELECT that hold state, in their order."""
    found = {
        "join": bool(select.args.get("joins")),
        "rank": ranking_of(select) is not None,
        "group": is_grouped(select),
        "distinct": bool(select.args.get("distinct")),
    }
    roles = [role for role, is_there in found.items() if is_there]
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
    columns = columns_of(items_of(select, relation, place), place)
    is_same = list(columns) == [(name, text_of(column(name), place)) for name in relation.stream.schema.names]
    is_last = is_stateless and is_same and bool(where)
    relation = filtered(building, relation, where, names if is_last else names.child("where"))
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
