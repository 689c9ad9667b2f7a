"""Stored values as people may see them: JSON values, without what looks like a secret, cut where they are too large."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from typing import Any

from millstream.redaction import HIDDEN, redacted, shown_setting

MOST_BYTES = 1 << 16
"""Of one value."""


def plain(value: Any, name: str = "") -> Any:
    """A value as JSON has it; `name` is that of its column or field."""
    if name and value is not None and not isinstance(value, (dict, list, tuple)) and _is_secret(name):
        return HIDDEN
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case str():
            return redacted(value)
        case bytes():
            return base64.b64encode(value).decode()
        case dict():
            return {str(field): plain(each, str(field)) for field, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain(each, name) for each in value]
        case dt.datetime() | dt.date() | dt.time():
            return value.isoformat()
        case decimal.Decimal():
            return str(value)
        case _:
            return redacted(str(value))


def _is_secret(name: str) -> bool:
    return shown_setting(name, "") == HIDDEN


def fitting(value: Any, most: int = MOST_BYTES) -> tuple[Any, int | None]:
    """The value, or its beginning as text and the bytes that it has."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) * 4 <= most:
        return value, None
    content = text.encode()
    if len(content) <= most:
        return value, None
    return content[:most].decode(errors="ignore"), len(content)


def label(key: list[Any]) -> str:
    """A key in its readable form: text as it is, other values as JSON, several with commas between them."""
    return ", ".join(each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in key)
