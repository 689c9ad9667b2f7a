"""Functions of numbers."""

from __future__ import annotations

import functools

import pyarrow as pa

from millstream.graph.expressions import term as t
from millstream.graph.expressions.casts import widen
from millstream.graph.expressions.function import UNLIMITED, Arguments, Function
from millstream.graph.expressions.operators import arithmetic
from millstream.graph.expressions.refusal import LITERAL, TYPE
from millstream.graph.expressions.term import Term, common_type, duckdb_type, named

MAX_PLACES = 15


def _abs(a: Arguments) -> Term:
    number = a.number(0)
    return a.result(f"CAST(abs({number.sql}) AS {duckdb_type(number.type)})", number.type, may_raise=True)


def _round(a: Arguments) -> Term:
    number = a.number(0)
    places = a.literal(1, int, "a number of places") if len(a) == 2 else 0
    if not 0 <= places <= MAX_PLACES:
        raise a.site.refuse(
            LITERAL, f"round takes 0 to {MAX_PLACES} places", found=places, hint="divide first, then round"
        )
    if t.is_integral(number.type):
        return number
    if number.type == t.DOUBLE:
        return a.result(f"ms_round({number.sql}, {places})", t.DOUBLE)
    if not t.is_decimal(number.type):
        raise a.site.refuse(TYPE, "round cannot take a float", hint="convert it with CAST(... AS double)")
    scale = min(places, number.type.scale)
    kind = pa.decimal128(min(number.type.precision - number.type.scale + 1 + scale, t.MAX_PRECISION), scale)
    return a.result(f"CAST({number.sql} AS {duckdb_type(kind)})", kind, may_raise=True)


def _whole(function: str, doc: str) -> Function:
    def build(a: Arguments) -> Term:
        number = a.number(0)
        if t.is_integral(number.type):
            return widen(number, t.LONG)
        if t.is_decimal(number.type):
            digits = min(number.type.precision - number.type.scale + 1, t.MAX_PRECISION)
            kind = pa.decimal128(digits, 0)
            return a.result(f"CAST({function}({number.sql}) AS {duckdb_type(kind)})", kind)
        value = f"{function}({widen(number, t.DOUBLE).sql})"
        return a.result(f"CASE WHEN isnan({value}) THEN 0 ELSE CAST({value} AS BIGINT) END", t.LONG, may_raise=True)

    return Function(usage=f"{function}(x)", doc=doc, build=build)


def _sqrt(a: Arguments) -> Term:
    value = a.double(0)
    return a.result(f"CASE WHEN {value} < 0 THEN 'nan'::DOUBLE ELSE sqrt({value}) END", t.DOUBLE)


def _exp(a: Arguments) -> Term:
    return a.result(f"exp({a.double(0)})", t.DOUBLE)


def _logarithm(function: str, doc: str) -> Function:
    def build(a: Arguments) -> Term:
        value = a.double(0)
        return a.result(f"CASE WHEN {value} <= 0 THEN NULL ELSE {function}({value}) END", t.DOUBLE)

    return Function(usage=f"{function}(x)", doc=doc, build=build)


def _pow(a: Arguments) -> Term:
    return a.result(f"pow({a.double(0)}, {a.double(1)})", t.DOUBLE)


def _sign(a: Arguments) -> Term:
    value = a.double(0)
    sql = f"CASE WHEN isnan({value}) OR {value} = 0 THEN {value} ELSE CAST(sign({value}) AS DOUBLE) END"
    return a.result(sql, t.DOUBLE)


def _mod(a: Arguments) -> Term:
    return arithmetic("%", a.number(0), a.number(1), a.site)


def _extreme(function: str, doc: str) -> Function:
    def build(a: Arguments) -> Term:
        kind = common(a)
        if not t.is_atomic(kind) or kind == t.BINARY:
            raise a.site.refuse(TYPE, f"{function} cannot order its arguments", found=named(kind))
        values = ", ".join(widen(term, kind).sql for term in a.terms)
        return a.result(f"{function}({values})", kind)

    return Function(usage=f"{function}(x, y, ...)", doc=doc, build=build, least=2, most=UNLIMITED)


def common(a: Arguments) -> pa.DataType:
    """The type all arguments are widened to."""

    def wider(so_far: Term, term: Term) -> Term:
        kind = common_type(so_far, term, a.site)
        return Term(sql="", type=kind)

    kind = functools.reduce(wider, a.terms).type
    if kind == t.VOID:
        raise a.site.refuse(TYPE, f"{a.name} has only nulls", hint="convert one with CAST(NULL AS ...)")
    return kind


FUNCTIONS: dict[str, Function] = {
    "abs": Function(usage="abs(x)", doc="without its sign; raises for the smallest integer", build=_abs),
    "ceil": _whole("ceil", "the least whole number not below `x`: long, or decimal for decimals"),
    "exp": Function(usage="exp(x)", doc="e to the power of `x` (to the last bit)", build=_exp),
    "floor": _whole("floor", "the greatest whole number not above `x`: long, or decimal for decimals"),
    "greatest": _extreme("greatest", "the largest that is not null"),
    "least": _extreme("least", "the smallest that is not null"),
    "ln": _logarithm("ln", "natural logarithm, null for `x` ≤ 0 (to the last bit)"),
    "log10": _logarithm("log10", "logarithm to base 10, null for `x` ≤ 0 (to the last bit)"),
    "mod": Function(usage="mod(x, y)", doc="the remainder, as `x % y`", build=_mod, least=2, most=2),
    "pow": Function(
        usage="pow(x, y)", doc="`x` to the power of `y`, a double (to the last bit)", build=_pow, least=2, most=2
    ),
    "power": Function(usage="power(x, y)", doc="the same as `pow`", build=_pow, least=2, most=2),
    "round": Function(
        usage="round(x[, 2])",
        doc="half up to 0 to 15 places, written as a literal; not for float",
        build=_round,
        most=2,
    ),
    "sign": Function(usage="sign(x)", doc="-1.0, 0.0 or 1.0", build=_sign),
    "sqrt": Function(usage="sqrt(x)", doc="square root; NaN below zero", build=_sqrt),
}
