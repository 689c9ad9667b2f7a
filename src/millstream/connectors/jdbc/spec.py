"""Options of the `jdbc` sink, and the declaration of both halves."""

from __future__ import annotations

import re
from collections.abc import Sequence

from millstream.connectors.jdbc.checks import above_zero, column_names, listed, variable_name
from millstream.connectors.jdbc.reading.spec import SOURCE
from millstream.database.url import address_of
from millstream.errors import InvalidStep
from millstream.model.changelog import KIND_TYPE, Changelog, check_applied_by
from millstream.model.connector import (
    ConnectorDeclaration,
    ConnectorSpec,
    Extra,
    Option,
    Options,
    SinkDeclaration,
    WriteKind,
    write_option,
)
from millstream.model.guarantee import Guarantee, SinkCapability
from millstream.model.schema import Schema
from millstream.redaction import SecretUrl

MODES = ("insert", "upsert", "outbox")
BATCH_ROWS = 100_000
_WRITES_OF = {"insert": ("append", "replace"), "upsert": ("upsert", "replace"), "outbox": ("append",)}
"""What may be said of how a run writes, by what becomes of a row. An outbox is a log of epochs: nothing in it is replaced."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_$]{0,47}")


def jdbc(
    url: str,
    *,
    table: str,
    mode: str | None = None,
    keys: Sequence[str] = (),
    schema: str | None = None,
    op_field: str | None = None,
    create: bool = True,
    password_env: str | None = None,
    write: WriteKind | None = None,
    batch_rows: int = BATCH_ROWS,
) -> ConnectorSpec:
    """A table of a PostgreSQL or SQLite database, in which an epoch's rows appear all at once.

    Args:
        url: `postgresql://user@host:port/database` or `sqlite:///path`; `user:${secret:NAME}@` names the password.
        table: the table to write to.
        mode: `insert` adds rows, which is what happens where nothing is said; `upsert` replaces the row with the same keys;
            `outbox` adds rows with their epoch, to be read through the view `<table>_published`.
        keys: the columns that identify a row, for `upsert`.
        schema: the database schema of the table, for PostgreSQL.
        op_field: for `upsert`: the column that tells which rows delete; behind a changelog it is known.
        create: whether to create the table when it is missing.
        password_env: the environment variable that holds the password, read where a connection is opened.
        write: how a run writes: `append` and `upsert` say what the modes `insert` and `upsert` say; with `replace` the rows of a
            run take the place of all rows of the table, in one step at its end.
        batch_rows: rows that one statement sends at most.
    """
    options = {"url": SecretUrl(url), "table": table, "keys": listed(keys), "schema": schema, "create": create}
    named = (("mode", mode), ("write", write), ("op_field", op_field))
    said = {name: value for name, value in named if value is not None}
    return ConnectorSpec("jdbc", {**options, **said, "password_env": password_env, "batch_rows": batch_rows})


def check_together(options: Options, schema: Schema, step: str) -> None:
    """Refuse options that make no sense side by side, or for rows of that schema."""
    problem = None
    if options["mode"] == "upsert" and not options["keys"]:
        problem = ("mode 'upsert' needs keys", "pass keys=[...] with the columns that identify a row")
    elif options["mode"] != "upsert" and options["keys"]:
        problem = (f"mode {options['mode']!r} takes no keys", "pass mode='upsert' or leave keys= out")
    elif options["mode"] != "upsert" and options["op_field"] is not None:
        problem = (f"mode {options['mode']!r} deletes no rows", "pass mode='upsert' or leave op_field= out")
    elif options["write"] not in (None, *_WRITES_OF[options["mode"]]):
        problem = (
            f"write={options['write']!r} and mode={options['mode']!r} contradict each other",
            "leave one of them out",
        )
    elif options["schema"] is not None and address_of(options["url"]).kind == "sqlite":
        problem = ("SQLite has no schemas", "leave schema= out")
    if problem:
        raise InvalidStep(problem[0], code="JDBC-001", step=step, hint=problem[1])
    if unknown := [key for key in options["keys"] if key not in schema]:
        msg = f"key {unknown[0]!r} is not a column of the rows"
        raise InvalidStep(msg, code="JDBC-001", step=step, known=list(schema.names), hint="correct keys=")
    op = options["op_field"]
    if op is not None and (op in options["keys"] or op not in schema or schema[op].type != KIND_TYPE):
        msg = f"column {op!r} cannot tell which rows delete"
        known = "a string column of the rows that is no key"
        raise InvalidStep(msg, code="JDBC-001", step=step, known=known, hint="correct op_field=")


def take_changes(options: Options, changelog: Changelog, step: str) -> Options:
    """Changes are applied to the row that has their keys."""
    if options["mode"] != "upsert":
        msg = f"mode {options['mode']!r} adds rows, and these are changes of rows"
        hint = "pass mode='upsert' and keys=[...]; or call .as_rows() before the sink, to keep each change as a row"
        raise InvalidStep(msg, code="CHANGE-008", step=step, found=changelog.describe(), hint=hint)
    check_applied_by(changelog, options["keys"], step, option="keys")
    if options["op_field"] not in {None, changelog.op}:
        msg = f"op_field= names another column than {changelog.op!r}, which says what became of a row"
        raise InvalidStep(msg, code="CHANGE-008", step=step, found=options["op_field"], hint="leave op_field= out")
    return {"op_field": changelog.op}


def _url(value: str) -> str:
    address_of(value)
    return SecretUrl(value)


def _identifier(value: str | None) -> str | None:
    if value is not None and not _IDENTIFIER.fullmatch(value):
        msg = "at most 48 letters, digits, '_' and '$', not starting with a digit"
        raise ValueError(msg)
    return value


def _mode_of(options: Options) -> str:
    return "upsert" if options.get("write") == "upsert" else "insert"


def _capability(options: Options) -> SinkCapability:
    if options["mode"] == "outbox":
        return SinkCapability.OUTBOX_EPOCH_LOG
    return SinkCapability.STAGED_ATOMIC_COMMIT


def _writes_directly(options: Options, guarantee: Guarantee) -> bool:
    """Staging is left out where rows may repeat, or where a repeated row replaces itself."""
    if options["mode"] == "outbox" or guarantee is Guarantee.EXACTLY_ONCE:
        return False
    if options.get("op_field") is not None:
        return False  # the changes of a row may come by several tasks, and have an order
    return guarantee is not Guarantee.EFFECTIVELY_ONCE or options["mode"] == "upsert"


DECLARATION = ConnectorDeclaration(
    name="jdbc",
    extras=(
        Extra("sql", "adbc_driver_postgresql", "reading PostgreSQL"),
        Extra("mysql", "connectorx", "reading MySQL"),
    ),
    source=SOURCE,
    sink=SinkDeclaration(
        options={
            "url": Option(kind=(str,), doc="postgresql://user@host:port/database or sqlite:///path", check=_url),
            "table": Option(kind=(str,), doc="the table to write to", check=_identifier),
            "mode": Option(
                kind=(str,), default="insert", default_from=_mode_of, choices=MODES, doc="what becomes of a row"
            ),
            "write": write_option("append", "replace", "upsert"),
            "keys": Option(kind=(str, list, tuple), default=[], doc="columns that identify a row", check=column_names),
            "op_field": Option(
                kind=(str, type(None)), default=None, doc="the column that tells which rows delete; known of changelogs"
            ),
            "schema": Option(
                kind=(str, type(None)), default=None, doc="the database schema of the table", check=_identifier
            ),
            "create": Option(kind=(bool,), default=True, doc="whether to create the table when it is missing"),
            "password_env": Option(
                kind=(str, type(None)), default=None, doc="the variable that holds the password", check=variable_name
            ),
            "batch_rows": Option(kind=(int,), default=BATCH_ROWS, doc="rows of a statement at most", check=above_zero),
        },
        capability=SinkCapability.STAGED_ATOMIC_COMMIT,
        capability_of=_capability,
        writer="millstream.connectors.jdbc.writer:JdbcWriter",
        committer="millstream.connectors.jdbc.committer:JdbcCommitter",
        direct_writer="millstream.connectors.jdbc.writer:JdbcDirectWriter",
        writes_directly=_writes_directly,
        takes_changes=take_changes,
        batch_option=lambda _: ("batch_rows",),
        check=check_together,
        variants=(*({"mode": mode} for mode in MODES), {"write": "replace"}),
        probe="millstream.connectors.jdbc.looking:look_at_table",
        read_back="millstream.connectors.jdbc.letters:read_back",
        remove="millstream.connectors.jdbc.letters:remove",
    ),
)
