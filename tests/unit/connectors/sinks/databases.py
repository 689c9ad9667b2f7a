"""Adapters that let the contract suite look into databases."""

import base64
import contextlib
import datetime as dt
import decimal
import json
import sqlite3

import psycopg
import pyarrow as pa

from millstream.connectors.jdbc.committer import JdbcCommitter
from millstream.connectors.jdbc.spec import DECLARATION, jdbc
from millstream.connectors.jdbc.writer import JdbcWriter
from millstream.connectors.json_values import batches_from_json
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows

MODES = {"insert": {}, "upsert": {"keys": ["id"]}, "outbox": {}}


def options_of(spec):
    return checked_options(DECLARATION.sink.options, spec.options, step="out", name="jdbc")


class DatabaseUnderTest:
    """A `jdbc` sink with its table, seen through SQL."""

    def __init__(self, url, *, mode="insert", table="target", **more):
        self.url = url
        self.table = table
        self.mode = mode
        self.options = options_of(jdbc(url, table=table, mode=mode, **MODES[mode], **more))
        self.can_truncate = mode == "outbox"
        self._opened = []

    def writer(self, task, schema):
        return JdbcWriter(self.options, schema, task)

    def committer(self, context):
        committer = JdbcCommitter(self.options, context)
        self._opened.append(committer)
        return committer

    def close(self):
        for committer in self._opened:
            committer.close()

    def execute(self, text, values=()):
        raise NotImplementedError

    def visible(self, schema):
        shown = f"{self.table}_published" if self.mode == "outbox" else self.table
        names = ", ".join('"' + name + '"' for name in schema.names)
        found = [dict(zip(schema.names, row)) for row in self.execute(f'SELECT {names} FROM "{shown}"')]
        if all(pa.types.is_primitive(field.type) or pa.types.is_string(field.type) for field in schema):
            return found
        plain = [{name: _json(row[name], schema[name].type) for name in row} for row in found]
        return [row for batch in batches_from_json(plain, schema) for row in batch_to_rows(batch)]

    def staged(self):
        lost = self.execute("SELECT count(*) FROM millstream_part WHERE NOT is_published")[0][0]
        for place in {place for (place,) in self.execute("SELECT DISTINCT place FROM millstream_part")}:
            query = f'SELECT count(*) FROM "{place}" WHERE ms_part NOT IN (SELECT part FROM millstream_part)'
            lost += self.execute(query)[0][0]
        return lost

    def lose_staged(self):
        for (place,) in self.execute("SELECT DISTINCT place FROM millstream_part WHERE NOT is_published"):
            self.execute(f'DELETE FROM "{place}" WHERE ms_seq = 3')
        return True


class PostgresUnderTest(DatabaseUnderTest):
    """In PostgreSQL."""

    def execute(self, text, values=()):
        with psycopg.connect(self.url, cursor_factory=psycopg.RawCursor) as connection:
            connection.execute("SET timezone = 'UTC'")
            cursor = connection.execute(text, values)
            return cursor.fetchall() if cursor.description else []


class SqliteUnderTest(DatabaseUnderTest):
    """In SQLite."""

    def execute(self, text, values=()):
        path = self.url.removeprefix("sqlite:///")
        with contextlib.closing(sqlite3.connect(path, timeout=30)) as connection, connection:
            return connection.execute(text, values).fetchall()


def _json(value, kind):
    """A database's value in the form that JSON sources read."""
    if isinstance(value, (dt.datetime, dt.date)):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        return str(value)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, str) and pa.types.is_nested(kind):
        return json.loads(value)
    if isinstance(value, int) and pa.types.is_boolean(kind):
        return bool(value)
    return value
