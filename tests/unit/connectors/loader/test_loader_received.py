"""Functions that cannot be asked for the same again: what they gave is logged, and never asked for twice."""

import asyncio
import tempfile
import threading
from pathlib import Path

import pytest

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.connectors.loader.source import open_loader
from millstream.contract.source import Credit, SourceContext
from millstream.errors import ExternalFailure, InvalidPlan, InvalidStep, StepFailed
from millstream.model.connector import checked_options, source_declaration
from millstream.model.schema import schema_of

ROWS = [{"n": number} for number in range(20)]


class Api:
    """Pages of four rows; remembers behind which positions it was called, and may be away once."""

    def __init__(self, *, away_at=None, problem=None):
        self.asked, self._away_at, self._problem = [], away_at, problem or ConnectionError("nobody answers")
        self.given = []

    def load(self, start, ctx):
        self.asked.append(start)
        for at in range(start or 0, len(ROWS), 4):
            if at == self._away_at:
                self._away_at = None
                raise self._problem
            self.given.append(at)
            yield ROWS[at : at + 4], at + 4


@pytest.fixture(autouse=True)
def forgotten():
    yield
    clear("received")


def job_of(function, *, guarantee="exactly_once", on_error="fail", **options):
    job = ms.Job("receiving", guarantee=guarantee, rows_per_epoch=8)
    source = job.source("in", ms.loader(function, **options), schema="n long", on_error=on_error)
    source.sink("out", ms.collect("received"))
    return job


def opened(function, folder, *, token=1, lineage="one", **options):
    spec = ms.loader(function, **options)
    declared = source_declaration(spec)
    given = checked_options(declared.options, spec.options, step="in", name="loader")
    schema = schema_of("n long")
    who = {"token": token, "job": "job", "lineage": lineage}
    return open_loader(given, SourceContext(step="in", schema=schema, log_dir=folder, parallelism=2, **who))


def finished(enumerator, position=None, credit=8):
    """The last position of a source that ends."""
    position = position or enumerator.initial()
    while not (advance := enumerator.advance(position, Credit(credit))).finished:
        position = advance.position
    return advance.position


def test_rows_are_given_once_and_in_order():
    api = Api()
    job_of(api.load, resumable=True).run(local=True)
    assert collected("received") == ROWS
    assert (api.asked, api.given) == ([None], [0, 4, 8, 12, 16])


def test_a_promise_decides_the_guarantee():
    with pytest.raises(InvalidPlan, match="PLAN-040"):
        job_of(Api().load).run(local=True)
    job_of(Api().load, guarantee="at_least_once").run(local=True)
    assert collected("received") == ROWS


@pytest.mark.parametrize("away_at", [0, 4, 12, 16])
def test_a_run_goes_on_behind_what_is_logged(tmp_path, away_at):
    api = Api(away_at=away_at)
    with pytest.raises(ExternalFailure, match="nobody answers"):
        job_of(api.load, resumable=True).run(local=True, checkpoint=tmp_path)
    job_of(api.load, resumable=True).run(local=True, checkpoint=tmp_path)
    assert collected("received") == ROWS
    assert api.given == [0, 4, 8, 12, 16], "no page is asked for twice"
    assert api.asked[-1] == (away_at or None)


def test_what_was_away_is_asked_again_by_the_same_owner(tmp_path):
    api = Api(away_at=8)
    source = opened(api.load, tmp_path, resumable=True)
    position, failures = source.initial(), 0
    while True:
        try:
            advance = source.advance(position, Credit(100))
        except ExternalFailure:
            failures += 1
            continue
        position = advance.position
        if advance.finished:
            break
    source.close()
    assert (failures, position["at"], api.asked) == (1, 20, [None, 8])


def test_a_function_that_fails_names_the_step_and_the_line():
    def fails(start, ctx):
        yield ROWS[:4], 4
        raise ValueError("bad luck")

    with pytest.raises(StepFailed, match="bad luck at test_loader_received") as failed:
        job_of(fails, resumable=True).run(local=True)
    assert (failed.value.code, failed.value.step) == ("LOADER-003", "in")
    assert collected("received") == ROWS[:4], "what came before is read first"


@pytest.mark.parametrize("promise", [{"resumable": True}, {"replayable": True, "start": 0}])
@pytest.mark.parametrize("problem", [asyncio.CancelledError("the task"), GeneratorExit(), SystemExit(3)])
def test_what_ends_more_than_a_function_ends_the_run(promise, problem):
    def fails(start, ctx):
        yield ROWS[:4], 4
        raise problem

    with pytest.raises(StepFailed, match=type(problem).__name__) as failed:
        job_of(fails, **promise).run(local=True)
    assert (failed.value.code, failed.value.step) == ("LOADER-003", "in")


@pytest.mark.parametrize("promise", [{"resumable": True}, {"replayable": True}])
@pytest.mark.parametrize("position", [10**30, -(10**30), {"a": [2**64]}, "\ud800"])
def test_a_position_that_cannot_be_stored_is_refused(promise, position):
    with pytest.raises(StepFailed, match="more than 64 bits") as failed:
        job_of(lambda start, ctx: iter([(ROWS, position)]), start=0, **promise).run(local=True)
    assert (failed.value.code, failed.value.step) == ("LOADER-004", "in")
    with pytest.raises(InvalidStep) as refused:
        job_of(lambda start, ctx: iter([]), start=position, **promise)
    assert refused.value.code == "CONN-005"


def test_a_bad_row_with_half_a_pair_of_surrogates_is_logged():
    def mixed(start, ctx):
        yield [{"n": 1}, {"n": "\ud800"}, {"n": 3}], 1

    job_of(mixed, resumable=True, on_error=ms.dead_letter(ms.collect("dead"))).run(local=True)
    assert collected("received") == [{"n": 1}, {"n": 3}]
    (letter,) = collected("dead")
    clear("dead")
    assert "\\ud800" in letter["record"]


def test_bad_rows_are_logged_as_they_came(tmp_path):
    def mixed(start, ctx):
        yield [{"n": 1}, {"n": "x"}, {"n": 3}], 1

    job_of(mixed, resumable=True, on_error=ms.dead_letter(ms.collect("dead"))).run(local=True, checkpoint=tmp_path)
    assert collected("received") == [{"n": 1}, {"n": 3}]
    (letter,) = collected("dead")
    clear("dead")
    assert letter["record"] == '{"n": "x"}'
    assert letter["origin"].endswith("mixed behind null")


def test_an_end_is_known_without_asking_again(tmp_path):
    api = Api()
    source = opened(api.load, tmp_path, resumable=True)
    end = finished(source)
    source.close()
    later = opened(api.load, tmp_path, token=2, resumable=True)
    assert later.advance(end, Credit(8)).finished
    later.close()
    assert api.asked == [None]


def test_a_further_run_asks_what_came_since(tmp_path):
    api = Api()
    source = opened(api.load, tmp_path, resumable=True)
    end = finished(source)
    source.close()
    later = opened(api.load, tmp_path, token=2, lineage="two", resumable=True)
    assert finished(later, end)["at"] == 20
    later.close()
    assert api.asked == [None, 20]


@pytest.mark.parametrize(("acknowledges", "asked"), [(False, []), (True, [8])])
def test_what_an_earlier_owner_still_logged_is_taken_unless_it_comes_again(tmp_path, acknowledges, asked):
    api = Api()
    options = {"acknowledge": lambda position, ctx: None} if acknowledges else {}
    first = opened(api.load, tmp_path, **options)
    position = first.initial()
    while position["at"] != 8:
        position = first.advance(position, Credit(8 if position["at"] is None else 4)).position
    finished(first, position)
    first.close()
    api.asked.clear()
    second = opened(api.load, tmp_path, token=2, **options)
    assert finished(second, position)["at"] == 20
    second.close()
    assert api.asked == asked


def test_acknowledged_is_what_was_published(tmp_path):
    told = []
    job = job_of(Api().load, guarantee="at_least_once", acknowledge=lambda position, ctx: told.append(position))
    job.run(local=True, checkpoint=tmp_path)
    assert told[-1] == 20
    assert told == sorted(told)


def test_a_source_that_polls_rests_between_calls(tmp_path):
    content, calls = list(ROWS[:2]), threading.Semaphore(0)

    def growing(start, ctx):
        calls.release()
        at = start or 0
        if at < len(content):
            yield content[at:], len(content)

    source = opened(growing, tmp_path, poll="50ms", resumable=True)
    position = source.initial()
    while position["at"] != 2:
        position = source.advance(position, Credit(8)).position
    content.extend(ROWS[2:4])
    was_resting = False
    while position["at"] != 4:
        advance = source.advance(position, Credit(8))
        was_resting |= bool(advance.not_before) and tuple(advance.drained) == ("0",)
        assert not advance.finished
        position = advance.position
    source.close()
    assert was_resting
    assert calls.acquire(timeout=1)


def test_without_a_checkpoint_nothing_stays_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    job_of(Api().load, resumable=True).run(local=True)
    assert collected("received") == ROWS
    assert [path.name for path in Path(tmp_path).glob("millstream-loader-*")] == []


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"replayable": True, "resumable": True}, "one promise too many"),
        ({"positions": Api().load}, "positions= is for functions"),
        ({"check": True, "resumable": True}, "check= is for functions"),
    ],
)
def test_promises_that_contradict_each_other_are_refused(options, text):
    with pytest.raises(InvalidStep, match=text) as refused:
        job_of(Api().load, **options)
    assert (refused.value.code, refused.value.step) == ("LOADER-002", "in")
