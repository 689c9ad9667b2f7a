"""A first look at the steps of a job: it shows rows, and leaves nothing behind."""

import json
import os
import sqlite3
import tempfile

import pytest
from tests.servers.http import serving
from tests.unit.connectors.http.apis import pages_of

import millstream as ms
from millstream.errors import ExternalFailure, InvalidPlan, InvalidSchema, InvalidStep
from millstream.inspect.connectors.trying import FirstRows, SinkLook, try_step

ROWS = [{"n": number} for number in range(50)]


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """What is made for a while must be gone afterwards."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def look(source, *, schema="n long", limit=5, seconds=10.0):
    job = ms.Job("looked-at")
    job.source("in", source, schema=schema)
    return try_step(job, "in", limit=limit, seconds=seconds)


@pytest.mark.parametrize("limit", [1, 5, 200])
def test_the_first_rows_are_shown(limit):
    shown = look(ms.memory(ROWS), limit=limit)
    assert shown.rows == ROWS[:limit]
    assert (shown.step, shown.connector, shown.bad) == ("in", "memory", [])
    assert shown.is_finished == (limit > 50)
    assert shown.lag == max(0, 50 - limit)


def test_parameters_stand_in_options_as_in_a_run(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE t (n INTEGER PRIMARY KEY)")
        database.executemany("INSERT INTO t VALUES (?)", [[row["n"]] for row in ROWS])
    database.close()
    job = ms.Job("looked-at", params={"least": "long"})
    query = "SELECT n FROM t WHERE n >= ${param:least}"
    job.source("in", ms.jdbc_query(f"sqlite:///{tmp_path}/shop.db", query, key="n"), schema="n long")
    assert try_step(job, "in", limit=5, seconds=10, params={"least": "48"}).rows == ROWS[48:]
    with pytest.raises(InvalidPlan, match="PARAM-002"):
        try_step(job, "in", limit=5, seconds=10)


def test_bad_records_are_shown_where_they_stand(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "rows.json").write_text('{"n": 1}\n{"n": "x"}\n{"n": 3}\n')
    shown = look(ms.files(str(tmp_path / "in"), format="json"))
    assert shown.rows == [{"n": 1}, {"n": 3}]
    assert [bad.raw for bad in shown.bad] == ['{"n": "x"}']
    assert shown.is_finished


def test_nothing_is_acknowledged_or_kept(tmp_path):
    told, calls = [], []

    def load(start, ctx):
        calls.append(start)
        yield ROWS[:10], 10

    source = ms.loader(load, acknowledge=lambda position, ctx: told.append(position))
    for _ in range(2):
        assert look(source).rows == ROWS[:5]
    assert told == []
    assert set(calls) == {None}, "each look begins anew"


def test_a_source_without_rows_is_given_up_in_time():
    shown = look(ms.loader(lambda start, ctx: [], poll="1h"), seconds=0.2)
    assert (shown.rows, shown.is_finished) == ([], False)


def test_what_fails_is_told_as_in_a_run():
    def fails(start, ctx):
        raise ConnectionError("nobody answers")

    with pytest.raises(ExternalFailure, match="nobody answers"):
        look(ms.loader(fails, replayable=True))


def test_one_page_of_an_api_is_asked_for():
    table = [{"id": number, "name": f"n{number}"} for number in range(40)]
    answer = pages_of(table, 10)
    asked = []

    def counted(request):
        asked.append(request.path)
        return answer(request)

    with serving(counted) as api:
        spec = ms.http(f"{api.url}/items", records="items", paginator={"type": "page"}, allow_private=True)
        shown = look(spec, schema="id long, name string", limit=3)
    assert shown.rows == table[:3]
    assert asked == ["/items"]


def test_a_table_is_shown_with_the_way_it_is_read(tmp_path):
    with sqlite3.connect(tmp_path / "shop.db") as database:
        database.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY NOT NULL, name TEXT)")
        database.executemany("INSERT INTO orders VALUES (?, ?)", [(number, f"n{number}") for number in range(30)])
    database.close()
    shown = look(ms.jdbc_table(f"sqlite:///{tmp_path}/shop.db", "orders"), schema="id long, name string", limit=2)
    assert shown.rows == [{"id": 0, "name": "n0"}, {"id": 1, "name": "n1"}]
    assert shown.found[:2] == ["read in ranges of id", "about 30 rows"]
    assert shown.found[2].startswith("plan: SEARCH")


def test_a_step_that_is_neither_source_nor_sink_is_refused():
    job = ms.Job("refused")
    job.source("in", ms.memory(ROWS), schema="n long").filter("n > 3", id="some").sink("out", ms.print())
    for step in ("some", "nothing"):
        with pytest.raises(InvalidStep, match=r"CONN-020.*in, out"):
            try_step(job, step, limit=1, seconds=1)


# Sinks.


def look_at(sink, schema="id long, name string"):
    job = ms.Job("looked-at", guarantee="best_effort")
    job.source("in", ms.memory([]), schema=schema).sink("out", sink)
    found = try_step(job, "out", limit=1, seconds=1)
    assert isinstance(found, SinkLook)
    return found.found


def test_a_sink_without_a_look_says_nothing():
    assert look_at(ms.print()) is None
    assert not isinstance(look(ms.memory([])), SinkLook)
    assert isinstance(look(ms.memory([])), FirstRows)


def test_a_folder_is_looked_at(tmp_path):
    folder = tmp_path / "a" / "out"
    assert look_at(ms.files(str(folder))) == [f"{folder} is missing and will be created in {tmp_path}"]
    assert not (tmp_path / "a").exists()
    folder.mkdir(parents=True)
    assert look_at(ms.files(str(folder)))[0] == f"{folder} can be written to"


@pytest.mark.parametrize("obstacle", ["file", "rights"])
def test_a_folder_that_cannot_be_written_is_refused(tmp_path, obstacle):
    if obstacle == "file":
        (tmp_path / "out").write_text("a file")
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        (tmp_path / "out").mkdir(mode=0o500)
    with pytest.raises((InvalidStep, ExternalFailure), match=r"FILES-03[45]"):
        look_at(ms.files(str(tmp_path / "out")))


def test_a_table_is_looked_at_and_not_made(tmp_path):
    path = tmp_path / "shop.db"
    sink = ms.jdbc(f"sqlite:///{path}", table="orders")
    assert look_at(sink) == [f"the SQLite database {str(path)!r} is missing and will be created"]
    assert not path.exists()
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE other (n INTEGER)")
    assert look_at(sink)[1:] == ["table 'orders' is missing and will be created"]
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE orders (id INTEGER, name TEXT, more TEXT)")
    assert look_at(sink)[1:] == ["table 'orders' takes the rows", "its columns: id, name, more"]
    with pytest.raises(InvalidSchema, match="JDBC-005"):
        look_at(sink, schema="elsewhere long")
    with sqlite3.connect(path) as database:
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master ORDER BY name")]
    database.close()
    assert tables == ["orders", "other"]


def test_a_table_of_postgres_is_looked_at(postgres):
    postgres.execute("DROP TABLE IF EXISTS looked_at")
    sink = ms.jdbc(postgres.url, table="looked_at", create=False)
    with pytest.raises(InvalidStep, match="JDBC-004"):
        look_at(sink)
    postgres.execute("CREATE TABLE looked_at (id bigint, name text)")
    assert look_at(sink)[1] == "table 'looked_at' takes the rows"
    postgres.execute("DROP TABLE looked_at")


def test_what_is_shown_can_be_written_as_json():
    import dataclasses

    assert json.loads(json.dumps(dataclasses.asdict(look(ms.memory(ROWS), limit=1))))["rows"] == [{"n": 0}]
