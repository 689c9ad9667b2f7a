"""Asynchronous steps: bounded concurrency, retries, timeouts, order, and one event loop for all batches."""

import asyncio

import pytest

import millstream as ms
from millstream.errors import InvalidPlan, InvalidStep, StepFailed
from millstream.testing import run_job

ROWS = [{"n": n} for n in range(12)]


def mapped(function, **options):
    job = ms.Job("async", guarantee=options.pop("guarantee", "exactly_once"))
    made = job.source("in", ms.memory([]), schema="n long").async_map(function, schema="n long", id="a", **options)
    made.sink("out", ms.collect("x"))
    output = run_job(job, {"in": ROWS}, rows_per_epoch=6)
    return [row["n"] for row in output["out"]], output.counts["a"]


def test_no_more_rows_wait_than_allowed_and_order_is_kept():
    waiting, most, loops = 0, 0, set()

    async def slow(row):
        nonlocal waiting, most
        loops.add(asyncio.get_running_loop())
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.002 * (12 - row["n"]))
        waiting -= 1
        return row

    found, counts = mapped(slow, concurrency=3)
    assert found == list(range(12))
    assert most == 3
    assert len(loops) == 1
    assert counts.rows_out == 12


def test_unordered_rows_leave_as_their_answers_come():
    async def backwards(row):
        for _ in range(3 * (6 - row["n"] % 6)):
            await asyncio.sleep(0)
        return row

    found, _ = mapped(backwards, ordered=False)
    assert sorted(found) == list(range(12))
    assert found[:6] == [5, 4, 3, 2, 1, 0]


def test_a_row_is_tried_again():
    tries = {}

    async def flaky(row):
        tries[row["n"]] = tries.get(row["n"], 0) + 1
        if tries[row["n"]] <= row["n"] % 3:
            raise ConnectionError("not yet")
        return row

    found, counts = mapped(flaky, retries=1, backoff="1ms", on_error="skip")
    assert found == [n for n in range(12) if n % 3 < 2]
    assert counts.skipped == 4
    assert counts.is_balanced


def test_a_slow_row_times_out():
    async def stuck(row):
        if row["n"] == 7:
            await asyncio.sleep(60)
        return row

    with pytest.raises(StepFailed, match="no answer within 20 ms") as caught:
        mapped(stuck, timeout="20ms")
    assert caught.value.step == "a"


def test_an_answer_of_another_schema_is_refused():
    async def wrong(row):
        return {"n": "text"} if row["n"] == 3 else row

    found, counts = mapped(wrong, on_error="skip")
    assert len(found) == 11
    assert counts.skipped == 1


def test_refusals():
    with pytest.raises(InvalidStep) as caught:
        mapped(lambda row: row)
    assert caught.value.code == "STEP-084"

    async def same(row):
        return row

    for options in ({"concurrency": 0}, {"retries": -1}):
        with pytest.raises(InvalidStep) as caught:
            mapped(same, **options)
        assert caught.value.code == "STEP-084"


def test_unordered_rows_may_not_stand_before_an_exchange_under_exactly_once():
    async def same(row):
        return row

    job = ms.Job("async")
    rows = job.source("in", ms.memory([]), schema="n long").async_map(same, schema="n long", ordered=False, id="a")
    rows.key_by("n").aggregate(c=ms.count(), id="c").sink("out", ms.collect("x"))
    with pytest.raises(InvalidPlan) as caught:
        job.compile()
    assert caught.value.code == "PLAN-041"
