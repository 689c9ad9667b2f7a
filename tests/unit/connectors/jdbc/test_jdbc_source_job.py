"""Jobs that read databases, run in this process: killed behind every chunk, fed while they run, with bad rows."""

import decimal

import pytest
from tests.unit.connectors.jdbc.databases import options_of

import millstream as ms
from millstream.connectors.jdbc.reading.preview import found_schema, preview
from millstream.errors import StepFailed

ROWS = 90


@pytest.fixture
def filled(database):
    columns = f"tenant {database.long} NOT NULL, name {database.text} NOT NULL, n {database.long}"
    database.execute(f"CREATE TABLE t ({columns}, PRIMARY KEY (tenant, name))")
    database.insert("t", [(number % 4, f"it's {number}", number) for number in range(ROWS)])
    return database


def job_of(database, out, **settings):
    job = ms.Job("copy", rows_per_epoch=20, **settings)
    source = job.source("in", ms.jdbc_table(database.url, "t", chunk_rows=7))
    source.sink("rows", ms.files(str(out / "rows"), format="json"))
    source.key_by("tenant").aggregate(many=ms.count(), total=ms.sum("n"), emit="end").sink(
        "totals", ms.files(str(out / "totals"), format="json")
    )
    return job


def written(out):
    rows = ms.read_files(str(out / "rows")).column("n").to_pylist()
    totals = ms.read_files(str(out / "totals")).to_pylist()
    return sorted(rows), sorted((row["tenant"], row["many"], row["total"]) for row in totals)


def expected(database):
    groups = database.execute("SELECT tenant, count(*), sum(n) FROM t GROUP BY tenant ORDER BY tenant")
    return list(range(ROWS)), [(tenant, many, int(total)) for tenant, many, total in groups]


def test_a_job_reads_a_table_once(filled, tmp_path):
    result = job_of(filled, tmp_path / "out").run(local=True, checkpoint=tmp_path / "checkpoint")
    assert written(tmp_path / "out") == expected(filled)
    assert result.epochs > 4


PLACES = [f"{where}:{nth}" for where in ("staged", "durable", "published") for nth in range(1, 6)]


@pytest.mark.parametrize("place", PLACES)
def test_a_job_that_dies_anywhere_goes_on_behind_its_last_key(filled, tmp_path, failpoints, place):
    failpoints(f"{place}:raise")
    with pytest.raises(BaseException, match=place.partition(":")[0]):
        job_of(filled, tmp_path / "out").run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    # What comes later is behind the bound of this run.
    filled.insert("t", [(9, "later", 1000)])
    result = job_of(filled, tmp_path / "out").run(local=True, checkpoint=tmp_path / "checkpoint")
    filled.execute("DELETE FROM t WHERE tenant = 9")
    assert written(tmp_path / "out") == expected(filled)
    assert result.rows_in < ROWS or place.endswith(":1"), "what is durable is not read again"


def test_a_job_says_how_far_it_is(filled, tmp_path):
    told = []
    job = ms.Job("copy", rows_per_epoch=20)
    job.source("in", ms.jdbc_table(filled.url, "t", count="exact")).sink("out", ms.collect("far"))
    job.run(local=True, on_epoch=lambda epoch: told.append((epoch.rows_in, epoch.lag)))
    read = 0
    for rows, lag in told:
        read += rows
        assert read + lag == ROWS


def test_a_row_that_does_not_fit_is_a_dead_letter(postgres_db, tmp_path):
    postgres_db.execute("CREATE TABLE t (id int PRIMARY KEY, price numeric)")
    postgres_db.execute("INSERT INTO t VALUES (1, 1.5), (2, 'NaN'), (3, 2.25)")
    job = ms.Job("prices")
    source = job.source(
        "in",
        ms.jdbc_table(postgres_db.url, "t"),
        schema="id int, price decimal(10,2)",
        on_error=ms.dead_letter(ms.files(str(tmp_path / "dead"), format="json")),
    )
    source.sink("out", ms.files(str(tmp_path / "out")))
    job.run(local=True)
    assert ms.read_files(str(tmp_path / "out")).column("price").to_pylist() == [
        decimal.Decimal("1.50"),
        decimal.Decimal("2.25"),
    ]
    (letter,) = ms.read_files(str(tmp_path / "dead")).to_pylist()
    assert letter["origin"] == "t id=2"
    assert "NaN" in letter["error"]


def test_a_row_that_does_not_fit_stops_a_job_that_allows_none(postgres_db):
    postgres_db.execute("CREATE TABLE t (id int PRIMARY KEY, at timestamptz)")
    postgres_db.execute("INSERT INTO t VALUES (1, 'infinity')")
    job = ms.Job("times")
    job.source("in", ms.jdbc_table(postgres_db.url, "t")).sink("out", ms.collect("times"))
    with pytest.raises(StepFailed, match=r"'at' holds a time outside the years"):
        job.run(local=True)


def test_what_the_sink_wrote_the_source_reads(database, tmp_path):
    schema = (
        "id long not null, b boolean, s short, f float, d double, dec decimal(20,4), t string, raw binary, day date,"
        " at timestamp, local timestamp_ntz, tags array<string>, place struct<x:double,y:long>, m map<string,long>"
    )
    rows = [
        {"id": 1, "b": True, "s": -3, "f": 0.5, "d": 0.1, "dec": "12345678901234.5678", "t": "it's \\ é", "raw": "AAH/",
         "day": "2024-02-29", "at": "2024-02-29T01:02:03.123456+00:00", "local": "2024-02-29T01:02:03", "tags": ["a", "b"],
         "place": {"x": 1.5, "y": 2}, "m": {"k": 7}},
        {"id": 2, **dict.fromkeys(["b", "s", "f", "d", "dec", "t", "raw", "day", "at", "local", "tags", "place", "m"])},
    ]  # fmt: skip
    there = ms.Job("there")
    there.source("in", ms.memory(rows), schema=schema).sink("out", ms.jdbc(database.url, table="copied"))
    there.source("again", ms.memory(rows), schema=schema).sink("plain", ms.files(str(tmp_path / "plain")))
    there.run(local=True)
    back = ms.Job("back")
    back.source("in", ms.jdbc_table(database.url, "copied", key="id"), schema=schema).sink(
        "out", ms.files(str(tmp_path / "back"))
    )
    back.run(local=True)
    assert ms.read_files(str(tmp_path / "back")) == ms.read_files(str(tmp_path / "plain"))


def test_without_a_key_a_job_reads_in_one_epoch(filled, tmp_path):
    job = ms.Job("once", guarantee="at_least_once", rows_per_epoch=5)
    job.source("in", ms.jdbc_query(filled.url, "SELECT n FROM t")).sink("out", ms.files(str(tmp_path / "out")))
    job.run(local=True)
    assert sorted(ms.read_files(str(tmp_path / "out")).column("n").to_pylist()) == list(range(ROWS))


@pytest.mark.parametrize(("carry", "wanted"), [("position", [90, 2]), ("nothing", [90, 92])])
def test_a_further_run_goes_up_to_a_bound_of_its_own(filled, tmp_path, failpoints, carry, wanted):
    def run():
        return job_of(filled, tmp_path / "out", carry=carry).run(local=True, checkpoint=tmp_path / "checkpoint")

    first = run()
    filled.insert("t", [(9, "a", 1000), (9, "b", 1001)])
    failpoints("durable:1:raise")
    with pytest.raises(BaseException, match="durable"):
        run()
    failpoints("")
    # What comes while the second run is interrupted is behind its bound.
    filled.insert("t", [(9, "c", 1002)])
    assert run().run == 2
    rows = ms.read_files(str(tmp_path / "out" / "rows")).column("n").to_pylist()
    assert [first.rows_in, len(rows) - first.rows_in] == wanted
    assert 1002 not in rows


# A look before the run


def test_a_preview_shows_columns_plan_and_first_rows(filled):
    options = options_of(ms.jdbc_table(filled.url, "t"))
    shown = preview(options, found_schema(options), step="in", limit=3)
    assert shown.key == ("tenant", "name")
    assert shown.schema.names == ("tenant", "name", "n")
    assert [row["name"] for row in shown.rows] == ["it's 0", "it's 12", "it's 16"]
    assert shown.bad == ()
    assert any("index" in line.lower() or "scan" in line.lower() for line in shown.plan)
    assert shown.rows_estimated is not None


def test_a_preview_of_a_query_without_a_key_says_so(filled):
    options = options_of(ms.jdbc_query(filled.url, "SELECT n FROM t WHERE n < 2"))
    shown = preview(options, found_schema(options), step="in")
    assert shown.key == ()
    assert sorted(row["n"] for row in shown.rows) == [0, 1]


def test_a_preview_shows_rows_that_do_not_fit(postgres_db):
    query = "SELECT g AS id, CASE WHEN g = 2 THEN 'NaN'::numeric ELSE g END AS n FROM generate_series(1, 3) g"
    options = options_of(ms.jdbc_query(postgres_db.url, query, key="id"))
    from millstream.model.schema import schema_of

    shown = preview(options, schema_of("id int, n decimal(5,2)"), step="in")
    assert [row["id"] for row in shown.rows] == [1, 3]
    assert "NaN" in shown.bad[0].error


def test_a_preview_of_nothing(database):
    database.execute(f"CREATE TABLE t (id {database.long} PRIMARY KEY)")
    options = options_of(ms.jdbc_table(database.url, "t"))
    assert preview(options, found_schema(options), step="in").rows == ()
