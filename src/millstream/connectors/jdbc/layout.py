"""The tables of a sink: the target, where rows wait, and the bookkeeping; and how they are created and checked.

| table | holds |
|---|---|
| `millstream_fence` | the highest token of each (job, lineage, step), and up to which epoch markers were pruned |
| `millstream_marker` | one row for each published epoch: its digest, its rows, by which token |
| `millstream_part` | one row for each task's attempt at an epoch; waiting rows point to it by a number |
| `millstream_staging_…` | rows of `insert` and `upsert` that wait for their epoch |
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence

from millstream.connectors.jdbc.database import VIEW_MARK, Cursor, Database, FoundColumn, Login, quoted
from millstream.connectors.jdbc.postgres import PostgresDatabase
from millstream.connectors.jdbc.spec import check_together
from millstream.connectors.jdbc.sqlite import SqliteDatabase
from millstream.database.url import address_of
from millstream.errors import CheckpointRefused, InvalidSchema, InvalidStep
from millstream.model.connector import Options, replaces
from millstream.model.schema import Field, Schema

OURS = ("ms_part", "ms_seq", "ms_hash")
"""Columns of waiting rows and of an outbox."""
STAGING = "millstream_staging_"
"""How the names of tables begin in which rows wait."""
SHOWN = ("job", "lineage", "step", "epoch", "task")
"""Columns of a part that the view of an outbox shows, with `ms_` before them."""
_LONGEST_NAME = 63


def open_database(options: Options, *, job: str, step: str) -> Database:
    """The database of a sink; it connects when it is first used."""
    address = address_of(options["url"])
    login = Login(address=address, password_env=options["password_env"], job=job, step=step)
    return SqliteDatabase(login) if address.kind == "sqlite" else PostgresDatabase(login, options["schema"])


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Names as they stand in statements."""

    mode: str
    table: str
    """The target, as the user wrote it."""
    schema: Schema
    """The columns of the rows as they wait."""
    names: tuple[str, ...]
    """The columns of the target."""
    keys: tuple[str, ...]
    place_table: str
    """Where rows wait: a staging table, or the outbox itself."""
    target: str
    place: str
    fence: str
    marker: str
    part: str
    mark: str
    """What stands before the number of a bound value."""
    replaces: bool = False
    """Whether the rows of a run wait until its end, and then take the place of all rows of the target."""
    op: str | None = None
    """The column that says which rows delete; it is none of the target."""

    @property
    def shown(self) -> list[Field]:
        """The columns of the target."""
        return [field for field in self.schema if field.name != self.op]

    @property
    def columns(self) -> str:
        """The user's columns, quoted."""
        return ", ".join(map(quoted, self.names))

    def marks(self, count: int, *, after: int = 0) -> str:
        """Places for that many bound values."""
        return ", ".join(f"{self.mark}{after + number + 1}" for number in range(count))

    def same_sink(self) -> str:
        """The rows of this (job, lineage, step), bound to the first three values."""
        return f"job = {self.mark}1 AND lineage = {self.mark}2 AND step = {self.mark}3"


def layout_of(options: Options, schema: Schema, database: Database, *, step: str) -> Layout:
    """The tables of a sink, with its options and column names checked."""
    check_together(options, schema, step)
    _check_names(options, schema, step)
    table: str = options["table"]
    shape = hashlib.sha256(f"{table}\n{schema.ddl}".encode()).hexdigest()[:16]
    place = table if options["mode"] == "outbox" else f"{STAGING}{shape}"
    return Layout(
        mode=options["mode"],
        table=table,
        schema=schema,
        names=tuple(name for name in schema.names if name != options["op_field"]),
        keys=tuple(options["keys"]),
        place_table=place,
        target=database.name(table),
        place=database.name(place),
        fence=database.name("millstream_fence"),
        marker=database.name("millstream_marker"),
        part=database.name("millstream_part"),
        mark=database.mark,
        op=options["op_field"],
        replaces=replaces(options),
    )


def waiting_table(cursor: Cursor, database: Database, layout: Layout, name: str) -> str:
    """A table in which rows wait, as a manifest or the bookkeeping names it: only tables of sinks are read or emptied.

    It may be that of other columns, or the outbox that the step had before.
    """
    if name == layout.place_table:
        return name
    columns = database.columns(cursor, name)
    if columns is None or any(column not in columns for column in OURS):
        msg = f"rows are said to wait in {name!r}, which is no table of a sink"
        hint = "somebody changed the manifest or the bookkeeping, or removed the table; restore it from a copy"
        raise CheckpointRefused(msg, code="JDBC-020", found=list(columns or ()), known=list(OURS), hint=hint)
    return name


def _check_names(options: Options, schema: Schema, step: str) -> None:
    reserved = {*OURS, *(f"ms_{name}" for name in SHOWN)}
    for name in schema.names:
        if name in reserved or len(name.encode()) > _LONGEST_NAME or "\0" in name:
            msg = f"column {name!r} cannot be a column of the table"
            hint = f"rename it; names have at most {_LONGEST_NAME} bytes and are none of ours"
            raise InvalidSchema(msg, code="JDBC-009", step=step, known=sorted(reserved), hint=hint)


def prepare_tables(database: Database, layout: Layout, *, create: bool, step: str) -> None:
    """Check the target and create what is missing, also when several do it at once."""

    def work(cursor: Cursor) -> None:
        database.lock_layout(cursor)
        _prepare_bookkeeping(cursor, database, layout)
        _prepare_target(cursor, database, layout, create=create, step=step)
        if layout.mode == "outbox":
            _prepare_view(cursor, database, layout, step=step)
        elif database.columns(cursor, layout.place_table) is None:
            _create_place(cursor, database, layout)
        database.let_rows_go(cursor, layout.place_table)

    database.run(work)


def _prepare_bookkeeping(cursor: Cursor, database: Database, layout: Layout) -> None:
    kind, now = database.moment()
    sink = "job TEXT NOT NULL, lineage TEXT NOT NULL, step TEXT NOT NULL"
    wanted = {
        "millstream_fence": f"{sink}, token BIGINT NOT NULL, low_water BIGINT NOT NULL DEFAULT -1, "
        "PRIMARY KEY (job, step, lineage)",
        "millstream_marker": f"{sink}, epoch BIGINT NOT NULL, token BIGINT NOT NULL, digest TEXT NOT NULL, "
        f"rows BIGINT NOT NULL, published_at {kind} NOT NULL DEFAULT {now}, PRIMARY KEY (job, step, lineage, epoch)",
        "millstream_part": f"part BIGINT PRIMARY KEY, {sink}, epoch BIGINT NOT NULL, task TEXT NOT NULL, "
        "attempt TEXT NOT NULL, place TEXT NOT NULL, rows BIGINT NOT NULL, is_published BOOLEAN NOT NULL",
    }
    for table, columns in wanted.items():
        if database.columns(cursor, table) is None:
            cursor.execute(f"CREATE TABLE {database.name(table)} ({columns})")
            if table == "millstream_part":
                index = "CREATE INDEX millstream_part_sink ON"
                cursor.execute(f"{index} {layout.part} (job, step, lineage, epoch)")


def definition(database: Database, field: Field) -> str:
    """A column as it is created, without `NOT NULL`."""
    return f"{quoted(field.name)} {database.column_type(field.type, field.type_name)}"


def _waiting(database: Database, layout: Layout) -> str:
    columns = ", ".join(definition(database, field) for field in layout.schema)
    return f"ms_part BIGINT NOT NULL, ms_seq BIGINT NOT NULL, ms_hash BIGINT NOT NULL, {columns}"


def _create_place(cursor: Cursor, database: Database, layout: Layout) -> None:
    cursor.execute(f"CREATE TABLE {layout.place} ({_waiting(database, layout)})")
    cursor.execute(f"CREATE INDEX {quoted(layout.place_table + '_part')} ON {layout.place} (ms_part)")


def _prepare_view(cursor: Cursor, database: Database, layout: Layout, *, step: str) -> None:
    """Create the view of an outbox. One of ours is kept, or made anew where it lacks a column; no other is touched."""
    view, wanted = f"{layout.table}_published", _view_query(layout, layout.schema.names)
    shown = database.columns(cursor, view)
    if shown is None:
        database.create_view(cursor, view, wanted)
        return
    origin = database.view_origin(cursor, view, _query_of(layout, shown, database.columns(cursor, layout.table) or {}))
    if origin == "foreign":
        raise _foreign_view(view, shown, layout, step)
    if any(name not in shown for name in layout.schema.names):
        cursor.execute(f"DROP VIEW {database.name(view)}")
        database.create_view(cursor, view, wanted)
    elif origin == "unmarked":
        database.mark_view(cursor, view, _view_query(layout, _user_columns(shown)))


def _user_columns(view: Iterable[str]) -> list[str]:
    ours = {"ms_seq", *(f"ms_{name}" for name in SHOWN)}
    return [name for name in view if name not in ours]


def _query_of(layout: Layout, view: Iterable[str], table: Container[str]) -> str | None:
    """What a view of ours with these columns selects; nothing, if none can have them."""
    names = _user_columns(view)
    return _view_query(layout, names) if names and all(name in table for name in names) else None


def _view_query(layout: Layout, names: Sequence[str]) -> str:
    columns = ", ".join(f"r.{quoted(name)}" for name in names)
    shown = ", ".join(f"p.{name} AS ms_{name}" for name in SHOWN)
    return (
        f"SELECT {columns}, {shown}, r.ms_seq FROM {layout.target} r "
        f"JOIN {layout.part} p ON p.part = r.ms_part WHERE p.is_published"
    )


def _foreign_view(view: str, shown: Mapping[str, FoundColumn], layout: Layout, step: str) -> InvalidStep:
    msg = f"{view!r} is the view that the outbox {layout.table!r} needs, and somebody else's"
    return InvalidStep(
        msg,
        code="JDBC-021",
        step=step,
        found=f"columns {', '.join(shown)}",
        known=f"a view with the mark {VIEW_MARK!r}",
        hint="rename it, or write to another table=",
    )


def find_target(cursor: Cursor, database: Database, layout: Layout, *, create: bool, step: str) -> list[str] | None:
    """The columns of the target, which must take the rows; `None` when there is none, and it may be created."""
    present = database.columns(cursor, layout.table)
    if present is None:
        if create:
            return None
        msg = f"table {layout.table!r} does not exist"
        raise InvalidStep(msg, code="JDBC-004", step=step, hint="create it, or pass create=True")
    _check_target(present, database, layout, step)
    if layout.keys and not database.has_key(cursor, layout.table, layout.keys):
        msg = f"table {layout.table!r} has no unique index on {', '.join(layout.keys)}"
        hint = "create one with exactly these columns, or correct keys="
        raise InvalidStep(msg, code="JDBC-007", step=step, hint=hint)
    return list(present)


def _prepare_target(cursor: Cursor, database: Database, layout: Layout, *, create: bool, step: str) -> None:
    if find_target(cursor, database, layout, create=create, step=step) is not None:
        return
    if layout.mode == "outbox":
        _create_place(cursor, database, layout)
    else:
        columns = [definition(database, field) + ("" if field.nullable else " NOT NULL") for field in layout.shown]
        if layout.keys:
            columns.append(f"PRIMARY KEY ({', '.join(map(quoted, layout.keys))})")
        cursor.execute(f"CREATE TABLE {layout.target} ({', '.join(columns)})")
        if layout.replaces and not layout.keys:
            database.let_rows_go(cursor, layout.table)


def _check_target(columns: Mapping[str, FoundColumn], database: Database, layout: Layout, step: str) -> None:
    ours = OURS if layout.mode == "outbox" else ()
    if missing := [name for name in (*layout.names, *ours) if name not in columns]:
        msg = f"table {layout.table!r} has no column {missing[0]!r}"
        hint = "add it to the table, or select other columns before the sink"
        raise InvalidSchema(msg, code="JDBC-005", step=step, known=list(columns), hint=hint)
    for field in layout.shown:
        kind = columns[field.name].type
        if not database.holds(kind, field.type, field.type_name):
            msg = f"column {field.name!r} of table {layout.table!r} cannot hold {field.type_name}"
            wanted = database.column_type(field.type, field.type_name)
            hint = "change the column, or cast before the sink"
            raise InvalidSchema(msg, code="JDBC-005", step=step, found=kind, known=wanted, hint=hint)
    for name, column in columns.items():
        if column.must_be_given and name not in layout.names and name not in ours:
            msg = f"column {name!r} of table {layout.table!r} needs a value and the rows have none"
            hint = "give it a default, or add the column before the sink"
            raise InvalidSchema(msg, code="JDBC-006", step=step, known=list(layout.names), hint=hint)
