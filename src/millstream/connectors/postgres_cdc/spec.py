"""Options of the `postgres_cdc` source."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.database.url import SCHEMES, address_of
from millstream.errors import InvalidStep
from millstream.model.changelog import Changelog
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, Options, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import Schema
from millstream.model.time import duration_ms
from millstream.model.types import type_name
from millstream.redaction import SecretUrl

METADATA: dict[str, tuple[pa.DataType, ...]] = {
    "op": (pa.string(),),
    "lsn": (pa.int64(),),
    "commit_time": (pa.timestamp("us", tz="UTC"),),
    "xid": (pa.int64(),),
    "unchanged": (pa.list_(pa.string()),),
}
"""What a column may hold beside those of the table, and its type then; `before` is a struct of columns of the table."""
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,62}")
_SLOT = re.compile(r"[a-z0-9_]{1,63}")


def postgres_cdc(
    url: str,
    *,
    table: str,
    keys: Sequence[str],
    slot: str,
    publication: str | None = None,
    schema: str | None = None,
    start: str = "snapshot",
    images: str = "after",
    metadata: Mapping[str, str] | None = None,
    unchanged: str = "fail",
    placeholder: str | None = None,
    on_ddl: str = "fail",
    on_truncate: str = "fail",
    create: bool = True,
    idle: str | float = "10s",
) -> ConnectorSpec:
    """A table of PostgreSQL: its rows as they are, then every change of them, in the order of commits.

    Args:
        url: `postgresql://user@host:port/database`; `user:${secret:NAME}@` names the password.
        table: the table to read.
        keys: the columns that identify a row: those of its primary key or of another unique index.
        slot: the replication slot, of this source alone. It is never dropped by a job.
        publication: the publication with the table; by default it bears the name of the slot.
        schema: the database schema of the table; by default the first of the search path that has it.
        start: `snapshot` reads the rows that are there first; `now` begins with the first change.
        images: `after`: an update is the new row, a delete the key; `both`: an update is the row that goes and the one that
            comes, for which the table needs REPLICA IDENTITY FULL.
        metadata: column → op, lsn, commit_time, xid, unchanged or before; `{"op": "op"}` by default. `op` is always needed.
        unchanged: what a long value becomes that an update left alone and the server does not send: `fail` makes the change a
            bad record, `placeholder` takes the given text, `lookup` asks the table, which may have a newer one.
        placeholder: that text; null by default.
        on_ddl: `fail`: the published columns must be the declared ones; `ignore_new`: others are passed over;
            `null_missing`: besides, declared columns that are gone are null.
        on_truncate: `fail`, or `ignore` for a truncated table whose rows shall stay.
        create: whether to create publication and slot; with `False` they must be there.
        idle: how often the slot is moved on while the table is quiet, so that the server can remove its log.
    """
    options: dict[str, Any] = {
        "url": SecretUrl(url),
        "table": table,
        "schema": schema,
        "keys": list(keys) if isinstance(keys, Iterable) and not isinstance(keys, str) else keys,
        "slot": slot,
    }
    options |= {
        "publication": publication,
        "start": start,
        "images": images,
        "metadata": dict(metadata or {"op": "op"}),
    }
    options |= {"unchanged": unchanged, "placeholder": placeholder, "on_ddl": on_ddl, "on_truncate": on_truncate}
    return ConnectorSpec("postgres_cdc", {**options, "create": create, "idle": idle})


def column_of(options: Options, part: str) -> str | None:
    """The column that holds something beside the columns of the table."""
    return next((column for column, asked in options["metadata"].items() if asked == part), None)


def table_schema(options: Options, schema: Schema) -> Schema:
    """The columns of the table."""
    return Schema(tuple(field for field in schema if field.name not in options["metadata"]))


def changelog(options: Options, schema: Schema) -> Changelog | None:
    """What the rows of the source say."""
    del schema
    op = column_of(options, "op")
    if op is None:
        return None  # which the check of the options refuses
    return Changelog(op=op, keys=tuple(options["keys"]), is_whole=options["images"] == "both")


def _check(options: Options, schema: Schema, step: str) -> None:
    _check_metadata(options, schema, step)
    columns = table_schema(options, schema)
    if unknown := [key for key in options["keys"] if key not in columns]:
        msg = f"key {unknown[0]!r} is not a column of the table in the schema"
        raise _unfit(msg, step, known=columns.names, hint="add it to schema=, or correct keys=")
    nested = [field for field in columns if pa.types.is_nested(field.type)]
    if nested:
        msg = f"column {nested[0].name!r} is nested, which columns of the table cannot be"
        hint = "declare it as string: arrays and json come as their text"
        raise _unfit(msg, step, found=nested[0].type_name, known="plain types", hint=hint)
    required = [field.name for field in columns if not field.nullable and field.name not in options["keys"]]
    if required and options["images"] == "after":
        msg = f"column {required[0]!r} cannot be null, and is in the row of a delete, which holds the key alone"
        hint = "leave out 'not null', or pass images='both'"
        raise _unfit(msg, step, hint=hint)
    if options["unchanged"] == "placeholder" and column_of(options, "unchanged") is None:
        msg = "with unchanged='placeholder' a column must say which values are placeholders"
        hint = "add 'unchanged array<string>' to schema= and 'unchanged': 'unchanged' to metadata="
        raise _unfit(msg, step, hint=hint)
    if options["unchanged"] != "placeholder" and options["placeholder"] is not None:
        msg = f"unchanged={options['unchanged']!r} has no place for placeholder="
        raise _unfit(msg, step, hint="pass unchanged='placeholder', or leave placeholder= out")


def _check_metadata(options: Options, schema: Schema, step: str) -> None:
    if column_of(options, "op") is None:
        msg = "no column says what happened to a row, so that changes would be taken for rows"
        raise _unfit(msg, step, hint="add 'op': 'op' to metadata= and 'op string' to schema=")
    for column, part in options["metadata"].items():
        if column not in schema:
            msg = f"metadata= names {column!r}, which is not a column of the schema"
            raise _unfit(msg, step, known=schema.names, hint=f"add it to schema=, such as '{column} {_type_of(part)}'")
        if part == "before":
            _check_before(options, schema, column, step)
        elif schema[column].type not in METADATA[part]:
            msg = f"column {column!r} is to hold {part!r} and has another type"
            known = _type_of(part)
            raise _unfit(msg, step, found=schema[column].type_name, known=known, hint="correct schema=")


def _check_before(options: Options, schema: Schema, column: str, step: str) -> None:
    kind, table = schema[column].type, table_schema(options, schema)
    fields = list(kind) if pa.types.is_struct(kind) else []
    if not fields or any(field.name not in table or field.type != table[field.name].type for field in fields):
        msg = f"column {column!r} is to hold the row as it was, and is no struct of columns of the table"
        known = f"struct<{', '.join(f'{field.name}: {field.type_name}' for field in table)}>"
        raise _unfit(msg, step, found=schema[column].type_name, known=known, hint="correct schema=")


def _type_of(part: str) -> str:
    return "struct<...>" if part == "before" else " or ".join(type_name(each) for each in METADATA[part])


def _unfit(msg: str, step: str, *, hint: str, found: object = None, known: object = None) -> InvalidStep:
    return InvalidStep(msg, code="CDC-001", step=step, found=found, known=known, hint=hint)


def _url(value: str) -> str:
    scheme = value.partition("://")[0].lower()
    if SCHEMES.get(scheme) != "postgresql":
        msg = "postgresql://user@host:port/database"
        raise ValueError(msg)
    address_of(value)
    return SecretUrl(value)


def _name(value: str | None) -> str | None:
    if value is not None and not _NAME.fullmatch(value):
        msg = "at most 63 letters, digits, '_' and '$', not starting with a digit"
        raise ValueError(msg)
    return value


def _slot(value: str) -> str:
    if not _SLOT.fullmatch(value):
        msg = "at most 63 lower-case letters, digits and '_'"
        raise ValueError(msg)
    return value


def _columns(given: str | Sequence[str]) -> list[str]:
    value = [given] if isinstance(given, str) else given
    if not value or not all(isinstance(name, str) for name in value) or len(set(value)) != len(value):
        msg = "one or more different column names"
        raise ValueError(msg)
    return list(value)


def _metadata(value: Mapping[str, Any]) -> dict[str, str]:
    known = (*METADATA, "before")
    if not all(part in known for part in value.values()) or len(set(value.values())) != len(value):
        msg = f"columns with what they hold: each of {', '.join(known)} at most once"
        raise ValueError(msg)
    return dict(value)


def _duration(value: Any) -> Any:
    duration_ms(value, what="idle")
    return value


def _capability(options: Options) -> SourceCapability:
    """What is looked up in the table may be another value the next time."""
    return SourceCapability.AT_LEAST_ONCE if options["unchanged"] == "lookup" else SourceCapability.REPLAYABLE


_TEXT = (str, type(None))
DECLARATION = ConnectorDeclaration(
    name="postgres_cdc",
    source=SourceDeclaration(
        options={
            "url": Option(kind=(str,), doc="postgresql://user@host:port/database", check=_url),
            "table": Option(kind=(str,), doc="the table to read", check=_name),
            "schema": Option(kind=_TEXT, default=None, doc="the database schema of the table", check=_name),
            "keys": Option(kind=(str, list, tuple), doc="columns that identify a row", check=_columns),
            "slot": Option(kind=(str,), doc="the replication slot, of this source alone", check=_slot),
            "publication": Option(kind=_TEXT, default=None, doc="the publication with the table", check=_name),
            "start": Option(
                kind=(str,), default="snapshot", choices=("snapshot", "now"), doc="with the rows, or the next change"
            ),
            "images": Option(
                kind=(str,),
                default="after",
                choices=("after", "both"),
                doc="whether an update is the new row, or the row that goes and the one that comes",
            ),
            "metadata": Option(
                kind=(dict,),
                default={"op": "op"},
                doc="column → op, lsn, commit_time, xid, unchanged or before",
                check=_metadata,
            ),
            "unchanged": Option(
                kind=(str,),
                default="fail",
                choices=("fail", "placeholder", "lookup"),
                doc="what becomes of a long value that an update left alone",
            ),
            "placeholder": Option(kind=_TEXT, default=None, doc="the text in the place of such a value"),
            "on_ddl": Option(
                kind=(str,),
                default="fail",
                choices=("fail", "ignore_new", "null_missing"),
                doc="when the columns of the table are not the declared ones",
            ),
            "on_truncate": Option(
                kind=(str,), default="fail", choices=("fail", "ignore"), doc="when the table is truncated"
            ),
            "create": Option(kind=(bool,), default=True, doc="whether to create publication and slot"),
            "idle": Option(
                kind=(str, int, float), default="10s", doc="how often a quiet slot is moved on", check=_duration
            ),
        },
        capability=SourceCapability.REPLAYABLE,
        capability_of=_capability,
        enumerator="millstream.connectors.postgres_cdc.source:CdcEnumerator",
        reader="millstream.connectors.postgres_cdc.reader:CdcReader",
        check=_check,
        changelog=changelog,
        variants=({}, {"unchanged": "lookup"}),
        sample="millstream.connectors.postgres_cdc.sample:sample",
    ),
)
