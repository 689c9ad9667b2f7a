"""Syntax tree to typed SQL. Node kinds stand in one table; what is not in it is refused."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from sqlglot import exp

from millstream.errors import InvalidSchema
from millstream.graph.expressions import literals, operators, patterns
from millstream.graph.expressions import term as t
from millstream.graph.expressions.access import field_of, item_of
from millstream.graph.expressions.casts import cast
from millstream.graph.expressions.catalogue import FUNCTIONS, NOT_DETERMINISTIC
from millstream.graph.expressions.choices import choose
from millstream.graph.expressions.expression import Expression
from millstream.graph.expressions.function import Arguments
from millstream.graph.expressions.reading import node_name
from millstream.graph.expressions.refusal import (
    COLUMN,
    CONSTRUCT,
    FUNCTION,
    LIMIT,
    LITERAL,
    TYPE,
    UNTYPED,
    Site,
    nearest_first,
)
from millstream.graph.expressions.refusal import NOT_DETERMINISTIC as REPLAY
from millstream.graph.expressions.term import Term, identifier, quoted
from millstream.model.schema import Schema
from millstream.model.types import parse_type

MAX_SQL = 200_000
"""Checks for zero and the like repeat their argument, so nesting them can make the SQL grow fast."""

MAX_DIRECT = 8
"""Lists up to this long are compared by pyarrow, item by item; longer ones by DuckDB."""


@dataclasses.dataclass(frozen=True, slots=True)
class Compiler:
    """Turns nodes into terms and remembers which columns were used."""

    schema: Schema
    site: Site
    used: dict[str, None] = dataclasses.field(default_factory=dict)

    def term(self, node: exp.Expr) -> Term:
        """The typed SQL of a node."""
        build = _NODES.get(type(node))
        if build is None:
            raise self.refused(node)
        term = build(self, node)
        if len(term.sql) > MAX_SQL:
            raise self.site.refuse(LIMIT, "is too complex", hint="compute parts of it in an earlier step")
        return term

    def expression(self, node: exp.Expr) -> Expression:
        """The expression of a whole tree, which must have a type."""
        term = self.term(node)
        if term.type == t.VOID:
            hint = "write CAST(NULL AS string) or another type"
            raise self.site.refuse(UNTYPED, "is null without a type", hint=hint)
        return self.made(term)

    def made(self, term: Term) -> Expression:
        """A term with the columns that were used so far."""
        columns = tuple(self.used)
        return Expression(text=self.site.text, sql=term.sql, columns=columns, type=term.type, direct=term.direct)

    def refused(self, node: exp.Expr) -> Exception:
        """The refusal of a node that has no place in an expression."""
        hint = _HINTS.get(type(node), "use operators, CASE, CAST and the documented functions")
        return self.site.refuse(CONSTRUCT, "this construct is not allowed", found=node_name(node), hint=hint)


_HINTS: dict[type[exp.Expr], str] = {
    exp.Star: "name the columns",
    exp.Window: "use .key_by(...).window(...)",
    exp.Subquery: "join streams instead",
    exp.Select: "join streams instead",
    exp.Lambda: "use a Python step",
    exp.Alias: "name the column in the step, not in the expression",
    exp.Interval: "use date_add, or compare with timestamp_millis(...)",
}


def _column(c: Compiler, node: exp.Expr) -> Term:
    parts = [part for part in (node.args.get(key) for key in ("catalog", "db", "table", "this")) if part is not None]
    if any(not isinstance(part, exp.Identifier) for part in parts):
        raise c.refused(node.this)
    names = [part.name for part in parts]
    term = _base_column(c, names[0], is_quoted=bool(parts[0].args.get("quoted")))
    for name in names[1:]:
        term = field_of(term, name, c.site)
    return term


def _base_column(c: Compiler, name: str, *, is_quoted: bool) -> Term:
    matches = [name] if name in c.schema else [known for known in c.schema.names if known.lower() == name.lower()]
    if not matches and not is_quoted and name.lower() in NOT_DETERMINISTIC:
        raise _replayed(c, name)
    if len(matches) != 1:
        known = nearest_first(name, c.schema.names)
        problem = f"column {name!r} is ambiguous" if matches else f"unknown column {name!r}"
        raise c.site.refuse(COLUMN, problem, known=known, hint="use one of the known columns")
    (column,) = matches
    if any(other != column and other.lower() == column.lower() for other in c.used):
        raise c.site.refuse(COLUMN, f"column {column!r} differs from another only in case", hint="rename one of them")
    c.used[column] = None
    return Term(sql=identifier(column), type=c.schema[column].type, direct=("column", column))


def _dot(c: Compiler, node: exp.Expr) -> Term:
    if not isinstance(node.expression, exp.Identifier) or isinstance(node.this, exp.Identifier):
        raise c.refused(node)
    return field_of(c.term(node.this), node.expression.name, c.site)


def _bracket(c: Compiler, node: exp.Expr) -> Term:
    if len(node.expressions) != 1:
        raise c.refused(node)
    return item_of(c.term(node.this), c.term(node.expressions[0]), c.site)


def _negated(c: Compiler, node: exp.Expr) -> Term:
    number = literals.negative(node.this, c.site)
    return operators.negate(c.term(node.this), c.site) if number is None else number


def _binary(build: operators.Binary) -> Callable[[Compiler, exp.Expr], Term]:
    def compiled(c: Compiler, node: exp.Expr) -> Term:
        _check_order(c, node)
        return build(c.term(node.this), c.term(node.expression), c.site)

    return compiled


def _check_order(c: Compiler, node: exp.Expr) -> None:
    """Refuse operators side by side that Spark and sqlglot group differently; brackets make them plain."""
    for outer, inner in _UNCLEAR:
        if isinstance(node, outer) and (isinstance(node.this, inner) or isinstance(node.expression, inner)):
            raise c.site.refuse(CONSTRUCT, "the order of operators is unclear", hint="put brackets around one of them")


def _arithmetic(symbol: str) -> Callable[[Compiler, exp.Expr], Term]:
    return _binary(lambda left, right, site: operators.arithmetic(symbol, left, right, site))


def _comparison(symbol: str) -> Callable[[Compiler, exp.Expr], Term]:
    return _binary(lambda left, right, site: operators.compare(symbol, left, right, site))


def _is(c: Compiler, node: exp.Expr) -> Term:
    side, what = c.term(node.this), node.expression
    if isinstance(what, exp.Null):
        return operators.is_null(side)
    if isinstance(what, exp.Boolean):
        side = operators.boolean(side, "IS", c.site)
        return dataclasses.replace(operators.same(side, c.term(what), c.site), direct=None)
    raise c.refused(node)


def _in(c: Compiler, node: exp.Expr) -> Term:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field") or not node.expressions:
        raise c.site.refuse(CONSTRUCT, "IN needs a list of values", hint="write x IN (1, 2, 3)")
    side, items = c.term(node.this), [c.term(item) for item in node.expressions]
    tests = [operators.compare("=", side, item, c.site) for item in items]
    if any(item.may_raise for item in items):
        raise c.site.refuse(CONSTRUCT, "IN takes literals and columns", hint="write the comparisons with OR")
    sql = "(" + " OR ".join(test.sql for test in tests) + ")"
    direct = functools.reduce(lambda form, more: ("or_kleene", form, more), [test.direct for test in tests])
    is_direct = len(tests) <= MAX_DIRECT and all(test.direct is not None for test in tests)
    return Term(sql=sql, type=t.BOOLEAN, may_raise=side.may_raise, direct=direct if is_direct else None)


def _between(c: Compiler, node: exp.Expr) -> Term:
    if node.args.get("symmetric"):
        raise c.refused(node)
    side, low, high = c.term(node.this), c.term(node.args["low"]), c.term(node.args["high"])
    above, below = operators.compare(">=", side, low, c.site), operators.compare("<=", side, high, c.site)
    return operators.both(above, below, c.site)


def _like(c: Compiler, node: exp.Expr, escape: str = "\\") -> Term:
    pattern = c.term(node.expression) if not isinstance(node.expression, (exp.All, exp.Any)) else None
    if pattern is None or not (pattern.is_literal and pattern.type == t.STRING):
        raise c.site.refuse(LITERAL, "LIKE needs a pattern written as a literal", hint="use contains or startswith")
    side = c.term(node.this)
    text, sql = pattern.value, Arguments("LIKE", [side], c.site).string(0)
    if isinstance(node, exp.ILike):
        text, sql = text.lower(), f"ms_lower({sql})"
    term = Term(sql=f"({sql} LIKE {patterns.like(text, escape, c.site)})", type=t.BOOLEAN, may_raise=side.may_raise)
    return operators.invert(term, c.site) if node.args.get("negate") else term


def _escaped(c: Compiler, node: exp.Expr) -> Term:
    inner, escape = node.this, node.expression
    if not isinstance(inner, (exp.Like, exp.ILike)) or not isinstance(escape, exp.Literal):
        raise c.refused(node)
    return _like(c, inner, str(escape.this))


def _rlike(c: Compiler, node: exp.Expr) -> Term:
    arguments = Arguments("RLIKE", [c.term(node.this), c.term(node.expression)], c.site)
    pattern = patterns.regex(arguments.literal(1, str, "a pattern"), c.site)
    term = arguments.result(f"regexp_matches({arguments.string(0)}, {quoted(pattern)})", t.BOOLEAN)
    return operators.invert(term, c.site) if node.args.get("negate") else term


def _case(c: Compiler, node: exp.Expr) -> Term:
    subject = c.term(node.this) if node.this is not None else None
    branches = []
    for arm in node.args["ifs"]:
        test = c.term(arm.this)
        test = (
            operators.boolean(test, "WHEN", c.site)
            if subject is None
            else operators.compare("=", subject, test, c.site)
        )
        branches.append((test, c.term(arm.args["true"])))
    default = c.term(node.args["default"]) if node.args.get("default") is not None else None
    return choose(branches, default, Arguments("CASE", [], c.site))


def _cast(c: Compiler, node: exp.Expr) -> Term:
    if node.args.get("format") or node.args.get("action") or node.args.get("default"):
        raise c.refused(node)
    text = node.args["to"].sql("spark")
    try:
        target = parse_type(text)
    except InvalidSchema as problem:
        raise c.site.refuse(TYPE, "unknown type in CAST", found=text, known=problem.known) from None
    source = c.term(node.this)
    return cast(source, target, c.site, is_try=bool(node.args.get("safe")))


def _trim(c: Compiler, node: exp.Expr) -> Term:
    position = str(node.args.get("position") or "BOTH").upper()
    name = {"BOTH": "trim", "LEADING": "ltrim", "TRAILING": "rtrim"}[position]
    arguments = Arguments("trim", [c.term(node.this)], c.site)
    if node.expression is None:
        return FUNCTIONS[name].build(arguments)
    chars = Arguments("trim", [c.term(node.expression)], c.site).literal(0, str, "a string of characters")
    return arguments.result(f"{name}({arguments.string(0)}, {quoted(chars)})", t.STRING)


def _call(c: Compiler, node: exp.Expr) -> Term:
    name = str(node.this).lower()
    if name in NOT_DETERMINISTIC:
        raise _replayed(c, name)
    function = FUNCTIONS.get(name)
    if function is None:
        known = nearest_first(name, FUNCTIONS)
        raise c.site.refuse(
            FUNCTION, f"unknown function {name!r}", known=known, hint="use a known function or a Python step"
        )
    arguments = Arguments(name, [c.term(argument) for argument in node.expressions], c.site)
    return function.build(arguments.counted(function))


def _replayed(c: Compiler, name: str) -> Exception:
    problem = f"{name!r} gives another answer when an epoch is replayed"
    return c.site.refuse(REPLAY, problem, hint="time comes from the epoch; use a Python step")


def _joined(c: Compiler, node: exp.Expr) -> Term:
    _check_order(c, node)
    return FUNCTIONS["concat"].build(Arguments("||", [c.term(node.this), c.term(node.expression)], c.site))


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_TESTS = (exp.In, exp.Between, exp.Like, exp.ILike, exp.Escape, exp.RegexpLike, exp.Is, exp.Not)
_UNCLEAR: tuple[tuple[tuple[type[exp.Expr], ...], tuple[type[exp.Expr], ...]], ...] = (
    (_COMPARISONS, (*_COMPARISONS, *_TESTS)),
    ((exp.DPipe,), (exp.Add, exp.Sub)),
    ((exp.Add, exp.Sub), (exp.DPipe,)),
)

_NODES: dict[type[exp.Expr], Callable[[Compiler, Any], Term]] = {
    exp.Column: _column, exp.Dot: _dot, exp.Bracket: _bracket, exp.Paren: lambda c, node: c.term(node.this),
    exp.Literal: lambda c, node: literals.literal(node, c.site), exp.Boolean: lambda _, node: literals.boolean(node),
    exp.Null: lambda _, __: literals.null(), exp.RawString: lambda _, node: literals.raw_string(node),
    exp.Neg: _negated, exp.Add: _arithmetic("+"), exp.Sub: _arithmetic("-"), exp.Mul: _arithmetic("*"),
    exp.Div: _arithmetic("/"), exp.Mod: _arithmetic("%"), exp.IntDiv: _arithmetic("div"), exp.DPipe: _joined,
    exp.EQ: _comparison("="), exp.NEQ: _comparison("<>"), exp.LT: _comparison("<"), exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"), exp.GTE: _comparison(">="), exp.NullSafeEQ: _binary(operators.same),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"), exp.And: _binary(operators.both),
    exp.Or: _binary(operators.either),
    exp.Not: lambda c, node: operators.invert(c.term(node.this), c.site), exp.Is: _is, exp.In: _in,
    exp.Between: _between, exp.Like: _like, exp.ILike: _like, exp.Escape: _escaped, exp.RegexpLike: _rlike,
    exp.Case: _case, exp.Cast: _cast, exp.TryCast: _cast, exp.Trim: _trim, exp.Anonymous: _call,
    exp.Placeholder: lambda c, node: literals.parameter(node, c.site),
}  # fmt: skip
