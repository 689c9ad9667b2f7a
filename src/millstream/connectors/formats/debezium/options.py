"""Options of changes as Debezium writes them, and which columns may ask what of the envelope."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.model.changelog import Changelog
from millstream.model.connector import Option, Options
from millstream.model.schema import Schema

_UNITS = ("ms", "us", "ns")
_ASKED = {
    "op": (pa.types.is_string, "string"),
    "before": (pa.types.is_struct, "struct<...>"),
    "ts": (lambda kind: pa.types.is_timestamp(kind) or pa.types.is_int64(kind), "timestamp or long"),
    "lsn": (pa.types.is_int64, "long"),
}


def _units(value: str | Mapping[str, str] | None) -> str | Mapping[str, str] | None:
    units = value.values() if isinstance(value, Mapping) else [value or "ms"]
    if not all(unit in _UNITS for unit in units):
        msg = f"{', '.join(_UNITS)}, or one of them for each column"
        raise ValueError(msg)
    return value


def _envelope(value: Mapping[str, Any]) -> Mapping[str, Any]:
    if not all(part in _ASKED for part in value.values()):
        msg = f"columns with what they take: {', '.join(_ASKED)}"
        raise ValueError(msg)
    return value


ENVELOPE = Option(
    kind=(dict,),
    default={},
    doc="columns that take a part of the envelope: {'kind': 'op', 'old': 'before', 'at': 'ts', 'position': 'lsn'}",
    check=_envelope,
)
DEBEZIUM = {
    "envelope": ENVELOPE,
    "decimals": Option(
        kind=(str,),
        default="base64",
        choices=("base64", "text"),
        doc="what decimals are that are strings: bytes (decimal.handling.mode=precise), or digits",
    ),
    "times": Option(
        kind=(str, dict, type(None)),
        default=None,
        doc="unit of times that are numbers: ms, us or ns, for all columns or by column; without it they are refused",
        check=_units,
    ),
    "unchanged": Option(
        kind=(str,),
        default="fail",
        choices=("fail", "placeholder"),
        doc="whether a long value that did not change and was not sent makes a change bad, or is its placeholder",
    ),
    "truncates": Option(
        kind=(str,),
        default="fail",
        choices=("fail", "skip"),
        doc="whether a truncated table is a bad message, or passed over",
    ),
}


def changelog_of(options: Options, keys: Sequence[str]) -> Changelog | None:
    """Of what form changes are, if a column says what happened: an update is the new row alone."""
    op = next((name for name, part in options["envelope"].items() if part == "op"), None)
    return None if op is None else Changelog(op=op, keys=tuple(keys))


def check_told(options: Options, step: str) -> None:
    """Refuse to read changes of which nothing says what happened."""
    if changelog_of(options, ()) is None:
        msg = "no column says what happened to a row, so that changes would be taken for rows"
        hint = "add 'op string' to schema= and envelope={'op': 'op'}; .as_rows() takes each change for a row"
        raise InvalidStep(msg, code="FORMAT-008", step=step, hint=hint)


def check_debezium(options: Options, schema: Schema, step: str) -> None:
    """Refuse columns that cannot hold what they ask for."""
    for name, part in options["envelope"].items():
        fits, known = _ASKED[part]
        if name not in schema or not fits(schema[name].type):
            found = schema[name].type_name if name in schema else "no such column"
            msg = f"column {name!r} cannot take {part!r} of the envelope"
            hint = "correct the schema, or envelope="
            raise InvalidStep(msg, code="FORMAT-006", step=step, found=found, known=known, hint=hint)
    times = options.get("times")
    for name in times if isinstance(times, Mapping) else ():
        if name not in schema or name in options["envelope"]:
            msg = f"option 'times' names {name!r}, which is no column of the table"
            raise InvalidStep(msg, code="FORMAT-006", step=step, known=list(schema.names), hint="correct times=")
    if len(schema) == len(options["envelope"]):
        msg = "every column takes a part of the envelope, and none is of the table"
        raise InvalidStep(msg, code="FORMAT-006", step=step, found=schema.ddl, hint="add columns of the table")
