"""Databases that the tests of `jdbc` sources read, seen through their own clients, and sources opened as a run does it."""

import contextlib
import sqlite3

import psycopg
from tests.unit.connectors.sources.source_under_test import Opened, SourceUnderTest

from millstream.connectors.jdbc.reading.preview import found_schema
from millstream.connectors.jdbc.reading.spec import SOURCE
from millstream.contract.source import BadRecord
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows


class Postgres:
    """An empty database of PostgreSQL."""

    name = "postgres"
    long, text, real, time = "bigint", "text", "double precision", "timestamptz"

    def __init__(self, url):
        self.url = url

    def execute(self, text, values=()):
        with psycopg.connect(self.url, cursor_factory=psycopg.RawCursor) as connection:
            connection.execute("SET timezone = 'UTC'")
            cursor = connection.execute(text, values or None)
            return cursor.fetchall() if cursor.description else []

    def insert(self, table, rows):
        with psycopg.connect(self.url) as connection, connection.cursor() as cursor:
            marks = ", ".join(["%s"] * len(rows[0]))
            cursor.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


class Sqlite:
    """A new file of SQLite."""

    name = "sqlite"
    long, text, real, time = "INTEGER", "TEXT", "REAL", "TEXT"

    def __init__(self, path):
        self.path = path
        self.url = f"sqlite:///{path}"
        self.execute("PRAGMA journal_mode = WAL")

    def execute(self, text, values=()):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            return connection.execute(text, values).fetchall()

    def insert(self, table, rows):
        with contextlib.closing(sqlite3.connect(self.path, timeout=30)) as connection, connection:
            connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[0]))})", rows)


def options_of(spec):
    return checked_options(SOURCE.options, spec.options, step="in", name="jdbc")


class Source(SourceUnderTest):
    """A source with its log folder, its schema read from the database unless it is given."""

    def __init__(self, spec, folder, schema=None, parallelism=2):
        self.spec, self.folder, self.parallelism = spec, folder, parallelism
        self.options = options_of(spec)
        self.schema = found_schema(self.options) if schema is None else schema_of(schema)
        self.is_bounded = self.options["incremental"] is None
        folder.mkdir(exist_ok=True)

    def opened(self, token=1):
        return Opened(self, token=token)


def everything(opened, credit=1000, start=None):
    """All rows of a bounded source, and the positions between its epochs."""
    path, rows = [opened.initial() if start is None else start], []
    while True:
        advance = opened.advance(path[-1], credit)
        if advance.position != path[-1]:
            rows += opened.read(path[-1], advance.position)
            path.append(advance.position)
        if advance.finished:
            return rows, path


def parts_of(opened, start, end):
    """Rows and bad records between two positions."""
    reader, rows, bad = opened._reader(), [], []
    try:
        for split in opened.splits(start, end):
            for part in reader.read(split.body):
                if isinstance(part, BadRecord):
                    bad.append(part)
                else:
                    rows += batch_to_rows(part)
    finally:
        reader.close()
    return rows, bad
