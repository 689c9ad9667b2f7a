"""The clauses a statement may have, as a list: whatever sqlglot found beside them is refused, so nothing is ignored."""

from __future__ import annotations

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from millstream.api.sql.refusal import CLAUSE, Place
from millstream.graph.expressions.reading import node_name

_OFFERED: dict[type[exp.Expr], frozenset[str]] = {
    node: frozenset(names.split())
    for node, names in {
        exp.Select: "expressions from_ where group having distinct joins hint with_",
        exp.Union: "this expression distinct with_",
        exp.With: "expressions",
        exp.CTE: "this alias",
        exp.Subquery: "this alias",
        exp.From: "this",
        exp.Table: "this alias version",
        exp.Version: "this expression kind",
        exp.TableAlias: "this",
        exp.Join: "this side kind on using",
        exp.Where: "this",
        exp.Group: "expressions",
        exp.Having: "this",
        exp.Distinct: "expressions",
        exp.Star: "except_",
        exp.Alias: "this alias",
        exp.Column: "this table db catalog",
        exp.Filter: "this expression",
        exp.IgnoreNulls: "this",
        exp.Window: "this partition_by order over",
        exp.Order: "expressions",
        exp.Ordered: "this desc nulls_first",
        exp.Interval: "this unit",
        exp.Anonymous: "this expressions",
        exp.In: "this expressions",
    }.items()
}
"""Hints to an optimiser (`hint`) say nothing about the result."""
_REFUSED: dict[type[exp.Expr], tuple[str, str]] = {
    exp.Exists: ("a subquery in EXISTS", "join the streams with job.sql(...)"),
    exp.GroupingSets: ("GROUPING SETS", "write one sql step for each grouping"),
    exp.Rollup: ("ROLLUP", "write one sql step for each grouping"),
    exp.Cube: ("CUBE", "write one sql step for each grouping"),
    exp.Aliases: ("several names for one column", "write expression AS name"),
    exp.Lateral: ("LATERAL VIEW", "use .flat_map(...) before the statement"),
    exp.Values: ("VALUES", "use ms.memory([...]) as a source, or .lookup(...)"),
    exp.Intersect: ("INTERSECT", "join the streams with job.sql(...)"),
    exp.Except: ("EXCEPT", "use .key_by(...).connect(...).process(...)"),
    exp.Pivot: ("PIVOT", "write an aggregate with FILTER (WHERE ...) for each column"),
    exp.Unnest: ("UNNEST", "use .flat_map(...) before the statement"),
}
_ORDER = "an order over an endless stream: write ROW_NUMBER() OVER (...) AS rn and WHERE rn <= N around it"
_HINTS: dict[str, tuple[str, TokenType | None, str]] = {
    "order": ("ORDER BY", TokenType.ORDER_BY, _ORDER),
    "sort": ("SORT BY", TokenType.SORT_BY, _ORDER),
    "cluster": ("CLUSTER BY", TokenType.CLUSTER_BY, "use .key_by(...)"),
    "distribute": ("DISTRIBUTE BY", TokenType.DISTRIBUTE_BY, "use .key_by(...)"),
    "limit": ("LIMIT", TokenType.LIMIT, _ORDER),
    "offset": ("OFFSET", TokenType.OFFSET, _ORDER),
    "recursive": ("WITH RECURSIVE", TokenType.WITH, "use .key_by(...).process(...)"),
    "qualify": ("QUALIFY", TokenType.QUALIFY, "write ROW_NUMBER() in FROM (SELECT ...) and WHERE rn <= N around it"),
    "windows": ("WINDOW", TokenType.WINDOW, "GROUP BY window(ts, '10 seconds'), or FROM TUMBLE(...)"),
    "laterals": ("LATERAL VIEW", TokenType.LATERAL, "use .flat_map(...) before the statement"),
    "sample": ("TABLESAMPLE", TokenType.TABLE_SAMPLE, "filter by a column"),
    "pivots": ("PIVOT", TokenType.PIVOT, "write an aggregate with FILTER (WHERE ...) for each column"),
    "rollup": ("ROLLUP", TokenType.ROLLUP, "write one sql step for each grouping"),
    "cube": ("CUBE", TokenType.CUBE, "write one sql step for each grouping"),
    "grouping_sets": ("GROUPING SETS", TokenType.GROUPING_SETS, "write one sql step for each grouping"),
    "all": ("GROUP BY ALL", TokenType.ALL, "name the columns"),
    "method": ("this kind of JOIN", TokenType.JOIN, "write JOIN ... ON"),
    "spec": ("a frame of rows", None, "ROW_NUMBER() takes PARTITION BY and ORDER BY only"),
    "columns": ("an alias with columns", None, "name the columns in the SELECT list"),
    "replace": ("* REPLACE", TokenType.REPLACE, "write * EXCEPT (x), expression AS x"),
    "rename": ("* RENAME", None, "write * EXCEPT (x), x AS y"),
    "db": ("a name with dots", None, "use the names that are given with sql(...)"),
    "catalog": ("a name with dots", None, "use the names that are given with sql(...)"),
    "query": ("a subquery in IN", TokenType.IN, "join the streams with job.sql(...)"),
    "on": ("DISTINCT ON", TokenType.DISTINCT, "use ROW_NUMBER() OVER (PARTITION BY ...) and WHERE rn = 1"),
    "into": ("INTO", TokenType.INTO, "use .sink(...)"),
}


def check_clauses(tree: exp.Expr, place: Place) -> None:
    """Refuse every clause that is not in the list.

    Raises:
        InvalidStep: names the clause, where it stands, and what would work.
    """
    for node in tree.walk():
        if type(node) in _REFUSED:
            words, hint = _REFUSED[type(node)]
            raise place.refuse(CLAUSE, f"{words} is not offered", at=node, hint=hint)
        offered = _OFFERED.get(type(node))
        if offered is None:
            if isinstance(node, exp.Query):
                raise place.refuse(CLAUSE, f"{node_name(node)} is not offered", at=node, hint="write a SELECT")
            continue
        for name, value in node.args.items():
            if name not in offered and value not in (None, False, []):
                words, keyword, hint = _HINTS.get(
                    name, (f"{name.strip('_')!r} of {node_name(node)}", None, "remove it")
                )
                raise place.refuse(CLAUSE, f"{words} is not offered", at=keyword or node, hint=hint)
