"""Functions of dates and timestamps. The time zone is always UTC."""

from __future__ import annotations

import re

from millstream.graph.expressions import term as t
from millstream.graph.expressions.casts import cast
from millstream.graph.expressions.function import Arguments, Function
from millstream.graph.expressions.refusal import LITERAL
from millstream.graph.expressions.term import Term, quoted

_UNITS = {
    "year": "year", "yyyy": "year", "yy": "year", "quarter": "quarter", "month": "month", "mon": "month", "mm": "month",
    "week": "week", "day": "day", "dd": "day", "hour": "hour", "minute": "minute", "second": "second",
    "millisecond": "millisecond", "microsecond": "microsecond",
}  # fmt: skip
_DATE_UNITS = {name: unit for name, unit in _UNITS.items() if unit in {"year", "quarter", "month", "week"}}
_FORMAT = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "SSS": "%g", "SSSSSS": "%f"}
_SHAPE = {
    "yyyy": "[0-9]{4}", "MM": "(?:0[1-9]|1[0-2])", "dd": "(?:0[1-9]|[12][0-9]|3[01])", "HH": "(?:[01][0-9]|2[0-3])",
    "mm": "[0-5][0-9]", "ss": "[0-5][0-9]", "SSS": "[0-9]{3}", "SSSSSS": "[0-9]{6}",
}  # fmt: skip
_PIECE = re.compile(r"(?P<field>([A-Za-z])\2*)|'(?P<text>[^']+)'|(?P<sign>[-/:., _])")


def _part(function: str, sql: str, doc: str, *, is_clock: bool = False) -> Function:
    def build(a: Arguments) -> Term:
        moment = a.timestamp(0) if is_clock else a.date(0)
        return a.result(f"CAST({sql.format(moment)} AS INTEGER)", t.INT)

    return Function(usage=f"{function}({'ts' if is_clock else 'd'})", doc=doc, build=build)


def _unit(a: Arguments, index: int, units: dict[str, str]) -> str:
    name = a.literal(index, str, "a unit").lower()
    if name not in units:
        raise a.site.refuse(
            LITERAL, f"unknown unit of {a.name}", found=repr(name), known=units, hint="use a known unit"
        )
    return units[name]


def _date_trunc(a: Arguments) -> Term:
    return a.result(f"date_trunc('{_unit(a, 0, _UNITS)}', {a.timestamp(1)})", t.TIMESTAMP)


def _trunc(a: Arguments) -> Term:
    return a.result(f"CAST(date_trunc('{_unit(a, 1, _DATE_UNITS)}', {a.date(0)}) AS DATE)", t.DATE)


def _moved(sign: str) -> Function:
    name = "date_add" if sign == "+" else "date_sub"

    def build(a: Arguments) -> Term:
        return a.result(f"({a.date(0)} {sign} {a.integer(1)})", t.DATE, may_raise=True)

    return Function(
        usage=f"{name}(d, n)",
        doc=f"the date `n` days {'later' if sign == '+' else 'earlier'}",
        build=build,
        least=2,
        most=2,
    )


def _datediff(a: Arguments) -> Term:
    return a.result(f"CAST(({a.date(0)} - {a.date(1)}) AS INTEGER)", t.INT)


def _fields(a: Arguments, index: int) -> list[tuple[str, str]]:
    """A format as (field, literal text) pairs, one of them empty."""
    text = a.literal(index, str, "a format")
    pieces, position = [], 0
    while position < len(text):
        match = _PIECE.match(text, position)
        if match is None or (match.group("field") and match.group("field") not in _FORMAT):
            piece = repr(match.group() if match else text[position:])
            hint = "use the known fields, - / : . , _ space, and 'text'"
            raise a.site.refuse(LITERAL, f"format of {a.name} is not supported", found=piece, known=_FORMAT, hint=hint)
        pieces.append((match.group("field") or "", match.group("text") or match.group("sign") or ""))
        position = match.end()
    return pieces


def _date_format(a: Arguments) -> Term:
    pattern = "".join(_FORMAT[field] if field else text.replace("%", "%%") for field, text in _fields(a, 1))
    return a.result(f"strftime({a.timestamp(0)}, {quoted(pattern)})", t.STRING)


def _parsed(a: Arguments) -> str:
    """SQL of text read by a format: the shape is checked first, because DuckDB reads more loosely than Spark."""
    fields = _fields(a, 1)
    names = [field for field, _ in fields if field]
    if not {"yyyy", "MM", "dd"} <= set(names) or len(names) != len(set(names)) or {"SSS", "SSSSSS"} <= set(names):
        hint = "use yyyy, MM and dd once, and HH, mm, ss, SSS at most once"
        raise a.site.refuse(LITERAL, f"format of {a.name} does not make a date", found=", ".join(names), hint=hint)
    shape = "".join(_SHAPE[field] if field else re.escape(text) for field, text in fields)
    pattern = "".join(_FORMAT[field] if field else text.replace("%", "%%") for field, text in fields)
    text = a.string(0)
    return (
        f"CASE WHEN {text} IS NULL THEN NULL WHEN regexp_full_match({text}, {quoted(shape)}) "
        f"THEN strptime({text}, {quoted(pattern)}) ELSE error('cannot read as a date: ' || {text}) END"
    )


def _to_date(a: Arguments) -> Term:
    if len(a) == 1:
        return cast(a.terms[0], t.DATE, a.site)
    return a.result(f"CAST({_parsed(a)} AS DATE)", t.DATE, may_raise=True)


def _to_timestamp(a: Arguments) -> Term:
    if len(a) == 1:
        return cast(a.terms[0], t.TIMESTAMP, a.site)
    return a.result(_parsed(a), t.TIMESTAMP, may_raise=True)


def _epoch(function: str, micros: int, unit: str) -> Function:
    def build(a: Arguments) -> Term:
        moment = a.timestamp(0)
        sql = f"epoch_us(date_trunc('{unit}', {moment})) // {micros}" if micros > 1 else f"epoch_us({moment})"
        return a.result(f"CAST(({sql}) AS BIGINT)", t.LONG)

    return Function(usage=f"{function}(ts)", doc=f"{unit}s since 1970, rounded down", build=build)


def _moment(function: str, micros: int, unit: str) -> Function:
    def build(a: Arguments) -> Term:
        return a.result(f"make_timestamp({a.long(0)} * {micros}::BIGINT)", t.TIMESTAMP, may_raise=True)

    return Function(usage=f"{function}(n)", doc=f"the timestamp `n` {unit}s after 1970", build=build)


FUNCTIONS: dict[str, Function] = {
    "date_add": _moved("+"),
    "date_format": Function(
        usage="date_format(ts, 'yyyy-MM-dd HH:mm')",
        doc="as text; see the fields below",
        build=_date_format,
        least=2,
        most=2,
    ),
    "date_sub": _moved("-"),
    "date_trunc": Function(
        usage="date_trunc('hour', ts)", doc="the timestamp at which the unit began", build=_date_trunc, least=2, most=2
    ),
    "datediff": Function(
        usage="datediff(end, start)", doc="days from `start` to `end`", build=_datediff, least=2, most=2
    ),
    "day": _part("day", "day({})", "day of the month"),
    "dayofmonth": _part("dayofmonth", "day({})", "the same as `day`"),
    "dayofweek": _part("dayofweek", "dayofweek({}) + 1", "day of the week; 1 is Sunday"),
    "dayofyear": _part("dayofyear", "dayofyear({})", "day of the year"),
    "hour": _part("hour", "hour({})", "hour of the day", is_clock=True),
    "minute": _part("minute", "minute({})", "minute of the hour", is_clock=True),
    "month": _part("month", "month({})", "month of the year"),
    "quarter": _part("quarter", "quarter({})", "quarter of the year"),
    "second": _part("second", "second({})", "second of the minute", is_clock=True),
    "timestamp_micros": _moment("timestamp_micros", 1, "microsecond"),
    "timestamp_millis": _moment("timestamp_millis", 1000, "millisecond"),
    "timestamp_seconds": _moment("timestamp_seconds", 1_000_000, "second"),
    "to_date": Function(
        usage="to_date(s[, 'yyyy-MM-dd'])", doc="text read as a date; raises when it is none", build=_to_date, most=2
    ),
    "to_timestamp": Function(
        usage="to_timestamp(s[, 'yyyy-MM-dd HH:mm:ss'])",
        doc="text read as a timestamp; raises when it is none",
        build=_to_timestamp,
        most=2,
    ),
    "trunc": Function(usage="trunc(d, 'month')", doc="the date on which the unit began", build=_trunc, least=2, most=2),
    "unix_micros": _epoch("unix_micros", 1, "microsecond"),
    "unix_millis": _epoch("unix_millis", 1000, "millisecond"),
    "unix_seconds": _epoch("unix_seconds", 1_000_000, "second"),
    "year": _part("year", "year({})", "year"),
}
