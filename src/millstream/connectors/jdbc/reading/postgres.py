"""PostgreSQL as a source: its words, its catalogue, and a connection of the driver that only asks."""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import psycopg
import pyarrow as pa

from millstream.connectors.jdbc.database import Login, quoted
from millstream.connectors.jdbc.postgres import LOCK_TIMEOUT, connection_settings
from millstream.connectors.jdbc.reading.forms import SourceColumn
from millstream.connectors.jdbc.reading.keys import Key, KeyColumn, KeyValues
from millstream.connectors.jdbc.reading.probe import SAMPLED, StatementTimedOut
from millstream.connectors.jdbc.reading.relation import source_of, table_name, table_parts
from millstream.connectors.jdbc.reading.statements import ALIAS, Statement
from millstream.connectors.jdbc.types import postgres_read
from millstream.database.postgres import PostgresSession, connect
from millstream.model.connector import Options

_PLAIN_TEXT = frozenset({"text", "character varying", "character", "bpchar"})
_NUMBER = re.compile(r"numeric(\(\d+,-?\d+\))?")
_SIZE = re.compile(r"\(\d+(,-?\d+)?\)")
_EXPRESSIONS = {"plain": "{}", "text": "{}::text", "texts": "{}::text[]", "double": "{}::double precision"}
_TYPES = """
SELECT CASE WHEN coalesce(item.typtype, t.typtype) = 'e' THEN CASE WHEN item.oid IS NULL THEN 'enum' ELSE 'enum[]' END
            ELSE format_type(t.oid, asked.modifier) END,
       quote_ident(n.nspname) || '.' || quote_ident(t.typname), t.typcollation <> 0
FROM unnest($1::oid[], $2::int[]) WITH ORDINALITY AS asked (type, modifier, place)
JOIN pg_type t ON t.oid = asked.type JOIN pg_namespace n ON n.oid = t.typnamespace
LEFT JOIN pg_type item ON item.oid = t.typelem AND t.typcategory = 'A'
ORDER BY asked.place"""
_NOT_NULL = """
SELECT a.attname FROM pg_attribute a
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped AND a.attnotnull"""
_PRIMARY = """
SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
WHERE i.indrelid = to_regclass($1) AND i.indisprimary ORDER BY array_position(i.indkey, a.attnum)"""


class PostgresDialect:
    """Literals are texts with a cast: what a type prints is what it reads, for every type there is."""

    compares_rows = True

    def quoted(self, name: str) -> str:
        """In double quotes."""
        return quoted(name)

    def value(self, column: KeyColumn, value: Any) -> Statement:
        """COPY takes no bound values, and chunks read by COPY are much faster."""
        return Statement(f"{_text(str(value))}::{column.type}")

    def key_text(self, column: KeyColumn) -> str:
        """As text."""
        return f"{ALIAS}.{quoted(column.name)}::text"

    def expression(self, name: str, form: str) -> str:
        """A cast, where one is needed."""
        return f"{_EXPRESSIONS[form].format(f'{ALIAS}.{quoted(name)}')} AS {quoted(name)}"


def _text(value: str) -> str:
    """A text literal that means the same whatever `standard_conforming_strings` says."""
    doubled = value.replace("'", "''")
    return f"'{doubled}'" if "\\" not in value else "E'" + doubled.replace("\\", "\\\\") + "'"


def session_settings(timeout: int) -> Mapping[str, str]:
    """What holds in every connection of a source: it writes nothing, and text means the same everywhere."""
    return {
        "default_transaction_read_only": "on",
        "statement_timeout": str(timeout),
        "lock_timeout": LOCK_TIMEOUT,
        "timezone": "UTC",
        "datestyle": "ISO",
        "extra_float_digits": "1",
        "bytea_output": "hex",
    }


def settings_statement(timeout: int, more: Mapping[str, str] | None = None) -> str:
    """One statement that makes `session_settings` hold, and more."""
    settings = {**session_settings(timeout), **(more or {})}
    return "SELECT " + ", ".join(f"set_config('{name}', {_text(value)}, false)" for name, value in settings.items())


def postgres_form(column: SourceColumn, wanted: pa.DataType) -> str | None:
    """How a column is asked for to be read as a type."""
    if wanted == column.read_as:
        return _natural_form(column.type, wanted)
    if pa.types.is_string(wanted):
        return "text"
    if pa.types.is_nested(wanted):
        return "text" if column.type in {"json", "jsonb", "text"} else None
    is_whole = column.read_as is not None and pa.types.is_integer(column.read_as)
    is_number = _NUMBER.fullmatch(column.type) is not None
    if pa.types.is_integer(wanted):
        return "plain" if is_whole else None
    if pa.types.is_decimal(wanted):
        return "text" if is_whole or is_number else None
    if pa.types.is_float64(wanted):
        return "double" if is_whole or is_number or column.type == "real" else None
    return None


def _natural_form(found: str, kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return "plain" if _natural_form(found.removesuffix("[]"), kind.value_type) == "plain" else "texts"
    if pa.types.is_string(kind):
        return "plain" if _SIZE.sub("", found) in _PLAIN_TEXT else "text"
    # The driver knows numeric as text alone, and takes twice as long to make it as the server.
    return "text" if pa.types.is_decimal(kind) else "plain"


class PostgresProbe:
    """The driver's connection to PostgreSQL."""

    dialect = PostgresDialect()
    server = ""

    def __init__(self, options: Options, login: Login, *, timeout: int) -> None:
        self._table = None if options["table"] is None else table_name(table_parts(options["table"]), self.dialect)
        self.source = source_of(options, self.dialect)
        settings = settings_statement(timeout).encode()

        def set_up(connection: psycopg.Connection[Any]) -> None:
            connection.execute(settings)
            # Each transaction says so itself: the setting of the session is one that a query may change.
            connection.read_only = True

        opening = functools.partial(connect, connection_settings(login), set_up)
        self._session = PostgresSession(opening, patience=login.patience, fail=login.fail)
        self._asking: psycopg.Connection[Any] | None = None

    def columns(self) -> list[SourceColumn]:
        """What the server says that the result has, without running the query."""
        names, types, modifiers = self._session.run(self._described)
        described = self._ask(_TYPES, types, modifiers)
        present = set() if self._table is None else {name for (name,) in self._ask(_NOT_NULL, self._table)}
        return [
            SourceColumn(
                name=name, type=kind, read_as=postgres_read(kind), nullable=name not in present, cast="{}::text"
            )
            for name, (kind, _, _) in zip(names, described, strict=True)
        ]

    def _described(self, cursor: psycopg.Cursor[Any]) -> tuple[list[str], list[int], list[int]]:
        cursor.execute(f"SELECT * FROM {self.source} LIMIT 0".encode())
        assert cursor.description is not None, "a SELECT has a result"
        assert cursor.pgresult is not None, "it was executed"
        modifiers = [cursor.pgresult.fmod(place) for place in range(len(cursor.description))]
        return [each.name for each in cursor.description], [each.type_code for each in cursor.description], modifiers

    def primary_key(self) -> list[str]:
        """From the catalogue."""
        return [] if self._table is None else [name for (name,) in self._ask(_PRIMARY, self._table)]

    def key(self, columns: Sequence[SourceColumn]) -> Key:
        """With the type and the collation that each column has now."""
        names, types, modifiers = self._session.run(self._described)
        described = dict(zip(names, self._ask(_TYPES, types, modifiers), strict=True))
        collated = [column.name for column in columns if described[column.name][2]]
        collations = dict(zip(collated, self._collations(collated), strict=True))
        return tuple(
            KeyColumn(
                name=each.name,
                type=described[each.name][1],
                collation=collations.get(each.name, ""),
                nullable=each.nullable,
            )
            for each in columns
        )

    def _collations(self, names: Sequence[str]) -> Sequence[str]:
        if not names:
            return ()
        asked = ", ".join(f"pg_collation_for({ALIAS}.{quoted(name)})" for name in names)
        # One row, whether or not there is any: the collation belongs to the expression.
        one = f"SELECT * FROM {self.source} LIMIT 1"
        ((*found,),) = self._ask(f"SELECT {asked} FROM (SELECT 1) AS one LEFT JOIN ({one}) AS {ALIAS} ON true")
        return found

    def form(self, column: SourceColumn, wanted: pa.DataType) -> str | None:
        """As text where the driver has no form of its own, or a slow one."""
        return postgres_form(column, wanted)

    def fetch(self, statement: Statement) -> list[tuple[Any, ...]]:
        """The rows of a small answer."""
        return self._ask(statement.text)

    def _ask(self, text: str, *values: object) -> list[tuple[Any, ...]]:
        def work(cursor: psycopg.Cursor[Any]) -> list[tuple[Any, ...]]:
            self._asking = cursor.connection
            try:
                return cursor.execute(text.encode(), values or None).fetchall()
            except psycopg.errors.QueryCanceled as problem:
                raise StatementTimedOut(str(problem)) from problem
            finally:
                self._asking = None

        return self._session.run(work)

    def key_values(self, row: Sequence[Any]) -> KeyValues:
        """Texts already."""
        return list(row)

    def estimate(self) -> int | None:
        """The planner's own."""
        ((plan,),) = self._ask(f"EXPLAIN (FORMAT JSON) SELECT 1 FROM {self.source}")
        parsed = json.loads(plan) if isinstance(plan, str) else plan
        return int(parsed[0]["Plan"]["Plan Rows"])

    def width(self, names: Sequence[str]) -> int:
        """By their text, which the server measures: not every value has one here."""
        columns = ", ".join(f"{ALIAS}.{quoted(name)}" for name in names)
        sample = f"SELECT {columns} FROM {self.source} LIMIT {SAMPLED}"
        ((width,),) = self._ask(f"SELECT coalesce(avg(octet_length(s::text)), 0)::bigint FROM ({sample}) AS s")
        return int(width)

    def explain(self, statement: Statement) -> list[str]:
        """As EXPLAIN writes it."""
        return [line for (line,) in self._ask(f"EXPLAIN {statement.text}")]

    def cancel(self) -> None:
        """From another thread."""
        asking = self._asking
        if asking is not None:
            with contextlib.suppress(psycopg.Error):  # it may have ended, or the server may be away
                asking.cancel_safe(timeout=5)

    def close(self) -> None:
        """Close the connection, if one is open."""
        self._session.close()
