"""Shapes of statements that mean one step: a ranking around ROW_NUMBER(), and a table of windows."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from millstream.api.sql.parse import WINDOW_TABLES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RankingShape:
    """`SELECT … FROM (SELECT …, ROW_NUMBER() OVER (…) AS rn FROM …) WHERE rn <= N`."""

    inner: exp.Select
    over: exp.Window
    rank: str | None
    """The name of the rank; without one the shape is refused later."""
    table: str


def ranking_of(select: exp.Select) -> RankingShape | None:
    """The ranking that a SELECT reads, if it reads one."""
    source = select.args.get("from_")
    subquery = None if source is None else source.this
    if not isinstance(subquery, exp.Subquery) or not isinstance(subquery.this, exp.Select):
        return None
    for node in subquery.this.expressions:
        inner = node.this if isinstance(node, exp.Alias) else node
        if isinstance(inner, exp.Window):
            return RankingShape(inner=subquery.this, over=inner, rank=node.alias or None, table=subquery.alias)
    return None


def window_call(node: exp.Expr) -> exp.Anonymous | None:
    """The call of `TUMBLE(...)` in FROM, also where it stands in `(SELECT * FROM TUMBLE(...))`."""
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Select):
        inner = node.this
        said = {key for key, value in inner.args.items() if value}
        is_plain = said == {"expressions", "from_"} and [type(each) for each in inner.expressions] == [exp.Star]
        return (
            window_call(inner.args["from_"].this) if is_plain and not inner.expressions[0].args.get("except_") else None
        )
    call = node.this if isinstance(node, exp.Table) else None
    is_window = isinstance(call, exp.Anonymous) and str(call.this).upper() in WINDOW_TABLES
    return call if is_window and isinstance(call, exp.Anonymous) else None
