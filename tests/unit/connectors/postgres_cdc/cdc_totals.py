"""A job that sums a table of a real server per customer, while the table changes: the sums are compared with the table's own."""

import contextlib
import random
import sqlite3
import time

from tests.unit.connectors.postgres_cdc.test_cdc_random import some_changes

import millstream as ms
from millstream.errors import MillstreamError

SCHEMA = "id long, customer string, amount decimal(10,2), op string"
TOTALS = "SELECT customer, count(*), sum(amount)::text, round(avg(amount), 6)::text FROM {} GROUP BY customer"
_COPYING = 30
"""More epochs than it takes to copy the rows that are there at first."""


class DoneError(Exception):
    """Everything was written, and everything that was written is in the sums."""


class ChangingTable:
    """Writes random transactions after each epoch, and compares the sums with those of the table after one of them.

    All transactions are committed between epochs, so that an epoch shows the table as it was behind one of them: never a part of
    one, and never an earlier one than the epoch before.
    """

    def __init__(self, source, folder, seed, *, epochs=10):
        source.do(f"ALTER TABLE {source.table} REPLICA IDENTITY FULL")
        self._source, self._random, self._left = source, random.Random(seed), epochs
        self._ids, self._history, self._shown = set(), [], 0
        self._path, self.epochs, self._is_copied = folder / "totals.db", 0, False
        self._write()

    def job(self, **settings):
        job = ms.Job("totals", rows_per_epoch=self._random.choice((2, 5, 100)), epoch_interval="0ms", **settings)
        source = self._source
        table = ms.postgres_cdc(
            source.server.url, table=source.table, keys=["id"], slot=source.slot, images="both", idle="200ms"
        )
        rows = job.source("rows", table, schema=SCHEMA)
        totals = rows.key_by("customer").aggregate(
            n=ms.count(), total=ms.sum("amount"), mean=ms.avg("amount"), id="totals"
        )
        totals.sink("out", ms.jdbc(f"sqlite:///{self._path}", table="totals", mode="upsert", keys=["customer"]))
        return job

    def after_epoch(self, _):
        """The listener of the job."""
        self.epochs += 1
        shown = self._totals()
        at = next((place for place in range(self._shown, len(self._history)) if self._history[place] == shown), None)
        if at is None and not self._is_copied:
            assert self.epochs < _COPYING, "the copy of the table is never whole"
            return
        assert at is not None, f"{shown} was never the table: {self._history[self._shown :]}"
        self._shown, self._is_copied = at, True
        if self._left:
            self._left -= 1
            self._write()
        elif shown == self._history[-1]:
            raise DoneError

    def wait_for(self, epochs, running):
        """Wait until so many epochs were published, or the run has ended."""
        while self.epochs < epochs and running.is_running:
            time.sleep(0.05)

    def is_done(self, problem):
        """Whether a run ended because nothing was left to do."""
        return isinstance(problem, MillstreamError) and problem.code == "STEP-265" and "DoneError" in str(problem)

    def _write(self):
        for _ in range(self._random.randrange(1, 4)):
            some_changes(self._source, self._random, self._ids, note=self._note)
        # The last transaction leaves a trace of its own, so that it is known when it was read.
        number = 1000 + len(self._history)
        self._source.do(f"INSERT INTO {self._source.table} VALUES ({number}, 'c{number % 4}', 1)")
        self._note()

    def _note(self):
        rows = self._source.do(TOTALS.format(self._source.table))
        self._history.append({customer: tuple(rest) for customer, *rest in rows})

    def _totals(self):
        with contextlib.closing(sqlite3.connect(self._path, timeout=30)) as connection:
            rows = connection.execute("SELECT customer, n, total, mean FROM totals").fetchall()
        return {customer: tuple(rest) for customer, *rest in rows}
