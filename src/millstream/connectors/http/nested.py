"""Options that are mappings themselves: checked by a table of fields, as the options of a connector are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from millstream.errors import InvalidStep
from millstream.model.connector import Option
from millstream.model.time import duration_ms

Fields = Mapping[str, Option]


def nested(declared: Fields, value: Any, *, what: str) -> dict[str, Any]:
    """The fields of a mapping with defaults filled in.

    Raises:
        ValueError: says what was expected, for the error about the option.
    """
    if not isinstance(value, Mapping):
        msg = f"{what} as a mapping"
        raise ValueError(msg)  # noqa: TRY004
    for name in value:
        if name not in declared:
            msg = f"{what} without {name!r}; its fields are {', '.join(declared)}"
            raise ValueError(msg)
    return {name: _field(name, field, value, what) for name, field in declared.items()}


def _field(name: str, field: Option, values: Mapping[str, Any], what: str) -> Any:
    if name not in values:
        if field.is_required:
            msg = f"{what} with {name!r}: {field.doc}"
            raise ValueError(msg)
        return field.default if field.check is None else field.check(field.default)
    value = values[name]
    kinds = " or ".join("none" if kind is type(None) else kind.__name__ for kind in field.kind)
    if not isinstance(value, field.kind) or (isinstance(value, bool) and bool not in field.kind):
        msg = f"{what} whose {name!r} is {kinds}"
        raise ValueError(msg)
    if field.choices and value not in field.choices:
        msg = f"{what} whose {name!r} is one of {', '.join(map(str, field.choices))}"
        raise ValueError(msg)
    if field.check is None:
        return value
    try:
        return field.check(value)
    except ValueError as problem:
        msg = f"{what} whose {name!r} is {problem}"
        raise ValueError(msg) from None


def by_type(kinds: Mapping[str, Fields], value: Any, *, what: str) -> tuple[str, dict[str, Any]]:
    """The fields of a mapping whose `type` says which fields it has, and that type."""
    kind = str(value.get("type")) if isinstance(value, Mapping) else ""
    if kind not in kinds:
        msg = f"{what} as a mapping whose 'type' is one of {', '.join(kinds)}"
        raise ValueError(msg)
    rest = {name: field for name, field in value.items() if name != "type"}
    return kind, nested(kinds[kind], rest, what=f"{what} {kind!r}")


def checked_by(parse: Callable[[Any], object]) -> Callable[[Any], Any]:
    """A check that leaves a value as it was written, once it can be understood."""

    def check(value: Any) -> Any:
        parse(value)
        return value

    return check


def above_zero(value: Any) -> Any:
    """A number above zero, or none."""
    if value is not None and value <= 0:
        msg = "a number above zero"
        raise ValueError(msg)
    return value


def storable(value: Any) -> Any:
    """A JSON value as positions hold it: a whole number of more than 64 bits is text, as it would be written anyway."""
    is_large = isinstance(value, int) and not -(2**63) <= value < 2**63
    return str(value) if is_large else value


def kept_as_given(value: Any) -> Any:
    """A value that positions can hold as it is, or none."""
    if storable(value) is not value:
        msg = "a whole number of 64 bits"
        raise ValueError(msg)
    if isinstance(value, str) and not value.isascii():
        _check_unicode(value)
    return value


def _check_unicode(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        msg = "text of Unicode, without half of a pair of surrogates"
        raise ValueError(msg) from None


def duration(value: Any) -> int:
    """A duration in milliseconds, from text such as `1m` or a number of seconds; not below zero."""
    msg = "a duration such as '1m'"
    try:
        found = duration_ms(value)
    except InvalidStep:
        raise ValueError(msg) from None
    if found < 0:
        raise ValueError(msg)
    return found


def time_span(value: Any) -> int:
    """A duration in milliseconds that is above zero."""
    found = duration(value)
    if found == 0:
        msg = "a duration above zero, such as '1m'"
        raise ValueError(msg)
    return found


def optional_duration(value: Any) -> int | None:
    """A duration in milliseconds, or none."""
    return None if value is None else duration(value)


def filled_text(value: Any) -> Any:
    """Text that is not empty, or none."""
    if value == "":
        msg = "text that is not empty"
        raise ValueError(msg)
    return value
