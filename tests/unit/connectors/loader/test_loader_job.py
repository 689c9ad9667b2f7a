"""Jobs whose source is a function: what it may do, what it must not, and what is said then."""

import itertools
import json
import sys
import threading

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.connectors.loader.source import WalkingEnumerator
from millstream.contract.source import Credit, SourceContext
from millstream.errors import ExternalFailure, InvalidStep, StepFailed
from millstream.model.connector import checked_options, source_declaration
from millstream.model.schema import schema_of

ROWS = [{"n": number} for number in range(20)]


def load(start, ctx):
    for at in range(start or 0, len(ROWS), 4):
        yield ROWS[at : at + 4], at + 4


def again(start, ctx):
    """Another page for each call."""
    again.calls += 1
    yield [{"n": again.calls}], 1


def fewer(start, ctx):
    """Rows for the driver, which does not know the end, and fewer for the workers."""
    yield ([{"n": 1}] if ctx.end else [{"n": 1}, {"n": 2}]), 1


def elsewhere(start, ctx):
    yield [{"n": 1}], (7 if ctx.end else 1)


@pytest.fixture(autouse=True)
def forgotten():
    again.calls = 0
    yield
    clear("loaded")


def run(function, *, schema="n long", on_error="fail", **options):
    job = ms.Job("loading", rows_per_epoch=8)
    job.source("in", ms.loader(function, **options), schema=schema, on_error=on_error).sink("out", ms.collect("loaded"))
    job.run(local=True)
    return collected("loaded")


def enumerator(function, **options):
    spec = ms.loader(function, replayable=True, **options)
    declared = source_declaration(spec)
    given = checked_options(declared.options, spec.options, step="in", name="loader")
    context = SourceContext(step="in", schema=schema_of("n long"), log_dir=None, parallelism=2)
    return WalkingEnumerator(given, context)


def test_a_function_is_a_source():
    assert run(load, replayable=True) == ROWS


@pytest.mark.parametrize("function", [load, lambda start, ctx: list(load(start, ctx)), "loader_functions:pages"])
def test_functions_travel_as_other_functions_do(function, tmp_path, monkeypatch):
    (tmp_path / "loader_functions.py").write_text(
        "def pages(start, ctx):\n    yield [{'n': n} for n in range(20)], 1\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert run(function, replayable=True) == ROWS
    sys.modules.pop("loader_functions", None)


def test_a_job_file_names_the_function(tmp_path, monkeypatch):
    (tmp_path / "loader_pages.py").write_text("def pages(start, ctx):\n    yield [{'n': n} for n in range(3)], 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = """
job: filed
steps:
  - source: in
    from: {loader: {function: loader_pages:pages, replayable: true}}
    schema: n long
  - sink: out
    to: {collect: {name: loaded}}
"""
    (tmp_path / "job.yaml").write_text(text)
    job = ms.load_job(tmp_path / "job.yaml")
    job.run(local=True)
    assert collected("loaded") == ROWS[:3]
    stored = json.dumps(job.to_json())
    assert '"function": "loader_pages:pages"' in stored
    assert ms.Job.from_json(json.loads(stored)).model == job.model
    sys.modules.pop("loader_pages", None)


def test_a_function_that_cannot_be_imported_elsewhere_is_not_written():
    job = ms.Job("local")
    job.source("in", ms.loader(lambda start, ctx: [], replayable=True), schema="n long").sink(
        "out", ms.collect("loaded")
    )
    with pytest.raises(InvalidStep, match="STEP-050"):
        job.to_json()


def test_the_plan_shows_the_function():
    job = ms.Job("shown")
    job.source("in", ms.loader(load, replayable=True), schema="n long").sink("out", ms.collect("loaded"))
    assert "loader(function=test_loader_job:load at test_loader_job.py:" in job.explain("stream")


# What is refused when the step is built.


class Living:
    def __call__(self, start, ctx):
        return []

    def open(self, ctx):
        """Nobody would call it."""


@ms.nondeterministic
def dicey(start, ctx):
    return []


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        ({"function": lambda start: []}, "LOADER-001", "too many positional"),
        ({"function": 7}, "LOADER-001", "a int, which cannot be called"),
        ({"function": Living()}, "LOADER-001", "open or close"),
        ({"function": load, "positions": lambda: []}, "LOADER-001", "def look(start, ctx)"),
        ({"function": load, "acknowledge": lambda: []}, "LOADER-001", "def acknowledge(position, ctx)"),
        ({"function": dicey}, "LOADER-002", "not deterministic"),
        ({"function": "nowhere:at_all"}, "CONN-005", "No module named 'nowhere'"),
        ({"function": load, "poll": "0s"}, "CONN-005", "above zero"),
        ({"function": load, "start": {1, 2}}, "CONN-005", "JSON"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_step_is_built(options, code, text):
    with pytest.raises(InvalidStep) as refused:
        ms.Job("refused").source("in", ms.loader(**options, replayable=True), schema="n long")
    assert (refused.value.code, refused.value.step) == (code, "in")
    assert text in str(refused.value)


# What is refused when it runs.


def _raises(start, ctx):
    raise ValueError("bad luck")


def _raises_later(start, ctx):
    yield ROWS[:4], 4
    raise ValueError("bad luck")


@pytest.mark.parametrize("function", [_raises, _raises_later])
def test_a_function_that_fails_names_the_step_and_the_line(function):
    with pytest.raises(StepFailed) as failed:
        run(function, replayable=True)
    assert (failed.value.code, failed.value.step) == ("LOADER-003", "in")
    line = function.__code__.co_firstlineno + (1 if function is _raises else 2)
    assert f"ValueError: bad luck at test_loader_job.py:{line} in {function.__name__}" in failed.value.message
    assert isinstance(failed.value.__cause__, ValueError)


def _away(start, ctx):
    yield ROWS[:4], 4
    raise ConnectionRefusedError("nobody answers")


def test_what_is_away_may_be_asked_again():
    with pytest.raises(ExternalFailure, match="nobody answers") as failed:
        run(_away, replayable=True)
    assert (failed.value.code, failed.value.step, failed.value.retry) == ("LOADER-003", "in", "backoff")


@pytest.mark.parametrize(
    ("made", "code", "text"),
    [
        (None, "LOADER-004", "returned something else than an iterator"),
        ([ROWS], "LOADER-004", "yielded something else than rows and a position"),
        ([(ROWS, 1, 2)], "LOADER-004", "yielded something else than rows and a position"),
        ([(ROWS, None)], "LOADER-004", "no JSON value, or null"),
        ([(ROWS, {1})], "LOADER-004", "no JSON value, or null"),
        ([(ROWS, 5)], "LOADER-004", "does not go on"),
        ([(7, 6)], "LOADER-005", "gave int"),
        ([(["text"], 6)], "LOADER-005", "gave a list of str"),
        ([({"n": ["x"], "m": []}, 6)], "LOADER-005", "columns of different lengths"),
    ],
)
def test_what_it_yields_is_checked(made, code, text):
    with pytest.raises(StepFailed) as failed:
        run(lambda start, ctx: made, replayable=True, start=5)
    assert (failed.value.code, failed.value.step) == (code, "in")
    assert text in str(failed.value)


def test_a_column_of_another_type_is_refused():
    import pyarrow as pa

    with pytest.raises(StepFailed, match=r"LOADER-005.*'n' of the rows does not fit the schema"):
        run(lambda start, ctx: [(pa.table({"n": ["x"]}), 1)], replayable=True)


def test_bad_rows_go_where_the_policy_says():
    rows = [{"n": 1}, {"n": "x"}, {"n": 3}]
    assert run(lambda start, ctx: [(rows, [1, "b"])], replayable=True, on_error="skip", start=[0]) == [
        {"n": 1},
        {"n": 3},
    ]
    clear("loaded")
    run(lambda start, ctx: [(rows, 1)], replayable=True, on_error=ms.dead_letter(ms.collect("dead")))
    (letter,) = collected("dead")
    clear("dead")
    assert (letter["record"], letter["step"]) == ('{"n": "x"}', "in")
    assert letter["origin"].endswith("behind null")


# Promises.


@pytest.mark.parametrize(
    ("function", "options", "text"),
    [
        (fewer, {}, "gave other rows than the first time"),
        (elsewhere, {}, "did not come to the position"),
        (again, {"check": True}, "gave other rows than the first time"),
    ],
)
def test_a_broken_promise_is_noticed(function, options, text):
    with pytest.raises(StepFailed) as failed:
        run(function, replayable=True, **options)
    assert (failed.value.code, failed.value.step) == ("LOADER-006", "in")
    assert text in str(failed.value)


def test_other_rows_of_the_same_number_are_noticed_only_where_they_are_compared():
    assert run(again, replayable=True) == [{"n": 2}]


def test_a_kept_promise_is_compared_and_holds():
    assert run(load, replayable=True, check=True) == ROWS


# The driver.


def test_the_driver_loads_nothing_where_positions_can_be_looked_up():
    ends = []

    def watched(start, ctx):
        ends.append(ctx.end)
        yield from load(start, ctx)

    def look(start, ctx):
        return [(4, at + 4) for at in range(start or 0, 20, 4)]

    assert run(watched, replayable=True, positions=look) == ROWS
    assert None not in ends
    assert len(ends) > 3, "epochs of two splits each"


def test_a_number_that_is_none_is_refused():
    with pytest.raises(StepFailed, match=r"LOADER-005.*a number of rows"):
        run(load, replayable=True, positions=load)


def test_a_function_is_left_at_the_end_of_its_split_and_closed():
    closed = threading.Event()

    def endless(start, ctx):
        try:
            for at in itertools.count(start or 0):
                if ctx.end is None and at == 3:
                    return
                yield [{"n": at}], at + 1
        finally:
            if ctx.end is not None:
                closed.set()

    assert run(endless, replayable=True) == ROWS[:3]
    assert closed.is_set()


def test_a_function_far_ahead_waits():
    made = []

    def endless(start, ctx):
        for at in itertools.count(start or 0):
            made.append(at)
            yield [{"n": at}], at + 1

    opened = enumerator(endless)
    position = opened.initial()
    for _ in range(5):
        position = opened.advance(position, Credit(10)).position
    opened.close()
    assert position["at"] == 50
    assert len(made) < 2000, "it does not run away"


def test_an_ended_function_is_called_again_after_a_while():
    content = list(ROWS[:2])
    calls = []

    def growing(start, ctx):
        calls.append(start)
        at = start or 0
        if at < len(content):
            yield content[at:], len(content)

    opened = enumerator(growing, poll="1h")
    advance = opened.advance(opened.initial(), Credit(10))
    assert (advance.position["at"], advance.finished, advance.drained) == (2, False, ())
    content.extend(ROWS[2:4])
    waiting = opened.advance(advance.position, Credit(10))
    assert (waiting.position, waiting.drained, waiting.finished) == (advance.position, ("0",), False)
    assert waiting.not_before > 0
    opened._walk.ended_at -= 3601
    opened.advance(advance.position, Credit(10))
    assert opened.advance(advance.position, Credit(10)).position["at"] == 4
    opened.close()
    assert calls == [None, 2]


def test_acknowledged_is_what_was_published():
    told = []
    assert run(load, replayable=True, acknowledge=lambda position, ctx: told.append((position, ctx.step))) == ROWS
    assert told[-1] == (20, "in")
    assert [position for position, _ in told] == sorted(position for position, _ in told)


def test_a_failing_acknowledgement_names_the_step():
    def refuse(position, ctx):
        raise RuntimeError("not now")

    with pytest.raises(StepFailed, match=r"not now at test_loader_job\.py") as failed:
        run(load, replayable=True, acknowledge=refuse)
    assert (failed.value.code, failed.value.step) == ("LOADER-003", "in")


def test_a_run_goes_on_behind_the_last_durable_position(tmp_path):
    def halting(start, ctx):
        for rows, position in load(start, ctx):
            if position > 8 and not (tmp_path / "go").exists():
                raise ConnectionError("away")
            yield rows, position

    job = ms.Job("halting", rows_per_epoch=4)
    stream = job.source("in", ms.loader(halting, replayable=True), schema="n long")
    stream.sink("out", ms.files(tmp_path / "out"))
    with pytest.raises(ExternalFailure):
        job.run(local=True, checkpoint=tmp_path / "checkpoint")
    (tmp_path / "go").touch()
    job.run(local=True, checkpoint=tmp_path / "checkpoint")
    assert sorted(row["n"] for row in ms.read_files(tmp_path / "out").to_pylist()) == list(range(20))
