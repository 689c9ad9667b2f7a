"""A function that writes rows and mark in one transaction passes the sink contract, against a real database."""

import dataclasses
import sqlite3

import pytest
from tests.unit.connectors.sinks.contract import SinkContract

import millstream as ms
from millstream.connectors.consumer.sink import ConsumerCommitter, ConsumerWriter
from millstream.connectors.consumer.spec import DECLARATION
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows, batch_to_text, table_from_text


class ConsumerUnderTest:
    """A SQLite file with rows as Arrow text, and marks."""

    can_truncate = False

    def __init__(self, folder):
        self.database, self.root = folder / "target.db", folder / "staging"
        with self._opened() as database:
            database.execute("CREATE TABLE rows (data TEXT)")
            database.execute("CREATE TABLE marks (sink TEXT PRIMARY KEY, mark TEXT)")
        given = ms.consumer(self.write, transactional=True, batch_rows=1000).options
        self.options = checked_options(DECLARATION.sink.options, given, step="out", name="consumer")

    def _opened(self):
        return _Closing(sqlite3.connect(self.database, timeout=30, isolation_level=None))

    def write(self, batches, ctx):
        with self._opened() as database:
            database.execute("BEGIN IMMEDIATE")
            stored = database.execute("SELECT mark FROM marks WHERE sink = ?", [ctx.sink]).fetchone()
            if ctx.is_due(stored and stored[0]):
                for batch in batches:
                    database.execute("INSERT INTO rows VALUES (?)", [batch_to_text(batch)])
                database.execute("INSERT OR REPLACE INTO marks VALUES (?, ?)", [ctx.sink, ctx.mark])
            database.execute("COMMIT")

    def _staging(self, who):
        return str(self.root / who.job / who.step / who.lineage)

    def writer(self, task, schema):
        return ConsumerWriter(self.options, schema, dataclasses.replace(task, staging=self._staging(task)))

    def committer(self, context):
        return ConsumerCommitter(self.options, dataclasses.replace(context, staging=self._staging(context)))

    def visible(self, schema):
        with self._opened() as database:
            found = database.execute("SELECT data FROM rows").fetchall()
        return [row for (data,) in found for row in batch_to_rows(table_from_text(data))]

    def _files(self):
        return sorted(self.root.rglob("*.arrow"))

    def staged(self):
        return len(self._files())

    def lose_staged(self):
        self._files()[0].unlink()
        return True


class _Closing:
    """A connection that is rolled back and closed at the end of its block, whatever happens."""

    def __init__(self, connection):
        self._connection = connection

    def __enter__(self):
        return self._connection

    def __exit__(self, *problem):
        self._connection.rollback()
        self._connection.close()


class TestTransactional(SinkContract):
    @pytest.fixture
    def sink(self, tmp_path):
        return ConsumerUnderTest(tmp_path)
