"""Dead letters are replayed: once, through the step that failed, as if it had never done so."""

import random
from collections import Counter

import pytest
from tests.unit.runs.replay_job import STEPS, ask, build, expected, letters, total_of, totals, written

import millstream as ms
from millstream.errors import CheckpointRefused, StepFailed
from millstream.inspect.asking import request_for
from millstream.inspect.checkpoint import open_view
from millstream.inspect.letters.box import letter_boxes
from millstream.inspect.savepoint import take_from_outside
from millstream.plan.epoch import plan_from_json


def some_rows(seed, count=60):
    draw = random.Random(seed)
    return [{"k": draw.choice("abc"), "n": draw.randrange(1, 90), "at": 1000 * place} for place in range(count)]


def run(job, place, **options):
    return job.run(local=True, checkpoint=place / "checkpoint", **options)


def mend(place):
    (place / "mended").touch()


@pytest.mark.parametrize(("seed", "timed"), [(1, True), (2, False), (3, True)])
def test_a_mended_job_gives_what_one_gives_that_never_failed(tmp_path, seed, timed):
    rows = some_rows(seed)
    job = build(tmp_path, rows, timed=timed)
    run(job, tmp_path)
    assert written(tmp_path) < expected(rows, timed=timed)
    mend(tmp_path)
    asked = ask(job, tmp_path)
    assert all(each.rows and not each.refused for each in asked.values()), asked
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows, timed=timed)
    assert totals(tmp_path) == total_of(expected(rows, timed=timed))


@pytest.mark.parametrize("times", [1, 2])
def test_a_letter_is_replayed_once_however_often_it_is_asked_for(tmp_path, times):
    rows = some_rows(4)
    job = build(tmp_path, rows)
    run(job, tmp_path)
    mend(tmp_path)
    first = ask(job, tmp_path)
    for _ in range(times):
        run(job, tmp_path)
        again = ask(job, tmp_path)
        assert {step: (each.rows, each.before) for step, each in again.items()} == {
            step: (0, each.rows) for step, each in first.items()
        }
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows)


@pytest.mark.parametrize("where", ["begun:1", "task_staged:1", "prepared:1", "durable:1", "published:1"])
def test_a_run_that_breaks_off_while_it_replays_goes_on_where_it_was(tmp_path, failpoints, where):
    rows = some_rows(5, 40)
    job = build(tmp_path, rows)
    run(job, tmp_path)
    mend(tmp_path)
    ask(job, tmp_path)
    failpoints(f"{where}:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        run(job, tmp_path, run_id="replaying")
    failpoints("")
    ask(job, tmp_path)
    run(job, tmp_path, run_id="replaying")
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows)
    assert totals(tmp_path) == total_of(expected(rows))


def test_rows_that_fail_again_are_letters_again_and_say_so(tmp_path):
    rows = some_rows(6, 30)
    job = build(tmp_path, rows)
    run(job, tmp_path)
    before = letters(job, tmp_path)
    ask(job, tmp_path)
    run(job, tmp_path)
    after = letters(job, tmp_path)
    for step in STEPS:
        firsts = [each.letter for each in after[step] if each.letter.attempt == 1]
        seconds = [each.letter for each in after[step] if each.letter.attempt == 2]
        assert {each.id for each in firsts} == {each.letter.id for each in before[step]}
        assert Counter(each.origin for each in seconds) == Counter(f"attempt 2 of {each.id}" for each in firsts)
        assert Counter(each.record for each in seconds) == Counter(each.record for each in firsts)
    mend(tmp_path)
    asked = ask(job, tmp_path)
    assert all(each.rows == len(before[step]) for step, each in asked.items())
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows)


def test_a_lineage_that_starts_afresh_replays_nothing_of_before(tmp_path):
    rows = some_rows(7, 30)
    job = build(tmp_path, rows)
    run(job, tmp_path)
    mend(tmp_path)
    ask(job, tmp_path)
    run(job, tmp_path, carry="nothing")
    assert totals(tmp_path) == total_of(expected(rows))


def test_a_job_without_requests_has_the_plans_it_had(tmp_path):
    run(build(tmp_path, some_rows(8, 10)), tmp_path)
    with open_view(tmp_path / "checkpoint") as view:
        plan = plan_from_json(view.manifest().plan)
    assert (plan.replays, plan.replayed) == ({}, {})
    without = {name: value for name, value in plan.to_json().items() if name not in {"replays", "replayed"}}
    assert plan_from_json(without).digest == plan.digest
    assert not (tmp_path / "checkpoint" / "replays").exists()


def test_a_request_for_other_columns_becomes_letters_again(tmp_path):
    rows = [{"k": "a", "n": 3}]

    def job_with(schema):
        def fail(row):
            raise ValueError("no")

        job = ms.Job("changed", carry="state")
        stream = job.source("in", ms.memory(rows), schema="k string, n long").select(*schema.split(", "), id="chosen")
        dead = ms.dead_letter(ms.files(tmp_path / "dead", format="json"))
        stream.map(fail, schema="k string", on_error=dead, id="fail").sink("out", ms.collect("changed"))
        return job

    run(job_with("k, n"), tmp_path)
    assert ask(job_with("k, n"), tmp_path, ["fail"])["fail"].rows == 1
    run(job_with("k"), tmp_path)
    second = [each.letter for each in letters(job_with("k"), tmp_path, ["fail"])["fail"] if each.letter.attempt == 2]
    assert [each.record for each in second] == ['{"k": "a", "n": 3}']
    assert "the step takes other columns now: k" in second[0].error


def test_a_damaged_request_stops_the_run_by_name(tmp_path):
    job = build(tmp_path, some_rows(9, 20))
    run(job, tmp_path)
    ask(job, tmp_path, ["shape"])
    (request,) = (tmp_path / "checkpoint" / "replays" / "shape").iterdir()
    request.write_bytes(b"nothing")
    with pytest.raises(StepFailed, match="cannot be read") as caught:
        run(job, tmp_path)
    assert (caught.value.code, caught.value.step) == ("DLQ-010", "shape")
    with pytest.raises(CheckpointRefused, match="request"):
        letters(job, tmp_path, ["shape"])


def test_a_restored_savepoint_replays_what_came_behind_it_and_no_more(tmp_path):
    """The position stands in the savepoint: requests served before it are in its state, those behind it are not."""
    rows = some_rows(10, 40)
    job = build(tmp_path, rows)
    run(job, tmp_path)
    mend(tmp_path)
    ask(job, tmp_path, ["shape", "keep"])
    run(job, tmp_path)
    with open_view(tmp_path / "checkpoint") as view:
        path = take_from_outside(view, request_for("savepoint", to=str(tmp_path / "savepoints")), 60)
    ask(job, tmp_path)
    run(job, tmp_path)
    assert written(tmp_path) == expected(rows)
    run(job, tmp_path, from_savepoint=path, on_newer_output="truncate")
    assert written(tmp_path) == expected(rows)
    assert totals(tmp_path) == total_of(expected(rows))


def test_a_replayed_row_keeps_its_time_moves_no_watermark_and_may_be_late(tmp_path):
    """A step before `event_time` and one behind it: both rows belong to a window that has closed meanwhile."""

    def breaks(name):
        def function(row):
            if row["n"] == name and not (tmp_path / "mended").exists():
                raise ValueError("not yet")
            return row

        return function

    rows = [{"n": 1, "at": 0}, {"n": 2, "at": 500}, {"n": 3, "at": 1_000}, {"n": 4, "at": 900_000}]
    schema, dead = "n long, at long", ms.dead_letter(ms.files(tmp_path / "dead", format="json"))
    job = ms.Job("timed", carry="state", rows_per_epoch=1)
    stream = job.source("in", ms.memory(rows), schema=schema)
    stream = stream.map(breaks(1), schema=schema, on_error=dead, id="before").event_time("at", id="time")
    stream = stream.map(breaks(2), schema=schema, on_error=dead, id="behind").key_by("n")
    stream.window(ms.tumbling("10s")).aggregate(rows=ms.count(), id="windows").sink("out", ms.files(tmp_path / "out"))
    run(job, tmp_path)
    with open_view(tmp_path / "checkpoint") as view:
        seen = view.manifest().planner["partitions"]
    mend(tmp_path)
    assert [each.rows for each in ask(job, tmp_path, ["before", "behind"]).values()] == [1, 1]
    result = run(job, tmp_path)
    assert result.counts["windows"].late == 2
    with open_view(tmp_path / "checkpoint") as view:
        assert {step: set(parts) for step, parts in view.manifest().planner["partitions"].items()} == {
            step: set(parts) for step, parts in seen.items()
        }


def test_files_of_the_newest_epoch_and_those_with_other_letters_are_not_removed(tmp_path, failpoints):
    job = build(tmp_path, [{"k": "a", "n": n, "at": n} for n in (3, 6, 9)])
    failpoints("published:1:raise")
    with pytest.raises(ms.MillstreamError, match="failpoint"):
        run(job, tmp_path)
    failpoints("")
    with open_view(tmp_path / "checkpoint") as view:
        (box,) = (each for each in letter_boxes(job, view) if each.node.id == "shape")
    newest = box.remove(lambda letter: True)
    assert (newest.rows, newest.kept, len(box.told())) == (0, 3, 3)
    run(job, tmp_path)
    some = box.told()[0].letter.id
    shared = box.remove(lambda letter: letter.id == some)
    assert (shared.rows, shared.kept, len(box.told())) == (0, 1, 3)
    # Behind it lies the terminal epoch now.
    whole = box.remove(lambda letter: True)
    assert (whole.rows, whole.kept, box.told()) == (3, 0, [])
    assert ms.read_files(tmp_path / "dead" / "shape").num_rows == 0
    run(job, tmp_path)
