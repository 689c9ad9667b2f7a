"""Databases for the tests of sources."""

import pytest
from tests.unit.connectors.jdbc.databases import Postgres, Source, Sqlite


@pytest.fixture
def postgres_db(postgres):
    """An empty database on the server that all tests share."""
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    return Postgres(postgres.url)


@pytest.fixture
def sqlite_db(tmp_path):
    return Sqlite(tmp_path / "in.db")


@pytest.fixture(params=["postgres", "sqlite"])
def database(request):
    """One empty database of each kind."""
    return request.getfixturevalue(f"{request.param}_db")


@pytest.fixture
def open_source(tmp_path):
    """Opens sources in a folder of their own, closed at the end, whatever happens."""
    opened, folders = [], iter(range(1000))

    def open_one(spec, schema=None, folder=None, token=1, parallelism=2):
        source = Source(spec, folder or tmp_path / f"log-{next(folders)}", schema, parallelism)
        opened.append(source.opened(token))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()
