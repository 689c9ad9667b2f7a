"""Tables of a real server as sources under test: each with a slot and a publication of its own."""

import contextlib
import itertools

import psycopg
from tests.unit.connectors.sources.source_under_test import SourceUnderTest

from millstream.connectors.postgres_cdc.spec import postgres_cdc
from millstream.model.schema import schema_of

COLUMNS = "id long, customer string, amount decimal(10,2)"
_numbers = itertools.count()


class CdcUnderTest(SourceUnderTest):
    """A table `orders_<n>`. With `slot_first` the slot is there before its rows, so that all of them are changes."""

    is_bounded = False

    def __init__(
        self, server, folder, *, count=0, slot_first=False, extra="", schema=COLUMNS + ", op string", **options
    ):
        self.server, self.folder = server, folder
        number = next(_numbers)
        self.table, self.slot = f"orders_{number}", f"slot_{number}"
        self.schema = schema_of(schema)
        self.connection = psycopg.connect(server.url, autocommit=True)
        self.do(f"CREATE TABLE {self.table} (id bigint PRIMARY KEY, customer text, amount numeric(10,2){extra})")
        self._expected = []
        if slot_first:
            self.make_slot()
            options = {"start": "now", "create": False, **options}
        self.add(count)
        self.spec = postgres_cdc(server.url, table=self.table, keys=["id"], slot=self.slot, **options)

    def make_slot(self):
        self.do(f"CREATE PUBLICATION {self.slot} FOR TABLE {self.table}")
        self.do(f"SELECT pg_create_logical_replication_slot('{self.slot}', 'pgoutput')")

    def do(self, *statements):
        """Statements in one transaction."""
        with self.connection.transaction():
            for statement in statements:
                cursor = self.connection.execute(statement)
        return cursor.fetchall() if cursor.description else []

    def add(self, count):
        kind = "read" if self.spec is None and not self._has_slot else "insert"
        for number in range(len(self._expected), len(self._expected) + count):
            self.do(f"INSERT INTO {self.table} VALUES ({number}, 'c{number % 3}', {number}.5)")
            self._expected.append({"id": number, "customer": f"c{number % 3}", "amount": f"{number}.50", "op": kind})

    @property
    def _has_slot(self):
        return bool(self.do(f"SELECT 1 FROM pg_replication_slots WHERE slot_name = '{self.slot}'"))

    def rows(self):
        return list(self._expected)

    def confirmed(self):
        (found,) = self.do(
            f"SELECT confirmed_flush_lsn::text FROM pg_replication_slots WHERE slot_name = '{self.slot}'"
        )
        return found[0]

    def content(self):
        """The table as it is."""
        return {row[0]: row[1:] for row in self.do(f"SELECT * FROM {self.table}")}

    def dispose(self):
        with contextlib.suppress(psycopg.Error):
            self.do(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                f"WHERE slot_name = '{self.slot}' AND NOT active"
            )
            self.do(f"DROP TABLE IF EXISTS {self.table} CASCADE")
        self.connection.close()
