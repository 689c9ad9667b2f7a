"""Literals: the type that the form of a number says, and the same value in SQL."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from sqlglot import exp

from millstream.graph.expressions import term as t
from millstream.graph.expressions.refusal import CONSTRUCT, LITERAL, Site
from millstream.graph.expressions.term import Term, duckdb_type, quoted

_NUMBER = re.compile(r"(-?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)(BD|[LSYDF]|)", re.IGNORECASE)
_SIZES = {"L": (t.LONG, 63), "S": (t.SHORT, 15), "Y": (t.BYTE, 7)}


def literal(node: exp.Expr, site: Site) -> Term:
    """A string or a number; its form and suffix say of which type."""
    text = str(node.this)
    if node.args.get("is_string"):
        return _typed(text, quoted(text), t.STRING)
    match = _NUMBER.fullmatch(text)
    if match is None:
        raise site.refuse(LITERAL, "not a number", found=repr(text), hint="write 1, 1L, 1.5, 1.5D or 1e3")
    digits, suffix = match.group(1), match.group(2).upper()
    if suffix in {"D", "F"} or (not suffix and "e" in digits.lower()):
        kind = t.FLOAT if suffix == "F" else t.DOUBLE
        return _typed(float(digits), f"CAST({quoted(digits)} AS {duckdb_type(kind)})", kind)
    if suffix == "BD" or (not suffix and "." in digits):
        return _decimal(site, Decimal(f"{Decimal(digits):f}"))
    return _integer(site, digits, suffix)


def _integer(site: Site, digits: str, suffix: str) -> Term:
    sizes = [_SIZES[suffix]] if suffix else [(t.INT, 31), (t.LONG, 63)]
    if not digits.lstrip("-").isdigit():
        raise site.refuse(LITERAL, f"suffix {suffix} needs a whole number", found=digits, hint="use D for a double")
    value = int(digits)
    for kind, bits in sizes:
        if -(2**bits) <= value < 2**bits:
            return _typed(value, f"CAST({value} AS {duckdb_type(kind)})", kind)
    if suffix:
        raise site.refuse(LITERAL, f"number is too large for {suffix}", found=digits, hint="use a larger type")
    return _decimal(site, Decimal(value))


def _decimal(site: Site, value: Decimal) -> Term:
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "decimal literals are finite"
    scale = max(-exponent, 0)
    precision = max(len(digits), scale)
    if precision > t.MAX_PRECISION:
        raise site.refuse(LITERAL, "number has more than 38 digits", found=value, hint="write it with an exponent")
    kind = pa.decimal128(precision, scale)
    return Term(sql=f"CAST('{value:f}' AS {duckdb_type(kind)})", type=kind, value=value, is_literal=True)


def _typed(value: Any, sql: str, kind: pa.DataType) -> Term:
    return Term(sql=sql, type=kind, value=value, is_literal=True, direct=("literal", value, kind))


def boolean(node: exp.Expr) -> Term:
    """True or false."""
    return _typed(bool(node.this), "true" if node.this else "false", t.BOOLEAN)


def null() -> Term:
    """Null, which has no type yet."""
    return Term(sql="NULL", type=t.VOID, is_literal=True)


def parameter(node: exp.Expr, site: Site) -> Term:
    """A parameter of the run without a value: null, of the type that the cast around it says."""
    if not isinstance(node.parent, exp.Cast):
        raise site.refuse(CONSTRUCT, "a placeholder is not allowed", found=str(node.this), hint="name a parameter")
    return null()


def raw_string(node: exp.Expr) -> Term:
    """A string in which a backslash is one."""
    return _typed(str(node.this), quoted(str(node.this)), t.STRING)


def negative(node: exp.Expr, site: Site) -> Term | None:
    """A number with its sign, as the smallest one has no positive twin; `None` if it is no number."""
    if isinstance(node, exp.Literal) and not node.args.get("is_string"):
        return literal(exp.Literal(this="-" + str(node.this), is_string=False), site)
    return None
