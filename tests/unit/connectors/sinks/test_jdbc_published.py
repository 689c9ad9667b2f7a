"""A database whose changes somebody else follows: with a publication of all tables, tables without an identity lose no rows."""

import contextlib

import pytest

import millstream as ms
from millstream.errors import StepFailed

ROWS = [{"id": number} for number in range(10)]


@pytest.fixture
def published(logical_postgres):
    with _publication(logical_postgres):
        yield logical_postgres
    logical_postgres.execute("DROP SCHEMA public CASCADE")
    logical_postgres.execute("CREATE SCHEMA public")


@contextlib.contextmanager
def _publication(server):
    server.execute("CREATE PUBLICATION everything FOR ALL TABLES")
    try:
        yield
    finally:
        server.execute("DROP PUBLICATION everything")


def written(server, folder, **options):
    job = ms.Job("published", rows_per_epoch=3, carry="nothing")
    job.source("rows", ms.memory(ROWS), schema="id long").sink("out", ms.jdbc(server.url, table="t", **options))
    job.run(local=True, checkpoint=folder)
    return [number for (number,) in server.execute("SELECT id FROM t ORDER BY id")]


@pytest.mark.parametrize("options", [{}, {"mode": "upsert", "keys": ["id"]}, {"mode": "outbox"}, {"write": "replace"}])
def test_a_sink_writes_where_all_tables_are_published(published, tmp_path, options):
    assert written(published, tmp_path, **options) == list(range(10))


def test_a_publication_that_comes_between_two_runs(logical_postgres, tmp_path):
    assert written(logical_postgres, tmp_path) == list(range(10))
    with _publication(logical_postgres):
        assert written(logical_postgres, tmp_path) == sorted([*range(10), *range(10)])
    logical_postgres.execute("DROP SCHEMA public CASCADE")
    logical_postgres.execute("CREATE SCHEMA public")


def test_a_table_of_others_that_cannot_lose_rows_is_told_of_at_once(published, tmp_path):
    published.execute("CREATE TABLE t (id bigint)")
    with pytest.raises(StepFailed, match=r"JDBC-013.*step 'out'.*replica identity"):
        written(published, tmp_path, write="replace")
