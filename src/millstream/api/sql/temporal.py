"""Joins with the version that was valid: `JOIN rates FOR SYSTEM_TIME AS OF o.ts AS r ON o.currency = r.currency`."""

from __future__ import annotations

from sqlglot import exp

from millstream.api.sql.conditions import JoinConditions
from millstream.api.sql.refusal import EVENT_TIME, JOIN, Place
from millstream.api.sql.relation import Relation, resolved
from millstream.graph.operations.join import How, TemporalJoin

_FORM = "JOIN versions FOR SYSTEM_TIME AS OF l.ts AS r ON l.key = r.key"


def version_of(join: exp.Join, place: Place) -> exp.Expr | None:
    """The instant at which versions are taken, if a join names one."""
    version = join.this.args.get("version")
    if version is None:
        return None
    said = f"{version.this} {version.args.get('kind')}".upper()
    if said != "TIMESTAMP AS OF" or not isinstance(version.expression, exp.Column):
        raise place.refuse(JOIN, "versions are taken at the event time of the left side", at=join, known=_FORM)
    instant: exp.Expr = version.expression
    return instant


def temporal_operation(
    instant: exp.Expr, conditions: JoinConditions, how: How, prefix: str | None, relation: Relation
) -> TemporalJoin:
    """The step of a join with versions; it takes equal keys only."""
    place = conditions.place
    if how not in {"inner", "left"}:
        raise place.refuse(JOIN, f"a {how} join with versions", known="JOIN, LEFT JOIN", hint=_FORM)
    if conditions.rest or conditions.lower is not None:
        hint = "write other conditions in WHERE, which comes behind the join"
        raise place.refuse(JOIN, "a join with versions takes equal keys only", at=instant, known=_FORM, hint=hint)
    if not conditions.keys:
        raise place.refuse(JOIN, "a join without an equality of both sides", at=instant, hint=_FORM)
    name = resolved(instant, relation, place).name
    known = conditions.sides.times & conditions.sides.left
    if name not in known:
        problem = f"{name!r} is not the event time of the left side"
        hint = f"call .event_time({name!r}) on the stream before"
        raise place.refuse(EVENT_TIME, problem, at=instant, known=sorted(known), hint=hint)
    return TemporalJoin(how="left" if how == "left" else "inner", prefix=prefix)
