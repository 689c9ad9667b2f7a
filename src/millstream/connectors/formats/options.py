"""Options of the formats of messages, for connectors to take among theirs, and what does not go together.

A connector merges `DECODE` or `ENCODE` into its options, has an option `format` with choices from `FORMATS`, and calls
`check_format` when a step is built. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from millstream.errors import InvalidStep
from millstream.model.connector import Option, Options
from millstream.model.schema import Schema

FORMATS = ("json", "csv", "raw")


def one_character(text: str) -> str:
    """Check what separates the columns of csv."""
    if len(text) != 1 or not text.isascii():
        msg = "one ASCII character"
        raise ValueError(msg)
    return text


_DELIMITER = Option(kind=(str,), default=",", doc="what separates csv columns", check=one_character)
_IGNORE_EXTRA = Option(kind=(bool,), default=True, doc="whether to pass over fields of json that are no columns")

DECODE_OPTIONS: dict[str, dict[str, Option]] = {
    "json": {"ignore_extra": _IGNORE_EXTRA},
    "csv": {"delimiter": _DELIMITER},
    "raw": {},
}
"""What each format takes where messages are read."""
ENCODE_OPTIONS: dict[str, dict[str, Option]] = {
    "json": {},
    "csv": {"delimiter": _DELIMITER},
    "raw": {},
}
"""What each format takes where messages are written."""


def _merged(formats: Mapping[str, Mapping[str, Option]]) -> dict[str, Option]:
    return {name: option for options in formats.values() for name, option in options.items()}


DECODE: dict[str, Option] = _merged(DECODE_OPTIONS)
ENCODE: dict[str, Option] = _merged(ENCODE_OPTIONS)


def check_format(options: Options, schema: Schema, step: str, *, writes: bool = False) -> None:
    """Refuse options that do not fit the format, and columns that the format cannot hold.

    Args:
        options: those of the step, with `format`.
        schema: the columns that are in the messages.
        step: the step that is built.
        writes: whether it writes messages; else it reads them.
    """
    chosen: str = options["format"]
    tables = ENCODE_OPTIONS if writes else DECODE_OPTIONS
    _refuse_options_of_others(chosen, tables, options, step)
    if chosen == "raw":
        _check_raw(schema, step)
    elif chosen == "csv":
        _check_csv(schema, step)


def _refuse_options_of_others(
    chosen: str, tables: Mapping[str, Mapping[str, Option]], options: Options, step: str
) -> None:
    for name, option in _merged(tables).items():
        if name not in tables[chosen] and options.get(name, option.default) != option.default:
            msg = f"format {chosen!r} has no option {name!r}"
            raise InvalidStep(msg, code="FORMAT-001", step=step, known=tables[chosen], hint=f"leave {name}= out")


def _check_raw(schema: Schema, step: str) -> None:
    kinds = [field.type for field in schema]
    if len(kinds) != 1 or not (pa.types.is_binary(kinds[0]) or pa.types.is_string(kinds[0])):
        msg = "format 'raw' needs one column, of type binary or string"
        hint = "declare one such column, or use another format="
        raise InvalidStep(msg, code="FORMAT-002", step=step, found=schema.ddl, hint=hint)


def _check_csv(schema: Schema, step: str) -> None:
    if nested := [field.name for field in schema if pa.types.is_nested(field.type)]:
        msg = "csv holds no nested columns"
        hint = "leave them out of the schema, or use format='json'"
        raise InvalidStep(msg, code="FORMAT-003", step=step, found=", ".join(nested), hint=hint)
