"""Options of the formats of messages, for connectors to take among theirs, and what does not go together.

A connector merges `DECODE` or `ENCODE` into its options, has an option `format` with choices from `FORMATS`, and calls
`check_format` when a step is built. Nothing heavy is imported here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa

from millstream.connectors.formats.debezium.options import DEBEZIUM, ENVELOPE, check_debezium
from millstream.errors import InvalidStep
from millstream.model.connector import Option, Options
from millstream.model.schema import Schema
from millstream.redaction import SecretUrl

_NO_DELIMITERS = frozenset('"\r\n\0')
"""What csv needs for something else: every record would be bad."""
FORMATS = ("json", "csv", "raw", "avro", "debezium")


def one_character(text: str) -> str:
    """Check what separates the columns of csv."""
    if len(text) != 1 or not text.isascii() or text in _NO_DELIMITERS:
        msg = "one ASCII character, and no quote or end of a line"
        raise ValueError(msg)
    return text


def _registry_url(url: str | None) -> str | None:
    if url is None:
        return None
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        msg = "a url such as https://registry:8081"
        raise ValueError(msg)
    return SecretUrl(url)


_DELIMITER = Option(kind=(str,), default=",", doc="what separates csv columns", check=one_character)
_IGNORE_EXTRA = Option(kind=(bool,), default=True, doc="whether to pass over fields of json that are no columns")
_AVRO_SCHEMA = Option(
    kind=(str, dict, list, type(None)),
    default=None,
    doc="the Avro schema of the messages: JSON text, or the value of it",
)
_REGISTRY = Option(
    kind=(str, type(None)),
    default=None,
    doc="url of a schema registry, `https://user:${secret:NAME}@host`; messages then begin with the number of their schema",
    check=_registry_url,
)
_SUBJECT = Option(kind=(str, type(None)), default=None, doc="the subject under which the registry has the schema")
_REGISTER = Option(kind=(bool,), default=True, doc="whether to register the schema; else it must be in the registry")

DECODE_OPTIONS: dict[str, dict[str, Option]] = {
    "json": {"ignore_extra": _IGNORE_EXTRA},
    "csv": {"delimiter": _DELIMITER},
    "raw": {},
    "avro": {"avro_schema": _AVRO_SCHEMA, "registry": _REGISTRY},
    "debezium": {"ignore_extra": _IGNORE_EXTRA, **DEBEZIUM},
}
"""What each format takes where messages are read."""
ENCODE_OPTIONS: dict[str, dict[str, Option]] = {
    "json": {},
    "csv": {"delimiter": _DELIMITER},
    "raw": {},
    "avro": {"avro_schema": _AVRO_SCHEMA, "registry": _REGISTRY, "subject": _SUBJECT, "register": _REGISTER},
    "debezium": {"envelope": ENVELOPE},
}
"""What each format takes where messages are written."""


def _merged(formats: Mapping[str, Mapping[str, Option]]) -> dict[str, Option]:
    return {name: option for options in formats.values() for name, option in options.items()}


DECODE: dict[str, Option] = _merged(DECODE_OPTIONS)
ENCODE: dict[str, Option] = _merged(ENCODE_OPTIONS)


def settled(declared: Mapping[str, Option], options: Options) -> dict[str, Any]:
    """The options of one format among those of a step; one that is not there has its default."""
    return {name: options.get(name, option.default) for name, option in declared.items()}


def check_format(options: Options, schema: Schema, step: str, *, writes: bool = False) -> None:
    """Refuse options that do not fit the format, and columns that the format cannot hold.

    Args:
        options: those of the step, with `format`; what is left out has its default.
        schema: the columns that are in the messages.
        step: the step that is built.
        writes: whether it writes messages; else it reads them.
    """
    chosen: str = options["format"]
    tables = ENCODE_OPTIONS if writes else DECODE_OPTIONS
    _refuse_options_of_others(chosen, tables, options, step)
    given = settled(tables[chosen], options)
    if chosen == "raw":
        _check_raw(schema, step)
    elif chosen == "csv":
        _check_csv(schema, step)
    elif chosen == "avro":
        _check_avro(given, schema, step, writes=writes)
    elif chosen == "debezium":
        check_debezium(given, schema, step)


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


def _check_avro(options: Options, schema: Schema, step: str, *, writes: bool) -> None:
    has_schema, has_registry = options["avro_schema"] is not None, options["registry"] is not None
    problem = None
    if not writes and has_schema == has_registry:
        problem = ("format 'avro' needs a schema or a registry, and not both", "pass avro_schema= or registry=")
    elif writes and has_registry and not options["subject"]:
        problem = ("a schema registry needs a subject", "pass subject=, such as 'orders-value'")
    elif writes and not has_registry and options["subject"]:
        problem = ("a subject needs a schema registry", "pass registry=, or leave subject= out")
    if problem:
        raise InvalidStep(problem[0], code="FORMAT-004", step=step, hint=problem[1])
    if has_schema or writes:
        _check_avro_schema(options, schema, step, writes=writes)


def _check_avro_schema(options: Options, schema: Schema, step: str, *, writes: bool) -> None:
    from millstream.connectors.formats.avro.columns import row_reading
    from millstream.connectors.formats.avro.derived import schema_of_columns
    from millstream.connectors.formats.avro.schema import avro_type
    from millstream.connectors.formats.avro.writing import row_writing

    try:
        written = avro_type(options["avro_schema"] or schema_of_columns(schema))
        _ = row_writing(written, schema) if writes else row_reading(written, schema)
    except ValueError as problem:
        msg = "the columns do not fit the Avro schema"
        hint = "change the schema of the step, or avro_schema="
        raise InvalidStep(msg, code="FORMAT-005", step=step, found=str(problem), hint=hint) from None
