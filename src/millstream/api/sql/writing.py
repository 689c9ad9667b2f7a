"""Trees to expression text. The text is read again and must give the same tree, so that nothing changes on the way."""

from __future__ import annotations

from typing import Any

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.tokenizer_core import TokenType

from millstream.api.sql.refusal import CLAUSE, WRITING, Place
from millstream.graph.expressions import reading
from millstream.graph.expressions.refusal import Site, shortened

_BASE: Any = Spark.generator_class
_FOREIGN: tuple[tuple[tuple[type[exp.Expr], ...], str, str], ...] = (
    ((exp.Window,), "OVER", "use GROUP BY window(ts, '10 seconds'), .process(...), or ROW_NUMBER() with WHERE rn <= N"),
    ((exp.Filter, exp.IgnoreNulls, exp.Distinct), "an aggregate's option", "write it behind an aggregate"),
    ((exp.Star,), "*", "name the columns"),
    (
        (exp.Interval,),
        "INTERVAL outside windows and the time bounds of a join",
        "use date_add, or compare unix_millis(...)",
    ),
)
_NAMED_LITERALS = {"DATE": "DATE", "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPNTZ": "TIMESTAMP_NTZ"}


class _ExpressionWriter(_BASE):  # type: ignore[misc]
    """Spark's text, with escapes and literals as our reading takes them."""

    def literal_sql(self, expression: exp.Literal) -> str:
        text = str(expression.this)
        if not expression.args.get("is_string"):
            return text
        return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"

    def cast_sql(self, expression: exp.Cast, safe_prefix: str | None = None) -> str:
        kind = expression.args["to"].this
        name = _NAMED_LITERALS.get(getattr(kind, "value", str(kind)))
        if type(expression) is exp.Cast and name and isinstance(expression.this, exp.Literal):
            return f"{name} {self.sql(expression, 'this')}"
        return str(super().cast_sql(expression, safe_prefix))

    def trim_sql(self, expression: exp.Trim) -> str:
        position = str(expression.args.get("position") or "")
        chars = self.sql(expression, "expression")
        inside = self.sql(expression, "this")
        if not position and not chars:
            return f"TRIM({inside})"
        return f"TRIM({position} {chars} FROM {inside})".replace("  ", " ")


def text_of(node: exp.Expr, place: Place) -> str:
    """The text of an expression whose columns are those of the stream it will be evaluated over.

    Raises:
        InvalidStep: it holds something that has no place in an expression.
    """
    refuse_queries(node, place)
    for inner in node.walk():
        for kinds, words, hint in _FOREIGN:
            if isinstance(inner, kinds):
                raise place.refuse(CLAUSE, f"{words} is not offered here", at=inner, hint=hint)
    plain = node.transform(_without_raw)
    text = str(_ExpressionWriter(dialect=Spark(), comments=False, normalize_functions=False).generate(plain))
    if reading.read(Site(text=text, step=place.step)) != plain:
        problem = f"{shortened(text)!r} cannot be taken out of the statement unchanged"
        raise place.refuse(WRITING, problem, at=node, hint="compute it in with_columns(...) before")
    return text


def refuse_queries(node: exp.Expr, place: Place) -> None:
    """Statements stand in FROM only; the columns of one elsewhere would be taken for those around it."""
    inner = node.find(exp.Query)
    if inner is not None:
        hint = "join the streams with job.sql(...)"
        raise place.refuse(CLAUSE, "a subquery inside an expression is not offered", at=inner, hint=hint)


def _without_raw(node: exp.Expr) -> exp.Expr:
    return exp.Literal.string(node.this) if isinstance(node, exp.RawString) else node


def column(name: str, *fields: str) -> exp.Column:
    """A column of the stream, or a field of it; quoted only where it must be."""
    parts = [exp.to_identifier(part, quoted=not _is_plain(part)) for part in (name, *fields)]
    keys = ("this", "table", "db", "catalog")
    return exp.Column(**dict(zip(keys, reversed(parts), strict=False)))


def _is_plain(name: str) -> bool:
    tokens = Spark().tokenize(name) if name.isidentifier() and name.isascii() else []
    return len(tokens) == 1 and tokens[0].token_type == TokenType.VAR


def conjuncts(node: exp.Expr | None) -> list[exp.Expr]:
    """The conditions that AND connects."""
    if node is None:
        return []
    while isinstance(node, exp.Paren):
        node = node.this
    return [*conjuncts(node.this), *conjuncts(node.expression)] if isinstance(node, exp.And) else [node]


def all_of(nodes: list[exp.Expr]) -> exp.Expr:
    """Conditions connected by AND again, in their order; each in brackets where it needs them."""
    whole, *rest = [exp.Paren(this=node.copy()) if isinstance(node, exp.Or) else node.copy() for node in nodes]
    for node in rest:
        whole = exp.And(this=whole, expression=node)
    return whole
