"""Functions that choose between values, and functions of arrays and maps."""

from __future__ import annotations

from millstream.graph.expressions import operators
from millstream.graph.expressions import term as t
from millstream.graph.expressions.casts import widen
from millstream.graph.expressions.function import UNLIMITED, Arguments, Function
from millstream.graph.expressions.numbers import common
from millstream.graph.expressions.refusal import TYPE
from millstream.graph.expressions.term import Term, named


def _coalesce(a: Arguments) -> Term:
    kind = common(a)
    return a.result(f"coalesce({', '.join(widen(term, kind).sql for term in a.terms)})", kind)


def _if(a: Arguments) -> Term:
    test, yes, no = a.terms
    return choose([(operators.boolean(test, "if", a.site), yes)], no, a)


def _nullif(a: Arguments) -> Term:
    value, other = a.terms
    equal = operators.compare("=", value, other, a.site)
    if value.type == t.VOID:
        raise a.site.refuse(TYPE, "nullif of an untyped null", hint="convert it with CAST(NULL AS ...)")
    return a.result(f"CASE WHEN {equal.sql} THEN NULL ELSE {value.sql} END", value.type)


def _nvl2(a: Arguments) -> Term:
    test, yes, no = a.terms
    return choose([(operators.invert(operators.is_null(test), a.site), yes)], no, a)


def choose(branches: list[tuple[Term, Term]], default: Term | None, a: Arguments) -> Term:
    """CASE with boolean tests: the first that is true gives the value, widened to the common type."""
    values = [value for _, value in branches] + ([default] if default is not None else [])
    kind = common(Arguments(a.name, values, a.site))
    arms = " ".join(f"WHEN {test.sql} THEN {widen(value, kind).sql}" for test, value in branches)
    otherwise = "NULL" if default is None else widen(default, kind).sql
    raises = any(test.may_raise for test, _ in branches) or any(value.may_raise for value in values)
    return Term(sql=f"CASE {arms} ELSE {otherwise} END", type=kind, may_raise=raises)


def _size(a: Arguments) -> Term:
    term = a.terms[0]
    if t.is_list(term.type):
        return a.result(f"CAST(len({term.sql}) AS INTEGER)", t.INT)
    if t.is_map(term.type):
        return a.result(f"CAST(cardinality({term.sql}) AS INTEGER)", t.INT)
    raise a.site.refuse(TYPE, "size needs an array or a map", found=named(term.type), hint="use length for strings")


def _get(a: Arguments) -> Term:
    term, index = a.terms[0], a.integer(1)
    if not t.is_list(term.type):
        raise a.site.refuse(TYPE, "get needs an array", found=named(term.type), hint="use m['key'] for maps")
    sql = f"CASE WHEN {index} >= 0 THEN {term.sql}[{index} + 1] ELSE NULL END"
    return a.result(sql, term.type.value_type)


_NVL = "the first value, or the second where it is null"

FUNCTIONS: dict[str, Function] = {
    "coalesce": Function(
        usage="coalesce(x, y, ...)", doc="the first that is not null", build=_coalesce, most=UNLIMITED
    ),
    "get": Function(usage="get(array, i)", doc="the element at `i`, from 0; null outside", build=_get, least=2, most=2),
    "if": Function(usage="if(test, x, y)", doc="`x` where the test is true, otherwise `y`", build=_if, least=3, most=3),
    "ifnull": Function(usage="ifnull(x, y)", doc=_NVL, build=_coalesce, least=2, most=2),
    "nullif": Function(
        usage="nullif(x, y)", doc="null where they are equal, otherwise `x`", build=_nullif, least=2, most=2
    ),
    "nvl": Function(usage="nvl(x, y)", doc=_NVL, build=_coalesce, least=2, most=2),
    "nvl2": Function(
        usage="nvl2(x, y, z)", doc="`y` where `x` is not null, otherwise `z`", build=_nvl2, least=3, most=3
    ),
    "size": Function(usage="size(array or map)", doc="number of elements", build=_size),
}
