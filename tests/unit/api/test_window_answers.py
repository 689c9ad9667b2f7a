"""What window functions and reductions may return, and what is said of anything else."""

import pytest

import millstream as ms
from millstream.errors import InvalidStep, StepFailed
from millstream.testing import run_job

TRIGGERS = [None, ms.trigger.event_time().early(ms.trigger.count(5))]
ROWS = [{"k": "a", "at": at, "v": at} for at in (1, 2, 3)]


def keyed():
    job = ms.Job("answers")
    return job, job.source("in", ms.memory([]), schema="k string, at long, v long").event_time("at").key_by("k")


def windowed(trigger):
    job, stream = keyed()
    return job, stream.window(ms.tumbling("1s"), **({} if trigger is None else {"trigger": trigger}))


def failed(job, stream):
    stream.sink("out", ms.collect("out"))
    with pytest.raises(StepFailed) as caught:
        run_job(job, {"in": ROWS})
    assert "on_error" not in str(caught.value), "the step has no such option"
    return caught.value


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("answer", [None, 5, "text", [{"k": "a"}]])
def test_a_window_reduction_returns_a_row(answer, trigger):
    job, windows = windowed(trigger)
    error = failed(job, windows.reduce(lambda held, came: answer, id="w"))
    assert (error.code, error.step) == ("STEP-240", "w")
    assert repr(answer) in error.found
    assert "return one row" in error.hint


@pytest.mark.parametrize("answer", [None, 5])
def test_a_running_reduction_returns_a_row(answer):
    job, stream = keyed()
    error = failed(job, stream.reduce(lambda held, came: answer, id="r"))
    assert (error.code, error.step) == ("STEP-240", "r")


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("answer", [5, 0, True, "text", b"", {"n": 1}, [5], [None]])
def test_a_window_function_returns_rows(answer, trigger):
    job, windows = windowed(trigger)
    error = failed(job, windows.process(lambda key, window, rows: answer, schema="n long", id="w"))
    assert (error.code, error.step) == ("STEP-241", "w")
    assert repr(answer[0] if isinstance(answer, list) else answer) in error.found


@pytest.mark.parametrize("trigger", TRIGGERS)
@pytest.mark.parametrize("answer", [None, [], (), iter(())])
def test_no_rows_are_rows(answer, trigger):
    job, windows = windowed(trigger)
    windows.process(lambda key, window, rows: answer, schema="n long", id="w").sink("out", ms.collect("out"))
    assert run_job(job, {"in": ROWS})["out"] == []


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_row_of_another_schema_suggests_no_option_that_is_not_there(trigger):
    job, windows = windowed(trigger)
    error = failed(job, windows.process(lambda key, window, rows: [{"n": "many"}], schema="n long", id="w"))
    assert (error.code, error.step) == ("RUN-001", "w")


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_an_exception_in_a_window_function_suggests_no_option_that_is_not_there(trigger):
    job, windows = windowed(trigger)
    error = failed(job, windows.process(lambda key, window, rows: [{"n": 1 // 0}], schema="n long", id="w"))
    assert "ZeroDivisionError" in error.message


def test_a_process_function_still_suggests_its_policy():
    class Failing(ms.ProcessFunction):
        def process(self, row, ctx):
            raise ValueError(row)

    job, stream = keyed()
    stream.process(Failing, schema="n long", id="p").sink("out", ms.collect("out"))
    with pytest.raises(StepFailed, match="on_error='skip'"):
        run_job(job, {"in": ROWS})


def test_a_reduction_that_changes_a_type_is_refused():
    job, windows = windowed(None)
    error = failed(job, windows.reduce(lambda held, came: {**held, "v": "text"}, id="w"))
    assert (error.code, error.step) == ("STATE-002", "w")


@pytest.mark.parametrize("window", [ms.tumbling("1s"), ms.session("1s"), ms.count_window(3)])
def test_a_window_needs_an_aggregate(window):
    _, stream = keyed()
    with pytest.raises(InvalidStep) as caught:
        stream.window(window).aggregate(id="w")
    assert (caught.value.code, caught.value.step) == ("STEP-046", "w")
    assert "ms.sum" in caught.value.hint


@pytest.mark.parametrize("offset", ["-1s", " -1s", -1])
def test_an_offset_may_be_negative(offset):
    job, stream = keyed()
    made = stream.window(ms.tumbling("10s", offset=offset)).aggregate(n=ms.count(), id="w")
    made.sink("out", ms.collect("out"))
    (row,) = run_job(job, {"in": [{"k": "a", "at": 8_999, "v": 1}]})["out"]
    assert round(row["window_end"].timestamp()) == 9
    assert ms.tumbling("10s", offset=offset) == ms.tumbling("10s", offset="-1s")


@pytest.mark.parametrize("offset", ["--1s", "-", "1", "- x"])
def test_an_offset_is_a_duration(offset):
    with pytest.raises(InvalidStep) as caught:
        ms.sliding("10s", "5s", offset=offset)
    assert caught.value.code == "STEP-004"
