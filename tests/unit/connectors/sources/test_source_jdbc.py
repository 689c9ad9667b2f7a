"""`jdbc` sources pass the source contract, on both databases, with and without an end."""

import pytest
from tests.servers.proxy import Proxy
from tests.unit.connectors.jdbc.databases import Postgres, Source, Sqlite
from tests.unit.connectors.sources.source_contract import SourceContract

import millstream as ms
from millstream.connectors.jdbc.reading import opening

ROWS = [{"tenant": number % 3, "name": f"n-{number:02}", "n": number * 7} for number in range(23)]


@pytest.fixture
def sqlite_db(tmp_path):
    return Sqlite(tmp_path / "in.db")


def filled(database):
    database.execute(f"CREATE TABLE t (tenant {database.long}, name {database.text}, n {database.long})")
    database.execute("CREATE UNIQUE INDEX t_key ON t (tenant, name)")
    database.insert("t", [tuple(row.values()) for row in ROWS])
    return database


class JdbcUnderTest(Source):
    def __init__(self, database, spec, folder, proxy=None):
        super().__init__(spec, folder)
        self._database, self._proxy, self._added = database, proxy, 0

    def rows(self):
        names = self.schema.names
        found = self._database.execute(f"SELECT {', '.join(names)} FROM t")
        return [dict(zip(names, row)) for row in found]

    def add(self, count):
        self._database.insert(
            "t", [(9, f"z-{self._added + number}", 1000 + self._added + number) for number in range(count)]
        )
        self._added += count

    def away(self):
        return None if self._proxy is None else self._proxy.away()

    def dispose(self):
        if self._proxy is not None:
            self._proxy.close()


class TestSqliteTable(SourceContract):
    @pytest.fixture
    def source(self, sqlite_db, tmp_path):
        filled(sqlite_db)
        return JdbcUnderTest(sqlite_db, ms.jdbc_table(sqlite_db.url, "t", key="n"), tmp_path / "log")


class TestSqliteQuery(SourceContract):
    @pytest.fixture
    def source(self, sqlite_db, tmp_path):
        filled(sqlite_db)
        spec = ms.jdbc_query(sqlite_db.url, "SELECT n, name, tenant FROM t", key=["tenant", "name"], chunk_rows=2)
        return JdbcUnderTest(sqlite_db, spec, tmp_path / "log")


class TestSqliteIncremental(SourceContract):
    @pytest.fixture
    def source(self, sqlite_db, tmp_path):
        filled(sqlite_db)
        spec = ms.jdbc_table(sqlite_db.url, "t", incremental="n", poll="50ms")
        return JdbcUnderTest(sqlite_db, spec, tmp_path / "log")


@pytest.fixture
def proxied(postgres, monkeypatch):
    """A database behind a proxy that can be cut off."""
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    monkeypatch.setattr(opening, "PATIENCE", 1.0)
    proxy = Proxy(postgres.port)
    return filled(Postgres(postgres.url)), postgres.url.replace(f":{postgres.port}/", f":{proxy.port}/"), proxy


class TestPostgresQuery(SourceContract):
    @pytest.fixture
    def source(self, proxied, tmp_path):
        database, url, proxy = proxied
        spec = ms.jdbc_query(url, "SELECT n, name, tenant FROM t -- all", key=["tenant", "name"], chunk_rows=2)
        return JdbcUnderTest(database, spec, tmp_path / "log", proxy)


class TestPostgresIncremental(SourceContract):
    @pytest.fixture
    def source(self, proxied, tmp_path):
        database, url, proxy = proxied
        spec = ms.jdbc_table(url, "public.t", incremental="n", poll="50ms")
        return JdbcUnderTest(database, spec, tmp_path / "log", proxy)


class TestWithoutKey(SourceContract):
    """Read in one go: whatever the credit, one epoch has all rows."""

    @pytest.fixture
    def source(self, proxied, tmp_path):
        database, url, proxy = proxied
        return JdbcUnderTest(database, ms.jdbc_query(url, "SELECT * FROM t"), tmp_path / "log", proxy)
