"""Times at which nothing can have happened are bad records, whatever column they come from; nothing wraps, vanishes or hangs."""

import datetime as dt

import pyarrow as pa
import pytest

import millstream as ms
from millstream.api.jobfile.load import load_job
from millstream.connectors.collect.sink import collected
from millstream.errors import InvalidSchema, InvalidStep, MillstreamError
from millstream.model.time import (
    FIRST_EVENT,
    LAST_EVENT,
    MAX_TIME,
    MIN_TIME,
    event_time_problem,
    instant_text,
    to_datetime,
)
from millstream.records.codecs import batch_to_rows, rows_to_batch, shown_rows
from millstream.testing import ADVANCE_CLOCK, WATERMARK, run_job

NOW = 1_700_000_000_000
UNITS = {
    NOW * 1_000: "microseconds",
    NOW * 1_000_000: "nanoseconds",
    2**62: "nanoseconds",
    2**63 - 1: "nanoseconds",
    -(2**63): "nanoseconds",
    LAST_EVENT + 1: "within the years 2 to 9998",
    FIRST_EVENT - 1: "microseconds",
    None: "null",
}
BOUNDS = [FIRST_EVENT, -1, 0, NOW, LAST_EVENT]


def test_the_range_leaves_room_for_windows_of_a_year_at_both_ends():
    assert to_datetime(FIRST_EVENT) == dt.datetime(2, 1, 1, tzinfo=dt.UTC)
    assert to_datetime(LAST_EVENT + 1) == dt.datetime(9999, 1, 1, tzinfo=dt.UTC)
    assert all(event_time_problem(at) is None for at in BOUNDS)


def test_instants_for_people():
    assert [instant_text(at) for at in (MIN_TIME, -1, MAX_TIME)] == ["-", "1969-12-31T23:59:59.999Z", "end"]
    assert instant_text(NOW * 1_000) == f"{NOW * 1_000} ms"
    with pytest.raises(InvalidSchema, match="SCHEMA-020"):
        to_datetime(NOW * 1_000)


def timed(schema, **options):
    job = ms.Job("times")
    rows = job.source("in", ms.memory([]), schema=f"k long, at {schema}").event_time("at", id="time", **options)
    windows = rows.key_by("k").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("x"))
    windows.late.sink("late", ms.collect("x"))
    return job


def rows_at(*times):
    return [{"k": number, "at": at} for number, at in enumerate(times)]


@pytest.mark.parametrize(("at", "unit"), UNITS.items(), ids=str)
def test_a_bad_time_stops_the_job_and_names_the_likely_unit(at, unit):
    with pytest.raises(MillstreamError, match=unit) as caught:
        run_job(timed("long"), {"in": rows_at(NOW, at)})
    assert (caught.value.code, caught.value.step) == ("RUN-001", "time")
    assert "on_error=" in caught.value.hint


@pytest.mark.parametrize("at", [NOW * 1_000, "9999-01-01T00:00:00", dt.datetime.max, None], ids=str)
def test_so_does_one_of_a_timestamp_column(at):
    with pytest.raises(MillstreamError, match="no event time") as caught:
        run_job(timed("timestamp"), {"in": rows_at(NOW, at)})
    assert (caught.value.code, caught.value.step) == ("RUN-001", "time")


@pytest.mark.parametrize("rows_per_epoch", [1, 100])
@pytest.mark.parametrize("schema", ["long", "timestamp"])
def test_good_rows_go_on_and_every_row_is_accounted_for(schema, rows_per_epoch):
    good = [*BOUNDS, NOW + 1]
    bad = [at for at in UNITS if schema == "long" or at is None or abs(at) < 2**61 // 1000]
    dead = ms.dead_letter(ms.collect("x"))
    script = rows_at(*[each for pair in zip(bad, [*good, *good], strict=False) for each in pair])
    for policy, name in (("skip", "skipped"), (dead, "failed")):
        job = timed(schema, on_error=policy, watermark=ms.watermark.none())
        output = run_job(job, {"in": script}, rows_per_epoch=rows_per_epoch)
        assert output["late"] == []
        assert sum(row["n"] for row in output["out"]) == len(bad)
        counts = output.counts["time"]
        assert (counts.rows_in, counts.passed, getattr(counts, name)) == (2 * len(bad), len(bad), len(bad))
        assert counts.is_balanced
    assert len(output["time.dead"]) == len(bad)
    assert all("no event time" in letter["error"] for letter in output["time.dead"])


def test_a_bad_time_does_not_move_the_watermark():
    job = timed("long", on_error="skip")
    output = run_job(job, {"in": rows_at(NOW * 1_000, NOW, NOW + 1)}, rows_per_epoch=1)
    assert output["late"] == []
    assert len(output["out"]) == 2


def test_a_mark_that_a_row_carries_is_an_instant_too():
    job = ms.Job("marks")
    strategy = ms.watermark.punctuated("done", column="upto")
    rows = job.source("in", ms.memory([]), schema="k long, at long, done boolean, upto long")
    rows = rows.event_time("at", watermark=strategy, on_error=ms.dead_letter(ms.collect("x")), id="time")
    windows = rows.key_by("k").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")
    windows.sink("out", ms.collect("x"))
    windows.late.sink("late", ms.collect("x"))
    row = {"k": 1, "at": NOW, "done": True, "upto": NOW}
    script = [
        row | {"upto": NOW * 1_000},
        row | {"upto": None},
        row | {"done": False, "upto": NOW * 1_000},  # it carries no mark
        row,
        row | {"at": None, "upto": NOW * 1_000},
    ]
    for rows_per_epoch in (1, 100):
        output = run_job(job, {"in": script}, rows_per_epoch=rows_per_epoch)
        assert [row["n"] for row in output["out"]] == [3]
        errors = [letter["error"] for letter in output["time.dead"]]
        assert sorted(error[: error.index(":")] for error in errors) == ["column 'at'", "column 'upto'"]
        assert output["late"] == []
        assert output.counts["time"].failed == 2


def test_a_generator_answers_in_milliseconds():
    class Nanoseconds(ms.WatermarkGenerator):
        def on_epoch(self, state, newest, rows, now):
            return None, newest * 1_000_000

    with pytest.raises(MillstreamError, match="nanoseconds") as caught:
        run_job(timed("long", watermark=Nanoseconds()), {"in": rows_at(NOW)})
    assert caught.value.hint == "correct on_epoch of the generator"


def test_a_generator_that_fails_on_a_batch_is_not_told_of_a_policy():
    class Failing(ms.WatermarkGenerator):
        def on_batch(self, rows, times):
            raise ValueError("too many")

        def on_epoch(self, state, newest, rows, now):
            return None, None

    with pytest.raises(MillstreamError, match="too many") as caught:
        run_job(timed("long", watermark=Failing()), {"in": rows_at(NOW)})
    assert caught.value.hint == "correct on_batch of the generator"


@pytest.mark.parametrize("at", [2**63 - 1, 2**62, NOW * 1_000_000])
def test_a_watermark_of_a_script_is_an_instant(at):
    with pytest.raises(InvalidStep, match="looks like nanoseconds") as caught:
        WATERMARK(at)
    assert caught.value.code == "TEST-002"


def test_what_a_source_says_beyond_all_rows_closes_all_windows():
    mark = {"__ms_mark": "watermark", "at": 2**63 - 1}
    script = [*rows_at(NOW), mark, ADVANCE_CLOCK(0), *rows_at(NOW), ADVANCE_CLOCK(0)]
    output = run_job(timed("long"), {"in": script})
    assert (len(output["out"]), len(output["late"]), len(output.epochs)) == (1, 1, 6)


def test_timestamps_that_no_datetime_holds_are_named():
    job = ms.Job("beyond")
    job.source("in", ms.memory([]), schema="k long, at timestamp").sink("out", ms.collect("beyond/out"))
    with pytest.raises(InvalidSchema, match="'at' holds a timestamp outside the years 1 to 9999") as caught:
        run_job(job, {"in": rows_at(NOW, NOW * 1_000)})
    assert (caught.value.code, collected("beyond/out")) == ("SCHEMA-020", [])
    nested = pa.array([{"at": NOW * 1_000_000}], pa.struct([("at", pa.timestamp("us"))]))
    with pytest.raises(InvalidSchema, match="SCHEMA-020"):
        batch_to_rows(pa.RecordBatch.from_pydict({"s": nested}))


def test_rows_for_people_keep_what_can_be_shown():
    times = pa.array([NOW * 1_000, NOW * 1_000_000, None], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    batch = pa.RecordBatch.from_pydict({"k": [1, 2, 3], "at": times})
    assert [row["at"] for row in shown_rows(batch)] == [to_datetime(NOW), NOW * 1_000_000, None]


def test_a_number_that_no_timestamp_holds_names_its_unit():
    schema = timed("timestamp").model.steps[0].operation.schema
    with pytest.raises(InvalidSchema, match="looks like nanoseconds") as caught:
        rows_to_batch([{"k": 1, "at": NOW * 1_000_000}], schema)
    assert caught.value.code == "SCHEMA-021"


def test_the_policy_stands_in_files_and_plans():
    job = timed("long", on_error=ms.dead_letter(ms.collect("x")))
    assert ms.Job.from_json(job.to_json()).model == job.model
    assert "dead_letter" in job.explain("stream")
    plain, skipping = (timed("long", **given).compile().deployment.plan for given in ({}, {"on_error": "skip"}))
    assert plain.fingerprint == skipping.fingerprint
    text = """
        job: file
        steps:
          - source: in
            from: {memory: {rows: []}}
            schema: k long, at long
          - event_time: at
            id: time
            on_error: {dead_letter: {collect: {name: dead}}}
          - sink: out
            to: {collect: {name: out}}
    """
    step = next(step for step in load_job(text).model.steps if step.id == "time")
    assert step.operation.on_error == "dead_letter"
