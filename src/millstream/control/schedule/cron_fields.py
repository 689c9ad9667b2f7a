"""The five fields of a cron expression, checked one by one, so that an error names the field, its value and what fits there."""

from __future__ import annotations

import re
from typing import NamedTuple

from millstream.errors import InvalidStep

_LONGEST = 128
"""What the column of the table holds."""
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_NUMBER = re.compile(r"[0-9]{1,4}")


class _CronField(NamedTuple):
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()
    extras: str = ""

    @property
    def known(self) -> str:
        words = f" or {self.words[0]}-{self.words[-1]}" if self.words else ""
        forms = "lists (1,2), ranges (1-3), steps (*/2, 1-9/2, 5/10 from 5 on)"
        return f"*, {self.low}-{self.high}{words}, {forms}{self.extras}"

    @property
    def largest_step(self) -> int:
        """With a larger one nothing is left but the first value, which nobody writes like that on purpose."""
        return self.high - self.low + 1

    def number(self, text: str) -> int | None:
        """What a single value means; `None` if it is none of this field."""
        if text in self.words:
            return self.words.index(text) + (self.low if self.name == "month" else 0)
        value = int(text) if _NUMBER.fullmatch(text) else None
        return value if value is not None and self.low <= value <= self.high else None


_FIELDS = (
    _CronField("minute", 0, 59),
    _CronField("hour", 0, 23),
    _CronField("day of month", 1, 31, extras=", L (the last), LW (the last weekday)"),
    _CronField("month", 1, 12, _MONTHS),
    _CronField("day of week", 0, 7, _DAYS, extras=", 5L (the last Friday), 5#2 (the second Friday)"),
)


def checked_expression(expression: object) -> str:
    """The expression with single spaces, each field understood.

    Raises:
        InvalidStep: (CTL-201) it says which field, what stands there and what fits.
    """
    if not isinstance(expression, str) or not expression.strip() or len(expression) > _LONGEST:
        what = "the expression is empty, too long or no text"
        raise _wrong_field(what, expression, f"five fields, at most {_LONGEST} characters")
    fields = expression.upper().split()
    if len(fields) != len(_FIELDS):
        hint = "seconds are not offered: five fields" if len(fields) == len(_FIELDS) + 1 else "five fields"
        what = f"{len(fields)} fields"
        raise _wrong_field(what, expression, f"{hint}: {', '.join(field.name for field in _FIELDS)}")
    for field, text in zip(_FIELDS, fields, strict=True):
        for part in text.split(","):
            problem = _problem(field, part)
            if problem is not None:
                what = f"{field.name}: {problem}"
                raise _wrong_field(what, part, field.known)
    return " ".join(",".join(_plain(part) for part in text.split(",")) for text in fields)


def _plain(part: str) -> str:
    """A range of one value has no step: cronsim would take it for one without an end."""
    low, dash, rest = part.partition("-")
    high, slash, _ = rest.partition("/")
    return low if dash and slash and low == high else part


def _problem(field: _CronField, part: str) -> str | None:
    if (field.name == "day of month" and part in {"L", "LW"}) or (field.name == "day of week" and _is_nth(field, part)):
        return None
    body, slash, step = part.partition("/")
    if slash and not (_NUMBER.fullmatch(step) and int(step) > 0):
        return "a step is a whole number above zero"
    if slash and int(step) > field.largest_step:
        return f"a step is at most {field.largest_step} here"
    if body == "*":
        return None
    low_text, dash, high_text = body.partition("-")
    low, high = field.number(low_text), field.number(high_text) if dash else None
    if low is None or (dash and high is None):
        return "not a value of this field"
    return "a range runs upwards" if high is not None and high < low else None


def _is_nth(field: _CronField, part: str) -> bool:
    if part.endswith("L"):
        return _NUMBER.fullmatch(part[:-1]) is not None and field.number(part[:-1]) is not None
    day, _, nth = part.partition("#")
    return nth in {"1", "2", "3", "4", "5"} and field.number(day) is not None


def _wrong_field(what: str, found: object, known: str) -> InvalidStep:
    msg = f"cron: {what}"
    hint = "write for example '30 2 * * MON-FRI'"
    return InvalidStep(msg, code="CTL-201", found=repr(found), known=known, hint=hint)
