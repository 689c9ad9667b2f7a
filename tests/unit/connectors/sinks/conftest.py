"""Databases for the tests of sinks."""

import pytest
from tests.unit.connectors.sinks.databases import PostgresUnderTest, SqliteUnderTest


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
