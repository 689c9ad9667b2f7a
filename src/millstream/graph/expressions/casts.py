"""Conversions between types as Spark's ANSI mode does them; `TRY_CAST` gives null where `CAST` raises."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Callable

import pyarrow as pa

from millstream.graph.expressions import term as t
from millstream.graph.expressions.refusal import LITERAL, TYPE, Site
from millstream.graph.expressions.term import Term, duckdb_type, named, quoted

_BLANK = r"[\x00-\x20]*"
_INTEGER = r"[+-]?[0-9]+"
_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_SPECIAL = r"(?i:nan|[+-]?inf(?:inity)?)"
_DAY = r"[0-9]{4}(?:-[0-9]{1,2}){0,2}"
_DATE = r"[0-9]{4}(?:-[0-9]{1,2}(?:-[0-9]{1,2}(?:[ T].*)?)?)?"
_CLOCK = r"(?:[01]?[0-9]|2[0-3]):[0-5]?[0-9](?::[0-5]?[0-9](?:\.[0-9]{1,9})?)?"
_ZONE = r"(?:Z|UTC|[+-](?:0[0-9]|1[0-7]):[0-5][0-9])?"
_MOMENT = rf"[0-9]{{4}}-[0-9]{{1,2}}-[0-9]{{1,2}}(?:[ T]{_CLOCK}{_ZONE})?"
_FULL_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TRUE, _FALSE = "('t', 'true', 'y', 'yes', '1')", "('f', 'false', 'n', 'no', '0')"
_FLOAT_OVERFLOW = "340282356779733661637539395458142568448"  # halfway from the largest float to the next power of two

EXACT_DIGITS = 15
"""Decimals of so many digits are exact in a double; longer ones convert through text, correctly rounded."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Conversion:
    source: Term
    target: pa.DataType
    is_try: bool

    @property
    def verb(self) -> str:
        return "TRY_CAST" if self.is_try else "CAST"

    def plain(self, sql: str) -> str:
        return f"{self.verb}({sql} AS {duckdb_type(self.target)})"

    def guarded(self, pattern: str, value: str) -> str:
        """The value where the text matches; otherwise null or an error that shows the text."""
        sql = self.source.sql
        wrong = "NULL" if self.is_try else f"error({quoted(self._complaint)} || {sql})"
        test = f"regexp_full_match({sql}, {quoted(_BLANK + '(?:' + pattern + ')' + _BLANK)}, 's')"
        return f"CASE WHEN {sql} IS NULL THEN NULL WHEN {test} THEN {value} ELSE {wrong} END"

    @property
    def _complaint(self) -> str:
        return f"cannot convert to {named(self.target)}: "


def cast(source: Term, target: pa.DataType, site: Site, *, is_try: bool = False) -> Term:
    """Convert explicitly, as `CAST` or `TRY_CAST`."""
    if source.type == target:
        return source
    if source.type == t.VOID:
        return Term(sql=f"CAST(NULL AS {duckdb_type(target)})", type=target, is_literal=True)
    build = _rule(source.type, target)
    if build is None:
        problem = f"{named(source.type)} cannot be converted to {named(target)}"
        raise site.refuse(TYPE, problem, hint="see the table of conversions in the expression reference")
    sql = build(_Conversion(source, target, is_try))
    return Term(sql=sql, type=target, may_raise=source.may_raise or not is_try)


def widen(source: Term, target: pa.DataType) -> Term:
    """Convert implicitly to a type that holds every value of the source."""
    if source.type == target:
        return source
    if source.type == t.VOID:
        return Term(sql=f"CAST(NULL AS {duckdb_type(target)})", type=target, is_literal=True)
    sql = source.sql
    if t.is_decimal(source.type) and t.is_fractional(target):
        sql = _decimal_to_float(_Conversion(source, target, is_try=False))
    elif duckdb_type(source.type) != duckdb_type(target):
        sql = f"CAST({source.sql} AS {duckdb_type(target)})"
    return dataclasses.replace(source, sql=sql, type=target, direct=None)


def moment(text: str, kind: pa.DataType, site: Site) -> Term:
    """A date or timestamp written as text, such as the literal in `ts > '2024-01-01'`."""
    match = re.fullmatch(rf"({_FULL_DAY})(?:[ T]({_CLOCK})({_ZONE}))?", text.strip(" "))
    try:
        if match is None:
            raise ValueError(text)
        value = _read_moment(match, kind)
    except ValueError:
        known = "yyyy-MM-dd[ HH:mm[:ss[.SSSSSS]][Z|+HH:mm]]"
        raise site.refuse(LITERAL, f"not a {named(kind)}", found=repr(text), known=known, hint="correct it") from None
    sql = f"CAST('{value.replace(tzinfo=None).isoformat(sep=' ')}' AS {duckdb_type(kind)})"
    held = value.date() if kind == t.DATE else value
    return Term(sql=sql, type=kind, value=held, is_literal=True, direct=("literal", held, kind))


def _read_moment(match: re.Match[str], kind: pa.DataType) -> dt.datetime:
    year, month, day = (int(part) for part in match.group(1).split("-"))
    parts = (match.group(2) or "0:0").split(":")
    second, _, fraction = (parts[2] if len(parts) == 3 else "0").partition(".")
    clock = dt.time(int(parts[0]), int(parts[1]), int(second), int(fraction[:6].ljust(6, "0")), tzinfo=dt.UTC)
    value = dt.datetime.combine(dt.date(year, month, day), clock)
    zone = match.group(3) or "Z"
    if kind == t.TIMESTAMP and zone[0] in "+-":
        offset = dt.timedelta(hours=int(zone[1:3]), minutes=int(zone[4:6]))
        value += -offset if zone[0] == "+" else offset
    return value if kind == t.TIMESTAMP else value.replace(tzinfo=None)


def _rule(source: pa.DataType, target: pa.DataType) -> Callable[[_Conversion], str] | None:
    for accepts, rules in _RULES:
        if accepts(source):
            return next((build for matches, build in rules if matches(target)), None)
    return None


def _is(*types: pa.DataType) -> Callable[[pa.DataType], bool]:
    return lambda arrow: arrow in types


def _plain(c: _Conversion) -> str:
    return c.plain(c.source.sql)


def _same(c: _Conversion) -> str:
    return c.source.sql


def _truncated(c: _Conversion) -> str:
    return c.plain(f"trunc({c.source.sql})")


def _through_text(c: _Conversion) -> str:
    return c.plain(f"CAST({c.source.sql} AS VARCHAR)")


def _decimal_to_float(c: _Conversion) -> str:
    is_short = c.source.type.precision <= EXACT_DIGITS and c.target == t.DOUBLE
    return _plain(c) if is_short else _through_text(c)


def _decimal_to_text(c: _Conversion) -> str:
    if c.source.type.precision > c.source.type.scale:
        return _plain(c)
    return rf"regexp_replace({_plain(c)}, '^(-?)\.', '\10.')"  # DuckDB writes .05, Spark 0.05


def _float_to_decimal(c: _Conversion) -> str:
    text = f"CAST(CAST({c.source.sql} AS DOUBLE) AS VARCHAR)"
    return f"CASE WHEN isfinite({c.source.sql}) THEN {c.plain(text)} END"  # Spark gives null for NaN and infinity


def _float_to_float(c: _Conversion) -> str:
    if c.target == t.DOUBLE:
        return _plain(c)
    sql = c.source.sql
    infinite = f"CASE WHEN {sql} > 0 THEN 'inf'::FLOAT ELSE '-inf'::FLOAT END"
    is_beyond = f"NOT isnan({sql}) AND abs({sql}) >= {_FLOAT_OVERFLOW}::DOUBLE"
    return f"CASE WHEN {is_beyond} THEN {infinite} ELSE CAST({sql} AS FLOAT) END"


def _text_to_integer(c: _Conversion) -> str:
    return c.guarded(_INTEGER, c.plain(f"regexp_extract({c.source.sql}, {quoted(_INTEGER)})"))


def _text_to_number(c: _Conversion) -> str:
    return c.guarded(_NUMBER, c.plain(f"regexp_extract({c.source.sql}, {quoted(_NUMBER)})"))


def _text_to_double(c: _Conversion) -> str:
    value = f"regexp_extract({c.source.sql}, {quoted(_NUMBER + '|' + _SPECIAL)})"
    return c.guarded(f"{_NUMBER}[dDfF]?|{_SPECIAL}", c.plain(value))


def _text_to_boolean(c: _Conversion) -> str:
    word = f"lower(trim({c.source.sql}, ' '))"
    wrong = "NULL" if c.is_try else f"error('cannot convert to boolean: ' || {c.source.sql})"
    return (
        f"CASE WHEN {c.source.sql} IS NULL THEN NULL WHEN {word} IN {_TRUE} THEN true "
        f"WHEN {word} IN {_FALSE} THEN false ELSE {wrong} END"
    )


def _text_to_date(c: _Conversion) -> str:
    day = f"regexp_extract({c.source.sql}, {quoted(_DAY)})"
    return c.guarded(_DATE, c.plain(f"regexp_extract({day} || '-01-01', {quoted(_FULL_DAY)})"))


def _text_to_timestamp(c: _Conversion) -> str:
    sql = c.source.sql
    local = c.plain(f"regexp_extract({sql}, {quoted(_FULL_DAY + '(?:[ T]' + _CLOCK + ')?')})")
    if c.target == t.TIMESTAMP_NTZ:
        return c.guarded(_MOMENT, local)
    zone = quoted(r"([+-])([0-9]{2}):([0-9]{2})")
    parts = [f"regexp_extract({sql}, {zone}, {group})" for group in (1, 2, 3)]
    hours, minutes = (f"coalesce(TRY_CAST({parts[0]} || {part} AS INTEGER), 0)" for part in parts[1:])
    return c.guarded(_MOMENT, f"{local} - to_minutes({hours} * 60 + {minutes})")


def _timestamp_to_long(c: _Conversion) -> str:
    return f"CAST(floor(epoch_us(date_trunc('second', {c.source.sql})) // 1000000) AS BIGINT)"


def _int_to_timestamp(c: _Conversion) -> str:
    return f"make_timestamp(CAST({c.source.sql} AS BIGINT) * 1000000)"


def _number_to_boolean(c: _Conversion) -> str:
    return f"({c.source.sql} <> 0)"


_TEXT = ((_is(t.STRING), _plain),)
_NUMBERS = ((t.is_integral, _plain), (t.is_decimal, _plain), (t.is_fractional, _plain))
_MOMENTS = ((_is(t.DATE), _plain), (_is(t.TIMESTAMP, t.TIMESTAMP_NTZ), _plain))
_BOOL = (_is(t.BOOLEAN), _number_to_boolean)
_Rule = tuple[Callable[[pa.DataType], bool], Callable[[_Conversion], str]]
_RULES: tuple[tuple[Callable[[pa.DataType], bool], tuple[_Rule, ...]], ...] = (
    (_is(t.BOOLEAN), (*_TEXT, *_NUMBERS)),
    (_is(t.LONG), (*_TEXT, *_NUMBERS, _BOOL)),
    (t.is_integral, (*_TEXT, *_NUMBERS, _BOOL, (_is(t.TIMESTAMP), _int_to_timestamp))),
    (
        t.is_decimal,
        (
            (_is(t.STRING), _decimal_to_text), _BOOL, (t.is_integral, _truncated), (t.is_decimal, _plain),
            (t.is_fractional, _decimal_to_float),
        ),
    ),
    (
        t.is_fractional,
        (_BOOL, (t.is_integral, _truncated), (t.is_decimal, _float_to_decimal), (t.is_fractional, _float_to_float)),
    ),
    (
        _is(t.STRING),
        (
            (t.is_integral, _text_to_integer), (t.is_decimal, _text_to_number), (_is(t.DOUBLE), _text_to_double),
            (_is(t.BOOLEAN), _text_to_boolean), (_is(t.DATE), _text_to_date),
            (_is(t.TIMESTAMP, t.TIMESTAMP_NTZ), _text_to_timestamp),
        ),
    ),
    (_is(t.DATE), (*_TEXT, *_MOMENTS)),
    (_is(t.TIMESTAMP), (*_TEXT, *_MOMENTS, (_is(t.LONG), _timestamp_to_long))),
    (_is(t.TIMESTAMP_NTZ), (*_TEXT, *_MOMENTS)),
)  # fmt: skip
