"""The parts an API is read in, each with pages of its own: named values, parents of which each has children, steps of time.

The values of a slice fill `${slice:NAME}` in url, params, headers and body. A slice is a partition of the source.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from typing import Any

from millstream.connectors.http.nested import (
    Fields,
    by_type,
    duration,
    filled_text,
    kept_as_given,
    optional_duration,
    storable,
)
from millstream.connectors.http.paging.answered import refuse_named
from millstream.connectors.http.paging.page_request import text_of
from millstream.connectors.http.paging.paths import Steps, found_at, steps_of
from millstream.errors import StepFailed
from millstream.model.connector import Option
from millstream.model.time import to_datetime

_DURATION = (str, int, float)
_FORMATS = ("date", "iso", "seconds", "milliseconds")
_TIMES: dict[str, str] = {"date": "%Y-%m-%d", "iso": "%Y-%m-%dT%H:%M:%SZ"}
_DAY = 86_400_000
_DIRECTIVE = re.compile(r"%[-_0^#]?([A-Za-z%])")
_UNITS = (("f", 1), ("SsTXcr", 1000), ("MR", 60_000), ("HIkl", 3_600_000))
"""Signs of a pattern, and the milliseconds of what they write; the smallest first."""
_NO_REST = dt.timedelta()
_REST = dt.timedelta(microseconds=999)
"""What belongs to the last millisecond of a step besides, where microseconds are written."""
PARENT = "parent"
"""The partition that stands for slices which are not known yet."""

FIELDS: Mapping[str, Fields] = {
    "list": {
        "name": Option(kind=(str,), doc="what a value is called in `${slice:NAME}`", check=filled_text),
        "values": Option(kind=(list,), doc="one slice for each value; for several names, mappings"),
    },
    "parent": {
        "request": Option(
            kind=(dict,), doc="what to ask for parents: `url`, `records`, `paginator`, `stop` and others of the source"
        ),
        "fields": Option(kind=(dict,), doc="per name of a value, the field of a parent that holds it"),
    },
    "dates": {
        "start": Option(kind=(str,), doc="the first instant, as ISO text"),
        "end": Option(kind=(str,), default="now", doc="the last instant; `now` is when the run began"),
        "step": Option(kind=_DURATION, default="1d", doc="how long a slice is", check=duration),
        "look_back": Option(
            kind=(*_DURATION, type(None)),
            default=None,
            doc="how far before its last end a further run begins",
            check=optional_duration,
        ),
        "format": Option(
            kind=(str,), default="iso", doc="`date`, `iso`, `seconds`, `milliseconds`, or a pattern with `%`"
        ),
        "inclusive": Option(
            kind=(bool,), default=False, doc="whether `end` is the last day or second of a slice, not the first behind"
        ),
    },
}


@dataclasses.dataclass(frozen=True, slots=True)
class ParentSlices:
    """Slices that come from the records of another request."""

    request: Mapping[str, Any]
    fields: Mapping[str, Steps]


@dataclasses.dataclass(frozen=True, slots=True)
class DateSlices:
    """Slices of time; instants in milliseconds since 1970."""

    start: int
    end: int | None
    """`None`: when the run began."""
    step: int
    look_back: int
    format: str
    inclusive: bool


@dataclasses.dataclass(frozen=True, slots=True)
class ListSlices:
    """Slices that stand in the options."""

    values: tuple[Mapping[str, Any], ...]
    name: str = ""
    """What a value is called that is not named itself."""


Slices = ListSlices | ParentSlices | DateSlices
NO_SLICES = ListSlices(({},))
"""The whole source is one slice."""


def slices_of(value: Any) -> Slices:
    """Read the option `slices`.

    Raises:
        ValueError: says what was expected.
    """
    if value is None:
        return NO_SLICES
    kind, fields = by_type(FIELDS, value, what="slices")
    match kind:
        case "list":
            return ListSlices(tuple(_values(each, fields["name"]) for each in fields["values"]), fields["name"])
        case "parent":
            return ParentSlices(fields["request"], _parent_fields(fields["fields"]))
        case _:
            return _dates(fields)


def _parent_fields(value: Mapping[Any, Any]) -> dict[str, Steps]:
    if not all(isinstance(each, str) for pair in value.items() for each in pair):
        msg = "slices 'parent' whose 'fields' are paths by name, such as {'repo': 'name'}"
        raise ValueError(msg)
    return {name: steps_of(path) for name, path in value.items()}


def _values(each: Any, name: str) -> Mapping[str, Any]:
    values = dict(each) if isinstance(each, Mapping) else {name: each}
    if not values or not all(isinstance(value, (str, int, float, bool)) for value in values.values()):
        msg = "slices 'list' whose 'values' are texts, numbers or mappings of these"
        raise ValueError(msg)
    return {each: kept_as_given(storable(value)) for each, value in values.items()}


def _dates(fields: Mapping[str, Any]) -> DateSlices:
    if fields["step"] <= 0:
        msg = "slices 'dates' whose 'step' is above zero"
        raise ValueError(msg)
    if fields["format"] not in _FORMATS and "%" not in fields["format"]:
        msg = f"slices 'dates' whose 'format' is one of {', '.join(_FORMATS)}, or a pattern with %"
        raise ValueError(msg)
    start = _instant(fields["start"], "start")
    end = None if fields["end"] == "now" else _instant(fields["end"], "end")
    return DateSlices(start, end, fields["step"], fields["look_back"] or 0, fields["format"], fields["inclusive"])


def _instant(text: str, name: str) -> int:
    try:
        instant = dt.datetime.fromisoformat(text)
    except ValueError:
        msg = f"slices 'dates' whose {name!r} is an instant such as '2024-05-01' or '2024-05-01T12:00:00Z'"
        raise ValueError(msg) from None
    return round((instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)).timestamp() * 1000)


def names_of(slices: Slices) -> set[str]:
    """What the values of every slice are called."""
    match slices:
        case ListSlices() if slices.values:
            return set.intersection(*(set(values) for values in slices.values))
        case ListSlices():
            return {slices.name}
        case ParentSlices():
            return set(slices.fields)
        case DateSlices():
            return {"start", "end"}


def slice_at(slices: Slices, cursor: int, until: int) -> tuple[Mapping[str, Any], int] | None:
    """The values of the next slice and the cursor behind it; `None` behind the last, and for parents, who are asked.

    Args:
        slices: those of the source.
        cursor: of lists the number of slices before it, of dates the instant it starts at.
        until: of dates, where they end.
    """
    match slices:
        case ListSlices():
            return (slices.values[cursor], cursor + 1) if cursor < len(slices.values) else None
        case DateSlices():
            return _step_at(slices, cursor, until)
        case _:
            return None


def _step_at(slices: DateSlices, cursor: int, until: int) -> tuple[Mapping[str, Any], int] | None:
    """The next step of time. One without a whole day or second has no inclusive end, and is part of the next run's."""
    less = _less(slices)
    while cursor < until:
        end = min(cursor + slices.step, until)
        if not less or (end - less) // less >= cursor // less:
            return {"start": _written(slices, cursor), "end": _written(slices, end - less, is_last=less > 0)}, end
        cursor = end
    return None


def _less(slices: DateSlices) -> int:
    """What an inclusive end lies before the next start: the smallest unit that is written.

    More would leave out what happens in between, less would read it again with the next step.
    """
    if not slices.inclusive:
        return 0
    if slices.format in _FORMATS:
        return {"date": _DAY, "milliseconds": 1}.get(slices.format, 1000)
    written = set(_DIRECTIVE.findall(slices.format))
    return next((unit for signs, unit in _UNITS if written & set(signs)), _DAY)


def _written(slices: DateSlices, instant: int, *, is_last: bool = False) -> str | int:
    if slices.format == "milliseconds":
        return instant
    if slices.format == "seconds":
        return instant // 1000
    rest = _REST if is_last and "%f" in slices.format else _NO_REST
    return (to_datetime(instant) + rest).strftime(_TIMES.get(slices.format, slices.format))


def children(slices: ParentSlices, parents: Sequence[Any]) -> list[dict[str, Any]]:
    """The slices of a page of parents.

    Raises:
        StepFailed: (HTTP-022) a parent lacks a field; (HTTP-032) it names a secret.
    """
    found = [{name: storable(found_at(parent, steps)) for name, steps in slices.fields.items()} for parent in parents]
    for values in found:
        for name, value in values.items():
            if not isinstance(value, (str, int, float, bool)):
                msg = "a parent has no such field as a slice needs"
                known = ".".join(slices.fields[name])
                hint = "correct 'fields' in slices="
                raise StepFailed(msg, code="HTTP-022", found=repr(value)[:200], known=known, hint=hint)
            refuse_named(value)
    return found


def slice_name(values: Mapping[str, Any]) -> str:
    """What a slice is called as a partition."""
    if len(values) == 1:
        return text_of(next(iter(values.values())))
    return ",".join(f"{name}={text_of(value)}" for name, value in values.items()) or "0"
