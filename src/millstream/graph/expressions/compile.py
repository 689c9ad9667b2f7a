"""Syntax tree to typed SQL. Node kinds stand in one table; what is not in it is refused."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from millstream.errors import InvalidSchema
from millstream.graph.expressions import operators, patterns
from millstream.graph.expressions import term as t
from millstream.graph.expressions.casts import cast
from millstream.graph.expressions.catalogue import FUNCTIONS, NOT_DETERMINISTIC
from millstream.graph.expressions.choices import choose
from millstream.graph.expressions.function import Arguments
from millstream.graph.expressions.reading import node_name
from millstream.graph.expressions.refusal import (
    COLUMN,
    CONSTRUCT,
    FUNCTION,
    LIMIT,
    LITERAL,
    TYPE,
    Site,
    nearest_first,
)
from millstream.graph.expressions.refusal import NOT_DETERMINISTIC as REPLAY
from millstream.graph.expressions.term import Term, duckdb_type, identifier, named, quoted
from millstream.model.schema import Schema
from millstream.model.types import parse_type

MAX_SQL = 200_000
"""Checks for zero and the like repeat their argument, so nesting them can make the SQL grow fast."""

MAX_DIRECT = 8
"""Lists up to this long are compared by pyarrow, item by item; longer ones by DuckDB."""

_NUMBER = re.compile(r"(-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(BD|[LSYDF]|)", re.IGNORECASE)
_SIZES = {"L": (t.LONG, 63), "S": (t.SHORT, 15), "Y": (t.BYTE, 7)}


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
        term = _field(c, term, name)
    return term


def _base_column(c: Compiler, name: str, *, is_quoted: bool) -> Term:
    matches = [name] if name in c.schema else [known for known in c.schema.names if known.lower() == name.lower()]
    if not matches and not is_quoted and name.lower() in NOT_DETERMINISTIC:
        raise _replayed(c, name)
    if len(matches) != 1:
        known = nearest_first(name, c.schema.names)
        problem = f"column {name!r} is ambiguous" if matches else f"unknown column {name!r}"
        raise c.site.refuse(COLUMN, problem, known=known, hint="use one of the known columns")
    found = matches[0]
    if any(other != found and other.lower() == found.lower() for other in c.used):
        raise c.site.refuse(COLUMN, f"column {found!r} differs from another only in case", hint="rename one of them")
    c.used[found] = None
    return Term(sql=identifier(found), type=c.schema[found].type, direct=("column", found))


def _field(c: Compiler, term: Term, name: str) -> Term:
    if not t.is_struct(term.type):
        raise c.site.refuse(
            TYPE, f"cannot take field {name!r}", found=named(term.type), hint="only structs have fields"
        )
    names = [field.name for field in term.type]
    matches = [known for known in names if known.lower() == name.lower()]
    if len(matches) != 1:
        known = nearest_first(name, names)
        raise c.site.refuse(COLUMN, f"unknown field {name!r}", known=known, hint="use one of the known fields")
    kind = term.type.field(names.index(matches[0])).type
    return Term(sql=f"struct_extract({term.sql}, {quoted(matches[0])})", type=kind, may_raise=term.may_raise)


def _dot(c: Compiler, node: exp.Expr) -> Term:
    if not isinstance(node.expression, exp.Identifier) or isinstance(node.this, exp.Identifier):
        raise c.refused(node)
    return _field(c, c.term(node.this), node.expression.name)


def _bracket(c: Compiler, node: exp.Expr) -> Term:
    if len(node.expressions) != 1:
        raise c.refused(node)
    base, key = c.term(node.this), c.term(node.expressions[0])
    raises = base.may_raise or key.may_raise
    if t.is_list(base.type):
        index = Arguments("[ ]", [key], c.site).integer(0)
        outside = f"{index} < 0 OR {index} >= len({base.sql})"
        sql = f"CASE WHEN {outside} THEN error('array index out of range') ELSE {base.sql}[{index} + 1] END"
        return Term(sql=sql, type=base.type.value_type, may_raise=True)
    if t.is_map(base.type) and key.type == base.type.key_type:
        return Term(sql=f"{base.sql}[{key.sql}]", type=base.type.item_type, may_raise=raises)
    found = f"{named(base.type)} with {named(key.type)}"
    raise c.site.refuse(TYPE, "[ ] needs an array and an int, or a map and its key", found=found)


def _literal(c: Compiler, node: exp.Expr) -> Term:
    text = str(node.this)
    if node.args.get("is_string"):
        return _typed(text, quoted(text), t.STRING)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise c.site.refuse(LITERAL, "not a number", found=repr(text), hint="write 1, 1L, 1.5, 1.5D or 1e3")
    digits, suffix = match.group(1), match.group(2).upper()
    if suffix in {"D", "F"} or (not suffix and "e" in digits.lower()):
        kind = t.FLOAT if suffix == "F" else t.DOUBLE
        return _typed(float(digits), f"CAST({quoted(digits)} AS {duckdb_type(kind)})", kind)
    if suffix == "BD" or (not suffix and "." in digits):
        return _decimal(c, Decimal(f"{Decimal(digits):f}"))
    return _integer(c, digits, suffix)


def _integer(c: Compiler, digits: str, suffix: str) -> Term:
    sizes = [_SIZES[suffix]] if suffix else [(t.INT, 31), (t.LONG, 63)]
    if not digits.lstrip("-").isdigit():
        raise c.site.refuse(LITERAL, f"suffix {suffix} needs a whole number", found=digits, hint="use D for a double")
    value = int(digits)
    for kind, bits in sizes:
        if -(2**bits) <= value < 2**bits:
            return _typed(value, f"CAST({value} AS {duckdb_type(kind)})", kind)
    if suffix:
        raise c.site.refuse(LITERAL, f"number is too large for {suffix}", found=digits, hint="use a larger type")
    return _decimal(c, Decimal(value))


def _decimal(c: Compiler, value: Decimal) -> Term:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "decimal literals are finite"
    scale = max(-exponent, 0)
    precision = max(len(digits), scale)
    if precision > t.MAX_PRECISION:
        raise c.site.refuse(LITERAL, "number has more than 38 digits", found=value, hint="write it with an exponent")
    kind = pa.decimal128(precision, scale)
    return Term(sql=f"CAST('{value:f}' AS {duckdb_type(kind)})", type=kind, value=value, is_literal=True)


def _typed(value: Any, sql: str, kind: pa.DataType) -> Term:
    return Term(sql=sql, type=kind, value=value, is_literal=True, direct=("literal", value, kind))


def _boolean(c: Compiler, node: exp.Expr) -> Term:
    del c
    return _typed(bool(node.this), "true" if node.this else "false", t.BOOLEAN)


def _null(c: Compiler, node: exp.Expr) -> Term:
    del c, node
    return Term(sql="NULL", type=t.VOID, is_literal=True)


def _raw(c: Compiler, node: exp.Expr) -> Term:
    del c
    return _typed(str(node.this), quoted(str(node.this)), t.STRING)


def _negated(c: Compiler, node: exp.Expr) -> Term:
    inner = node.this
    if isinstance(inner, exp.Literal) and not inner.args.get("is_string"):
        return _literal(c, exp.Literal(this="-" + str(inner.this), is_string=False))
    return operators.negate(c.term(inner), c.site)


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
    exp.Literal: _literal, exp.Boolean: _boolean, exp.Null: _null, exp.RawString: _raw,
    exp.Neg: _negated, exp.Add: _arithmetic("+"), exp.Sub: _arithmetic("-"), exp.Mul: _arithmetic("*"),
    exp.Div: _arithmetic("/"), exp.Mod: _arithmetic("%"), exp.IntDiv: _arithmetic("div"), exp.DPipe: _joined,
    exp.EQ: _comparison("="), exp.NEQ: _comparison("<>"), exp.LT: _comparison("<"), exp.LTE: _comparison("<="),
    exp.GT: _comparison(">"), exp.GTE: _comparison(">="), exp.NullSafeEQ: _binary(operators.same),
    exp.NullSafeNEQ: _comparison("IS DISTINCT FROM"), exp.And: _binary(operators.both),
    exp.Or: _binary(operators.either),
    exp.Not: lambda c, node: operators.invert(c.term(node.this), c.site), exp.Is: _is, exp.In: _in,
    exp.Between: _between, exp.Like: _like, exp.ILike: _like, exp.Escape: _escaped, exp.RegexpLike: _rlike,
    exp.Case: _case, exp.Cast: _cast, exp.TryCast: _cast, exp.Trim: _trim, exp.Anonymous: _call,
}  # fmt: skip
