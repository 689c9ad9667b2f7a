"""Databases for the tests of sinks."""

import pytest
from tests.unit.connectors.sinks.databases import PostgresUnderTest, SqliteUnderTest

from millstream.connectors.jdbc.postgres import PostgresDatabase
from millstream.connectors.jdbc.sqlite import SqliteDatabase


@pytest.fixture
def postgres_url(postgres):
    """An empty database on the server that all tests share."""
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    return postgres.url


@pytest.fixture(params=["postgres", "sqlite"])
def open_sink(request, tmp_path):
    """Opens `jdbc` sinks with given options in one empty database of each kind."""
    opened = []
    if request.param == "postgres":
        kind, url = PostgresUnderTest, request.getfixturevalue("postgres_url")
    else:
        kind, url = SqliteUnderTest, f"sqlite:///{tmp_path}/target.db"

    def open_one(**options):
        opened.append(kind(url, **options))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def statements(monkeypatch):
    """How many rows each statement sent."""
    sent = []
    for kind in (PostgresDatabase, SqliteDatabase):
        real = kind.add
        monkeypatch.setattr(kind, "add", lambda *given, real=real: (sent.append(len(given[4])), real(*given))[1])
    return sent
