"""What a run is given reaches options, expressions, statements and functions; it is recorded and changes no fingerprint."""

import datetime as dt
import json

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused, InvalidExpression, InvalidPlan, InvalidStep
from millstream.inspect.checkpoint import open_view
from millstream.plan.deployment import Deployment
from millstream.plan.serialize import from_json, to_json
from millstream.testing import run_job

DAYS = [{"n": number, "day": f"2024-01-0{number % 3 + 1}"} for number in range(9)]
SECOND = {"day": "2024-01-02"}


class Tagged:
    def open(self, ctx):
        self._params = ctx.params

    def __call__(self, row):
        return {"n": row["n"], "tag": f"{self._params['day']}/{self._params['least']}"}


class Counted(ms.ProcessFunction):
    def process(self, row, ctx):
        yield {"n": row["n"], "tag": f"{ctx.params['day']:%d}"}


def job_of(sink, rows=DAYS, **options):
    job = ms.Job("days", params={"day": "date", "least": {"type": "int", "default": 4}}, **options)
    read = job.source("rows", ms.memory(rows), schema="n long, day date")
    read.filter("day = :day AND n >= :least").select("n").sink("out", sink)
    return job


def test_expressions_and_options_get_the_values_of_the_run(tmp_path):
    for day, rows in (("2024-01-02", [4, 7]), (dt.date(2024, 1, 1), [6])):
        job_of(ms.files(f"{tmp_path}/${{param:day}}", format="json")).run(local=True, params={"day": day})
        assert ms.read_files(tmp_path / str(day)).column("n").to_pylist() == rows
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2024-01-01", "2024-01-02"]


def test_statements_get_them_too():
    clear("sql")
    job = ms.Job("sql", params={"day": "date", "least": "int"})
    rows = job.source("rows", ms.memory(DAYS), schema="n long, day date")
    text = """
        WITH chosen AS (SELECT n, day FROM rows WHERE day = :day AND n >= :least)
        SELECT day, count(*) AS many, max(n) + :least AS most FROM chosen GROUP BY day HAVING count(*) > :least - 4
    """
    job.sql(text, rows=rows, emit="end", id="totals").sink("out", ms.collect("sql"))
    job.run(local=True, params={**SECOND, "least": 4})
    assert collected("sql") == [{"day": dt.date(2024, 1, 2), "many": 2, "most": 11}]


def test_functions_get_them_in_open_and_in_process():
    clear("tagged")
    clear("counted")
    job = ms.Job("functions", params={"day": "date", "least": {"type": "int", "default": 4}})
    rows = job.source("rows", ms.memory(DAYS[:1]), schema="n long, day date")
    rows.map(Tagged(), schema="n long, tag string").sink("tagged", ms.collect("tagged"))
    rows.key_by("n").process(Counted(), schema="n long, tag string", id="counted").sink("c", ms.collect("counted"))
    job.run(local=True, params={**SECOND, "least": "7"})
    assert collected("tagged") == [{"n": 0, "tag": "2024-01-02/7"}]
    assert collected("counted") == [{"n": 0, "tag": "02"}]


def test_aggregates_joins_and_patterns_take_them():
    job = ms.Job("many", params={"least": "int"})
    rows = job.source("rows", ms.memory([{"k": 1, "n": n} for n in (1, 5, 6, 2)]), schema="k long, n long")
    counted = rows.key_by("k").aggregate(
        many=ms.count(where="n >= :least"), total=ms.sum("n - :least"), emit="end", id="a"
    )
    counted.sink("counted", ms.collect("counted"))
    pattern = ms.pattern.begin("big").where("n >= :least").next("next").where("n > big.n - :least")
    found = rows.key_by("k").pattern(pattern, order_by=["n"]).measures(first="big.n", shift="next.n - :least", id="p")
    found.sink("found", ms.collect("found"))
    output = run_job(job, params={"least": 5})
    assert output["counted"] == [{"k": 1, "many": 2, "total": -6}]
    assert {"k": 1, "first": 5, "shift": 1} in output["found"]


def test_intervals_need_no_declaration():
    job = ms.Job("interval")
    rows = [{"at": "2024-01-01T00:00:00Z"}, {"at": "2024-01-02T00:00:00Z"}, {"at": "2024-01-03T00:00:00Z"}]
    read = job.source("rows", ms.memory(rows), schema="at timestamp")
    read.filter("at >= :interval_start AND at < :interval_end").sink("out", ms.collect("interval"))
    output = run_job(job, params={"interval_start": "2024-01-02", "interval_end": "2024-01-03"})
    assert output["out"] == [{"at": dt.datetime(2024, 1, 2, tzinfo=dt.UTC)}]
    with pytest.raises(InvalidPlan, match="parameter 'interval_end' has no value in this run") as refused:
        run_job(job, params={"interval_start": "2024-01-02"})
    assert (refused.value.code, refused.value.step) == ("PARAM-002", "rows.filter")


@pytest.mark.parametrize(
    ("params", "code"),
    [(None, "PARAM-002"), ({"dya": 1, **SECOND}, "PARAM-001"), ({"day": "today"}, "PARAM-003"), (["day"], "PARAM-003")],
)
def test_a_run_without_the_right_parameters_does_not_begin(params, code, tmp_path):
    with pytest.raises(InvalidPlan) as refused:
        job_of(ms.collect("days")).run(local=True, checkpoint=tmp_path / "c", params=params)
    assert refused.value.code == code
    assert not (tmp_path / "c").exists()


def test_names_that_the_job_does_not_have_are_refused_where_they_are_written():
    job = ms.Job("unknown", params={"day": "date"})
    with pytest.raises(InvalidStep, match="names a parameter 'dya'") as refused:
        job.source("rows", ms.files("${param:dya}"), schema="n long")
    assert (refused.value.code, refused.value.step) == ("PARAM-001", "rows")
    rows = job.source("rows", ms.memory([]), schema="n long")
    with pytest.raises(InvalidExpression, match="unknown parameter 'least'") as refused:
        rows.filter("n > :least")
    assert refused.value.step == "rows.filter"
    with pytest.raises(ms.MillstreamError, match="unknown parameter 'least'"):
        job.sql("SELECT n FROM rows WHERE n > :least", rows=rows)


def test_a_type_that_does_not_fit_is_refused_where_it_is_written():
    job = ms.Job("types", params={"day": "date"})
    rows = job.source("rows", ms.memory([]), schema="n long")
    with pytest.raises(InvalidExpression, match="date"):
        rows.filter("n > :day")


def test_an_option_is_checked_with_its_value():
    job = ms.Job("options", params={"rows": "int"})
    job.source("rows", ms.datagen(rows="${param:rows}", fields={"n": {"kind": "sequence"}})).sink("o", ms.collect("o"))
    assert job.run(local=True, params={"rows": 3}).rows_in == 3
    with pytest.raises(InvalidStep) as refused:
        job.run(local=True, params={"rows": -1})
    assert (refused.value.code, refused.value.step) == ("CONN-005", "rows")


def test_rows_of_a_program_are_no_options():
    job = ms.Job("data")
    job.source("rows", ms.memory([{"s": "${param:day}"}]), schema="s string").sink("out", ms.collect("data"))
    assert run_job(job)["out"] == [{"s": "${param:day}"}]


def test_a_plan_without_values_can_be_looked_at_and_not_run():
    job = job_of(ms.collect("days"))
    assert "day = CAST(:day AS date)" in job.explain("stream")
    bound = job.compile(Deployment(params=SECOND))
    assert bound.deployment.params == {"day": dt.date(2024, 1, 2), "least": 4}
    assert bound.stream.node("rows.filter").expressions[0][1].text == (
        "day = CAST('2024-01-02' AS date) AND n >= CAST('4' AS int)"
    )
    assert from_json(json.loads(json.dumps(to_json(bound)))).deployment == bound.deployment
    from millstream.local.run import run

    with pytest.raises(InvalidPlan, match="parameter 'day' has no value in this run"):
        run(job.compile().deployment)


def test_they_go_through_json_and_job_files():
    job = job_of(ms.collect("days"))
    assert ms.Job.from_json(json.loads(json.dumps(job.to_json()))).model == job.model
    text = """
job: days
params: {day: date, least: {type: int, default: 4}}
steps:
  - source: rows
    from: {memory: {rows: []}}
    schema: n long, day date
  - filter: day = :day AND n >= :least
  - select: [n]
  - sink: out
    to: {collect: {name: days}}
"""
    assert ms.load_job(text).model.steps[1:] == job.model.steps[1:]
    assert ms.load_job(text).model.requirements == job.model.requirements


def test_every_manifest_holds_them_and_no_fingerprint_does(tmp_path):
    job = job_of(ms.collect("days"))
    first, second = (job.compile(Deployment(params={"day": f"2024-01-0{day}"})).partitioned for day in (1, 2))
    assert first.fingerprint == second.fingerprint == job.compile().partitioned.fingerprint
    job.run(local=True, checkpoint=tmp_path, params=SECOND)
    with open_view(tmp_path, None, read_only=True) as view:
        assert view.manifest().run.params == {"day": "2024-01-02", "least": 4}


def test_an_interrupted_run_ends_with_what_it_was_given(tmp_path, failpoints):
    clear("days")
    job = job_of(ms.collect("days"), rows_per_epoch=3)
    failpoints("published:2:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        job.run(local=True, checkpoint=tmp_path, params=SECOND)
    failpoints("")
    with pytest.raises(CheckpointRefused, match="had other parameters") as refused:
        job.run(local=True, checkpoint=tmp_path, params={"day": "2024-01-03"})
    assert (refused.value.code, refused.value.found, refused.value.known) == (
        "CKPT-065",
        "day=2024-01-03",
        "day=2024-01-02",
    )
    job.run(local=True, checkpoint=tmp_path, params=SECOND)
    assert collected("days") == [{"n": 4}, {"n": 7}]
