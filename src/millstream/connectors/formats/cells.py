"""What a cell of text stands for: of csv, or of the name of a folder."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

_BLANKS = " \t"
"""What Arrow passes over around the numbers and dates of csv."""
_PLAIN_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?")
_WHOLE_NUMBER = re.compile(r"\s*[-+]?\d+\s*")


def cell_value(text: str, kind: pa.DataType) -> Any:
    """The JSON value that a csv cell or the name of a folder stands for; text that fits nothing is left as it is."""
    if pa.types.is_boolean(kind):
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    if pa.types.is_timestamp(kind):
        return int(text) if _WHOLE_NUMBER.fullmatch(text) else text
    if pa.types.is_integer(kind):
        return int(text) if _WHOLE_NUMBER.fullmatch(text) else _number(text, kind)
    if pa.types.is_floating(kind):
        return _number(text, kind)
    return text.strip(_BLANKS) if pa.types.is_date(kind) else text


def _number(text: str, kind: pa.DataType) -> Any:
    """The number as Arrow reads it from csv, so that a cell means the same whichever way its file is read."""
    try:
        if pa.types.is_float64(kind) and _PLAIN_NUMBER.fullmatch(text):
            return float(text)  # the same number, and much faster; other forms are not the same for Python and Arrow
        return pa.scalar(text.strip(_BLANKS)).cast(kind).as_py()
    except pa.ArrowInvalid:
        return text
