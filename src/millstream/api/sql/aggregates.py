"""Aggregate calls of a statement, as the aggregates that steps take."""

from __future__ import annotations

from sqlglot import exp

from millstream.api.sql.refusal import GROUPING, Place
from millstream.api.sql.writing import text_of
from millstream.graph.operations.aggregate import Aggregate
from millstream.model.schema import Schema

KINDS = {
    "count": "count", "sum": "sum", "avg": "avg", "mean": "avg", "min": "min", "max": "max",
    "first": "first", "first_value": "first", "last": "last", "last_value": "last",
}  # fmt: skip
KNOWN = "COUNT, SUM, AVG, MIN, MAX, FIRST, LAST; COUNT(DISTINCT x); FILTER (WHERE ...)"


def call_of(node: exp.Expr) -> exp.Anonymous | None:
    """The call inside `SUM(x) FILTER (WHERE ...)`, if a node is an aggregate at all."""
    while isinstance(node, (exp.Filter, exp.IgnoreNulls)):
        node = node.this
    is_known = isinstance(node, exp.Anonymous) and str(node.this).lower() in KINDS
    return node if is_known and isinstance(node, exp.Anonymous) else None


def first_call(node: exp.Expr) -> exp.Expr | None:
    """An aggregate anywhere in an expression, but not in OVER or a subquery."""
    for each in node.walk(prune=lambda inner: isinstance(inner, (exp.Window, exp.Query)) and inner is not node):
        if not isinstance(each, exp.Window) and call_of(each) is not None:
            if isinstance(each.parent, exp.Window) and each.arg_key == "this":
                continue
            return each
    return None


def aggregate_of(node: exp.Expr, rows: Schema, place: Place) -> Aggregate:
    """An aggregate over the columns of the rows."""
    call = call_of(node)
    assert call is not None, "only aggregates are asked for"
    kind = KINDS[str(call.this).lower()]
    where, ignores_nulls = _options(node)
    of, is_distinct = _argument(call, kind, place)
    if is_distinct:
        kind = "count_distinct"
    if kind in {"first", "last"}:
        of = _of_values(call, of, rows, place, ignores_nulls=ignores_nulls)
    elif ignores_nulls:
        msg = f"IGNORE NULLS has no place behind {kind.upper()}"
        raise _refuse(msg, call, place, "remove it")
    for inner in (of, where):
        if inner is not None and first_call(inner) is not None:
            msg = "an aggregate stands inside another"
            raise _refuse(msg, call, place, "compute the inner one in FROM (SELECT ...)")
    return Aggregate(
        kind=kind,
        of=None if of is None else text_of(of, place),
        where=None if where is None else text_of(where, place),
    )


def _options(node: exp.Expr) -> tuple[exp.Expr | None, bool]:
    """The condition of FILTER, and whether IGNORE NULLS is said."""
    where, ignores_nulls = None, False
    while isinstance(node, (exp.Filter, exp.IgnoreNulls)):
        if isinstance(node, exp.Filter):
            where = node.expression.this
        else:
            ignores_nulls = True
        node = node.this
    return where, ignores_nulls


def _argument(call: exp.Anonymous, kind: str, place: Place) -> tuple[exp.Expr | None, bool]:
    """What is aggregated, nothing for rows as such; and whether equal values count once."""
    arguments = list(call.expressions)
    most = 2 if kind in {"first", "last"} else 1
    if not 1 <= len(arguments) <= most:
        msg = f"{call.this} takes one argument"
        raise _refuse(msg, call, place, f"write {call.this}(x)")
    of = arguments[0]
    if isinstance(of, exp.Distinct):
        if kind != "count" or len(of.expressions) != 1:
            hint = "only COUNT(DISTINCT x) is offered; select DISTINCT rows in a step before"
            msg = "DISTINCT has no place here"
            raise _refuse(msg, call, place, hint)
        return of.expressions[0], True
    if kind == "count" and isinstance(of, (exp.Star, exp.Literal)):
        return None, False
    return of, False


def _of_values(
    call: exp.Anonymous, of: exp.Expr | None, rows: Schema, place: Place, *, ignores_nulls: bool
) -> exp.Expr | None:
    """FIRST and LAST skip nulls, which must be said where there may be some: in Spark they do not by default."""
    if len(call.expressions) == 2:
        flag = call.expressions[1]
        ignores_nulls = ignores_nulls or (isinstance(flag, exp.Boolean) and bool(flag.this))
    is_never_null = isinstance(of, exp.Column) and of.name in rows and not rows[of.name].nullable
    if not ignores_nulls and not is_never_null:
        hint = f"write {call.sql('spark')} IGNORE NULLS: the {str(call.this).lower()} value that is not null"
        msg = f"{call.this} takes values that are not null only"
        raise _refuse(msg, call, place, hint)
    return of


def _refuse(problem: str, at: exp.Expr, place: Place, hint: str) -> Exception:
    return place.refuse(GROUPING, problem, at=at, known=KNOWN, hint=hint)
