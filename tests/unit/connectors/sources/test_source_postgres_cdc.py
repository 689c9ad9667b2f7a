"""The source contract on a table of a real server: as it is copied, and as its changes are read."""

import contextlib
import time

import pytest
from tests.servers.postgres import PostgresServer
from tests.unit.connectors.sources.cdc_under_test import CdcUnderTest
from tests.unit.connectors.sources.source_contract import SourceContract, walked


class TestCopiedTable(SourceContract):
    @pytest.fixture
    def source(self, logical_postgres, tmp_path):
        source = CdcUnderTest(logical_postgres, tmp_path, count=23, create=False)
        source.make_slot()
        return source


class TestChanges(SourceContract):
    """Rows of single and of several transactions, with updates and deletes, and transactions of others between them."""

    @pytest.fixture
    def source(self, logical_postgres, tmp_path):
        source = CdcUnderTest(logical_postgres, tmp_path, count=7, slot_first=True)
        table = source.table
        source.do(f"INSERT INTO {table} SELECT g, 'many', 1 FROM generate_series(100, 108) g", "SELECT 1")
        source.do("CREATE TABLE IF NOT EXISTS others (a int)", "INSERT INTO others VALUES (1)")
        source.do(f"UPDATE {table} SET amount = 9 WHERE id < 2", f"DELETE FROM {table} WHERE id = 3")
        source._expected += [
            *({"id": id, "customer": "many", "amount": "1.00", "op": "insert"} for id in range(100, 109)),
            *({"id": id, "customer": f"c{id}", "amount": "9.00", "op": "update"} for id in range(2)),
            {"id": 3, "customer": None, "amount": None, "op": "delete"},
        ]
        return source


@pytest.fixture(scope="module")
def own_postgres():
    server = PostgresServer(settings={"wal_level": "logical"}).start()
    yield server
    server.stop()


class TestServerAway:
    """A server of its own, which can be killed."""

    test_what_is_away = SourceContract.test_what_is_away_is_an_external_failure_in_each_call

    @pytest.fixture
    def source(self, own_postgres, tmp_path, monkeypatch):
        for module in ("server", "reading"):
            monkeypatch.setattr(f"millstream.connectors.postgres_cdc.{module}.PATIENCE", 1.0)
        source = CdcUnderTest(own_postgres, tmp_path, count=9, slot_first=True)

        @contextlib.contextmanager
        def away():
            own_postgres.kill()
            yield
            own_postgres.start()

        source.away = away
        return source


class TestServerRestarted:
    @pytest.fixture
    def source(self, own_postgres, tmp_path):
        return CdcUnderTest(own_postgres, tmp_path, count=9, slot_first=True)

    def test_it_is_waited_for(self, source, open_source, own_postgres):
        opened = open_source()
        path, rows = walked(opened, opened.initial(), 1, until=1)
        own_postgres.kill()
        began = time.monotonic()
        assert opened.advance(path[-1], 5).position == path[-1], "nobody waits for the server"
        assert time.monotonic() - began < 5
        own_postgres.start()
        _, rest = walked(opened, path[-1], 5, until=9 - len(rows))
        assert [row["id"] for row in [*rows, *rest]] == list(range(9))
