"""Values of settings: text that has a type, and what people may see of it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Literal, get_args

from millstream.errors import InvalidStep
from millstream.redaction import HIDDEN, REFERENCE, shown_url

ConfigType = Literal["STRING", "INT", "BOOLEAN", "JSON"]
CONFIG_TYPES: tuple[ConfigType, ...] = get_args(ConfigType)
_DEEPEST = 32
_INT = re.compile(r"[+-]?[0-9]{1,19}")
_INT_RANGE = range(-(2**63), 2**63)
_BOOLEANS = {"true": True, "false": False}
_LIKE_A_SECRET = re.compile(r"pass|secret|token|key|credential", re.IGNORECASE)
_USER_ALONE = re.compile(r"(?<=://)[^/@:\s?#]+@")
"""A token may stand where the name of a user stands in others."""


def is_hidden(key: str, *, is_sensitive: bool) -> bool:
    """Whether the value is hidden for its name, or because its owner says so."""
    return is_sensitive or _LIKE_A_SECRET.search(key) is not None


def config_type(given: object) -> ConfigType:
    """A type of settings; an unknown one is refused."""
    for known in CONFIG_TYPES:
        if given == known:
            return known
    msg = "unknown type of a setting"
    raise InvalidStep(msg, code="CTL-311", found=repr(given), known=CONFIG_TYPES, hint="use config_type STRING")


def typed_value(key: str, kind: ConfigType, given: Any, *, is_shown: bool = True) -> Any:
    """A value of that type, from its text or as JSON has it.

    Raises:
        InvalidStep: (CTL-311) it is none.
    """
    try:
        return _READ[kind](given)
    except (ValueError, RecursionError) as problem:
        msg = f"the value of {key!r} is no {kind}"
        found = repr(given)[:200] if is_shown else None
        known = str(problem) if is_shown or kind != "JSON" else "JSON"
        raise InvalidStep(msg, code="CTL-311", found=found, known=known, hint="correct config_value") from None


def stored_text(kind: ConfigType, value: Any) -> str:
    """The one text of a value, which `typed_value` reads."""
    if kind == "JSON":
        return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))
    return str(value).lower() if kind == "BOOLEAN" else str(value)


def shown_value(key: str, kind: ConfigType, text: str, *, is_sensitive: bool) -> str:
    """The text of a value as people may see it."""
    if is_sensitive:
        return HIDDEN
    if kind == "JSON":
        return stored_text(kind, _masked(key, json.loads(text)))
    shown = _masked(key, text)
    return str(shown)


def _masked(key: str, value: Any) -> Any:
    if isinstance(value, str) and REFERENCE.fullmatch(value):
        return value
    if is_hidden(key, is_sensitive=False):
        return HIDDEN
    if isinstance(value, dict):
        return {name: _masked(name, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(key, each) for each in value]
    return _USER_ALONE.sub(f"{HIDDEN}@", shown_url(value)) if isinstance(value, str) else value


def _string(given: Any) -> str:
    if not isinstance(given, str):
        msg = "text"
        raise ValueError(msg)  # noqa: TRY004  # told as one kind of mistake
    return given


def _int(given: Any) -> int:
    number = given
    if isinstance(given, str) and _INT.fullmatch(given.strip()):
        number = int(given)
    if type(number) is not int or number not in _INT_RANGE:
        msg = "a whole number of 64 bits"
        raise ValueError(msg)
    return number


def _boolean(given: Any) -> bool:
    found = _BOOLEANS.get(given.strip().lower()) if isinstance(given, str) else given
    if not isinstance(found, bool):
        msg = "true or false"
        raise ValueError(msg)  # noqa: TRY004
    return found


def _json(given: Any) -> Any:
    value = json.loads(given, parse_constant=_no_constant, object_pairs_hook=_once) if isinstance(given, str) else given
    _check_json(value, 0)
    return value


def _no_constant(name: str) -> Any:
    msg = f"JSON, which has no {name}"
    raise ValueError(msg)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        msg = "JSON whose objects have each name once"
        raise ValueError(msg)
    return made


def _check_json(value: Any, depth: int) -> None:
    if depth > _DEEPEST:
        msg = f"JSON of at most {_DEEPEST} levels"
        raise ValueError(msg)
    if isinstance(value, dict):
        if not all(isinstance(name, str) for name in value):
            msg = "JSON, whose names are text"
            raise ValueError(msg)
        for each in value.values():
            _check_json(each, depth + 1)
    elif isinstance(value, list):
        for each in value:
            _check_json(each, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        msg = "JSON, which has no infinite numbers"
        raise ValueError(msg)
    elif not isinstance(value, (str, int, float, bool, type(None))):
        msg = "JSON"
        raise ValueError(msg)


_READ: dict[ConfigType, Callable[[Any], Any]] = {"STRING": _string, "INT": _int, "BOOLEAN": _boolean, "JSON": _json}
