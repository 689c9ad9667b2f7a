"""Runs that other jobs' runs make."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.control.lifecycle.states import Status
from millstream.control.refusals import StateConflict
from millstream.control.schedule.dependency import MOST_OPEN, EndedRun, UpstreamProgress, cause_of, follow, refuse_cycle
from millstream.control.schedule.spec import schedule_spec

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)


def waiting(*upstream, **more):
    jobs = [each if isinstance(each, dict) else {"job": each} for each in upstream]
    return schedule_spec({"type": "dependency", "upstream": jobs, **more})


def ended(job, run, *, status=Status.COMPLETED, at=0, fire=0):
    fire_time = None if fire is None else NOON + fire * MINUTE
    return EndedRun(job, run, status, NOON + at * MINUTE, fire_time)


def fires(spec, *runs, progress=None):
    progress = progress or UpstreamProgress()
    return [made for run in runs if (made := follow(spec, progress, run)) is not None]


def test_all_of_one_fire_time_make_a_fire_of_that_time():
    spec = waiting("a", "b")
    (made,) = fires(spec, ended("a", "a1", at=3), ended("b", "b2", fire=5, at=4), ended("b", "b1", at=9))
    assert made == (NOON, cause_of(["b1", "a1"]), ("a1", "b1"), None)


def test_any_fires_once_for_a_fire_time():
    spec = waiting("a", "b", need="any")
    made = fires(spec, ended("b", "b1"), ended("a", "a1"), ended("a", "a2", fire=5))
    assert [(each.fire_time, each.runs) for each in made] == [(NOON, ("b1",)), (NOON + 5 * MINUTE, ("a2",))]


def test_a_run_that_ended_otherwise_is_told_and_may_be_made_good():
    spec, progress = waiting("a", "b"), UpstreamProgress()
    skipped, good = fires(
        spec,
        ended("a", "a1", status=Status.DEAD),
        ended("b", "b1"),
        ended("a", "a2", at=30),
        ended("a", "a3", at=40),
        progress=progress,
    )
    assert (skipped.skipped, good.skipped) == ("ended otherwise: a", None)
    assert good.runs == ("a2", "b1")
    assert skipped.cause != good.cause


@pytest.mark.parametrize(
    ("on", "taken"),
    [
        ("success", {Status.COMPLETED}),
        ("failure", {Status.DEAD}),
        ("end", {Status.COMPLETED, Status.DEAD, Status.CANCELLED}),
    ],
)
def test_how_a_run_must_have_ended(on, taken):
    spec = waiting({"job": "a", "when": on})
    ends = [Status.COMPLETED, Status.DEAD, Status.CANCELLED]
    made = {status: fires(spec, ended("a", "a1", status=status))[0].skipped is None for status in ends}
    assert {status for status, is_run in made.items() if is_run} == taken


def test_runs_without_a_fire_time_and_of_other_jobs_do_not_count():
    assert fires(waiting("a"), ended("a", "a1", fire=None), ended("other", "x")) == []


def test_the_newest_in_a_window_count_once():
    spec = waiting("a", "b", match="window", window="1h")
    runs = [ended("a", "a1", at=0), ended("a", "a2", at=10), ended("b", "b1", at=20), ended("b", "b2", at=30)]
    (made,) = fires(spec, *runs)
    assert (made.runs, made.fire_time) == (("a2", "b1"), NOON + 20 * MINUTE)
    progress = UpstreamProgress()
    fires(spec, *runs, progress=progress)
    (again,) = fires(spec, ended("a", "a3", at=40), progress=progress)
    assert again.runs == ("a3", "b2")


def test_what_is_older_than_the_window_does_not_count():
    spec = waiting("a", "b", match="window", window="1h")
    assert fires(spec, ended("a", "a1", at=0), ended("b", "b1", at=61)) == []
    assert len(fires(spec, ended("a", "a1", at=0), ended("b", "b1", at=60))) == 1


def test_any_in_a_window_fires_for_every_run():
    spec = waiting("a", "b", need="any", match="window")
    assert [each.runs for each in fires(spec, ended("a", "a1"), ended("b", "b1"), ended("a", "a2", at=1))] == [
        ("a1",),
        ("b1",),
        ("a2",),
    ]


RUNS = [ended(job, f"{job}{n}", at=at, fire=n) for (job, n), at in zip(itertools.product("ab", range(4)), range(8))]


@given(st.permutations(RUNS), st.sampled_from(["all", "any"]), st.sampled_from(["fire_time", "window"]))
def test_ends_that_are_told_twice_change_nothing(runs, need, match):
    spec = waiting("a", "b", need=need, match=match)
    progress = UpstreamProgress()
    once = fires(spec, *runs, progress=progress)
    assert fires(spec, *sorted(runs, key=lambda run: run.ended)[:3], progress=progress) == []
    if match == "fire_time":
        assert sorted(each.fire_time for each in once) == [NOON + n * MINUTE for n in range(4)]
    assert len({each.cause for each in once}) == len(once)


def test_what_is_waited_for_is_bounded():
    spec, progress = waiting("a", "b"), UpstreamProgress()
    fires(spec, *(ended("a", f"a{n}", fire=n) for n in range(MOST_OPEN + 50)), progress=progress)
    assert len(progress.by_time) == MOST_OPEN


def test_a_circle_is_shown():
    others = {"b": ["c"], "c": ["d", "a"], "d": [], "e": ["a"]}
    with pytest.raises(StateConflict) as refused:
        refuse_cycle("a", ["x", "b"], others)
    assert refused.value.code == "CTL-211"
    assert refused.value.found == "a waits for b waits for c waits for a"
    with pytest.raises(StateConflict, match="a waits for a"):
        refuse_cycle("a", ["a"], {})
    refuse_cycle("a", ["d", "e2"], others)


@given(st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from("abcdef"), max_size=3)))
def test_saving_one_by_one_never_makes_a_circle(wanted):
    saved = {}
    for job, upstream in wanted.items():
        try:
            refuse_cycle(job, upstream, saved)
        except StateConflict as refused:
            chain = refused.found.split(" waits for ")
            graph = {**saved, job: upstream}
            assert chain[0] == chain[-1] == job
            assert all(after in graph[before] for before, after in itertools.pairwise(chain))
        else:
            saved[job] = upstream
    order = []
    while len(order) < len(saved):
        free = [job for job in saved if job not in order and not (saved[job] & saved.keys()) - set(order)]
        assert free, "a circle was saved"
        order += free
