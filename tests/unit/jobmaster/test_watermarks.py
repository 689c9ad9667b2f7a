"""How far each partition and step has come: strategies, idleness, combinations, and what is reported."""

import hashlib

import msgspec
import pytest

import millstream as ms
from millstream.errors import MillstreamError
from millstream.graph.function import function_ref
from millstream.graph.operations.watermark import EventTime, WatermarkSpec
from millstream.jobmaster.planner.learned import PlannerState, Seen, learn
from millstream.jobmaster.planner.watermarks import (
    PlanningFacts,
    TimeStep,
    decide_watermarks,
    marks_of,
    partition_watermarks,
    watermarks_before,
)
from millstream.model.time import MAX_TIME, MIN_TIME
from millstream.plan.epoch import EpochPlan, times_for
from millstream.runtime.messages import TaskReport


def step(name="t", *, sources=("a",), is_at_source=True, **options):
    return TimeStep(name, EventTime(column="at", **options), sources, is_at_source)


class Story:
    """Epochs one after the other: what partitions show, and the clock."""

    def __init__(self, *steps, together=()):
        self.steps, self.together = steps, together
        self.state = PlannerState(started=0)
        self.last = EpochPlan(epoch=-1, now=0, sources={s: 0 for each in steps for s in each.sources})

    def epoch(self, now=0, *, finished=(), paused=(), stated=None, known=None, resumed=MIN_TIME, **shown):
        """Decide an epoch, then learn what it showed: `t={"a/0": newest}`, or `(newest, rows, mark)`."""
        facts = PlanningFacts(now, self.last.finished, stated or {}, known or {}, resumed)
        before = watermarks_before(self.steps, facts, self.last)
        marks = decide_watermarks(self.steps, self.together, self.state, facts, before)
        plan = EpochPlan(
            epoch=self.last.epoch + 1,
            now=now,
            sources=self.last.sources,
            watermarks=marks.steps,
            previous=before.steps,
            combined=marks.combined,
            previous_combined=before.combined,
            finished=sorted({*self.last.finished, *finished}),
            paused=list(paused),
        )
        self.reported = partition_watermarks(self.steps, self.state, facts, paused)
        learn(self.state, {each.id: each.operation for each in self.steps}, plan, [_report(shown)])
        # Every epoch is followed by a restart: what was learned must stand in a manifest.
        self.state = msgspec.json.decode(msgspec.json.encode(self.state), type=PlannerState)
        self.last = plan
        return plan.watermarks if len(plan.watermarks) > 1 else plan.watermarks[self.steps[0].id]


def _report(shown):
    report = TaskReport(level=0, task=0, tasks=1)
    for name, partitions in shown.items():
        for partition, content in partitions.items():
            newest, rows, mark = content if isinstance(content, tuple) else (content, 1, None)
            report.newest.setdefault(name, {})[partition] = newest
            report.timed.setdefault(name, {})[partition] = rows
            if mark is not None:
                report.marks.setdefault(name, {})[partition] = mark
    return report


@pytest.mark.parametrize(
    ("options", "mark"),
    [
        ({}, 99),
        ({"max_delay": 5}, 94),
        ({"watermark": WatermarkSpec(kind="ascending")}, 99),
        ({"watermark": WatermarkSpec(kind="none")}, MIN_TIME),
        ({"watermark": WatermarkSpec(kind="punctuated", where="x")}, 70),
    ],
)
def test_each_strategy_reads_what_a_partition_showed(options, mark):
    story = Story(step(**options))
    assert story.epoch(t={"a/0": (100, 2, 70)}) == MIN_TIME
    assert story.epoch() == mark


def test_marks_alone_move_a_punctuated_watermark():
    story = Story(step(watermark=WatermarkSpec(kind="punctuated", where="x")))
    story.epoch(t={"a/0": 500, "a/1": (500, 1, 300)})
    assert story.epoch(t={"a/0": (600, 1, 200)}) == MIN_TIME, "one partition has given no mark"
    assert story.epoch(t={"a/0": (600, 1, 150)}) == 200
    assert story.epoch() == 200, "a mark below the last one changes nothing"


class Slow(ms.WatermarkGenerator):
    """The newest time of the epoch before the last; remembers it in its state."""

    def on_epoch(self, state, newest, rows, now):
        before = (state or {}).get("newest")
        return {"newest": before if newest is None else newest, "calls": (state or {}).get("calls", 0) + 1}, before


def test_a_generator_keeps_its_state_per_partition_across_restarts():
    story = Story(step(function=function_ref(Slow())))
    story.epoch(t={"a/0": (10, 1, 10), "a/1": (50, 1, 50)})
    assert story.epoch(t={"a/0": (20, 1, 20)}) == MIN_TIME
    assert story.epoch() == 10
    assert story.epoch() == 20
    kept = {name: seen.kept for name, seen in story.state.partitions["t"].items()}
    assert kept == {"a/0": {"newest": 20, "calls": 4}, "a/1": {"newest": 50, "calls": 4}}


@pytest.mark.parametrize(("answer", "text"), [((object(), 5), "object"), ((None, "5"), "watermark"), (7, "unpack")])
def test_what_a_generator_may_not_answer(answer, text):
    class Wrong(ms.WatermarkGenerator):
        def on_epoch(self, state, newest, rows, now):
            return answer

    with pytest.raises(MillstreamError, match=text) as caught:
        Story(step(function=function_ref(Wrong()))).epoch(t={"a/0": (1, 1, 1)})
    assert caught.value.step == "t"


def test_another_strategy_does_not_read_what_the_last_one_left():
    story = Story(step(function=function_ref(Slow())))
    story.epoch(t={"a/0": (100, 1, 100)})
    story.epoch(t={"a/0": (200, 1, 200)})
    assert story.epoch(t={"a/0": 300}) == 100
    story.steps = (step(watermark=WatermarkSpec(kind="punctuated", where="x")),)
    story.epoch(t={"a/0": 400})
    assert story.state.partitions["t"]["a/0"] == Seen(400, 0)
    assert story.epoch() == 200, "it stays where the generator brought it"
    story.steps = (step(max_delay=10),)
    story.epoch()
    assert story.epoch() == 389, "the newest time is known whatever the strategy"


def test_an_interval_keeps_the_watermark_still():
    story = Story(step(interval=100))
    story.epoch(0, t={"a/0": 10})
    assert story.epoch(5, t={"a/0": 20}) == 9, "the first move needs no pause"
    assert story.epoch(50, t={"a/0": 30}) == 9
    assert story.epoch(104, t={"a/0": 40}) == 9
    assert story.epoch(105) == 39
    assert story.epoch(204, t={"a/0": 90}) == 39, "nothing had moved it since"
    assert story.epoch(205) == 89


def test_partitions_that_appear_later_hold_but_never_turn_back():
    story = Story(step())
    story.epoch(t={"a/0": 100})
    assert story.epoch(t={"a/new": 40}) == 99
    assert story.epoch(t={"a/0": 300}) == 99, "the new one is behind"
    assert story.epoch(t={"a/new": 200}) == 99
    assert story.epoch() == 199


def test_partitions_that_a_source_is_known_to_have_hold_before_their_first_row():
    story = Story(step(idle_after=10))
    known = {"a": ["0", "1"]}
    story.epoch(0, known=known, t={"a/0": 100})
    assert story.epoch(9, known=known, t={"a/0": 100}) == MIN_TIME
    assert [(each.partition, each.is_holding) for each in story.reported] == [("a/0", False), ("a/1", True)]
    assert story.epoch(9, known=known, t={"a/1": 40}) == MIN_TIME
    assert story.epoch(10, known=known, t={"a/0": 200}) == 39
    other = Story(step(idle_after=10))
    other.epoch(5, known=known, t={"a/0": 100})
    assert other.epoch(10, known=known, t={"a/0": 100}) == 99, "one that never had rows is idle in the end"


def test_idle_partitions_become_active_again():
    story = Story(step(idle_after=10))
    story.epoch(0, t={"a/0": 100, "a/1": 50})
    assert story.epoch(9, t={"a/0": 200}) == 49
    assert story.epoch(10) == 199
    story.epoch(12, t={"a/1": 60})
    assert story.epoch(13) == 199
    assert [each.is_holding for each in story.reported] == [False, True]
    story.epoch(14, t={"a/0": 210, "a/1": 205})
    assert story.epoch(15) == 204
    assert story.epoch(40) == 204, "all idle: it stays"
    assert [each.is_idle for each in story.reported] == [True, True]
    assert not any(each.is_holding for each in story.reported)


def test_a_source_without_rows_is_idle_counted_from_when_it_was_first_read():
    story = Story(step(sources=("a", "b"), idle_after=10))
    story.epoch(0, t={"a/0": 100})
    assert story.epoch(9, t={"a/0": 100}) == MIN_TIME
    assert story.epoch(10, t={"a/0": 100}) == 99
    story.steps = (step(sources=("a", "b", "c"), idle_after=10),)
    story.last = msgspec.structs.replace(story.last, sources={"a": 0, "b": 0, "c": 0})
    story.epoch(12, t={"a/0": 500})
    assert story.epoch(20, t={"a/0": 500}) == 99, "the new source counts from its first epoch on"
    assert story.epoch(22) == 499


def test_the_time_without_a_run_does_not_make_partitions_idle():
    story = Story(step(idle_after=10))
    story.epoch(0, t={"a/0": 100, "a/1": 50})
    assert story.epoch(1000, resumed=995, t={"a/0": 200}) == 49
    assert story.epoch(1004, resumed=995, t={"a/0": 200}) == 49
    assert story.epoch(1005, resumed=995) == 199


def test_the_time_in_which_a_source_is_paused_does_not_make_it_idle():
    story = Story(step(sources=("a", "b"), idle_after=10))
    story.epoch(0, t={"a/0": 100, "b/0": 50})
    story.epoch(5, paused=["b"], t={"a/0": 110})
    assert story.epoch(30, paused=["b"], t={"a/0": 120}) == 49
    assert story.epoch(60, t={"a/0": 130}) == 49
    assert story.epoch(64, t={"a/0": 140}) == 49
    assert story.epoch(65) == 139, "five of the ten had passed before it was paused"


def test_a_partition_that_was_idle_stays_so_while_its_source_is_paused():
    story = Story(step(idle_after=10))
    story.epoch(0, t={"a/0": 10})
    story.epoch(20, t={"a/1": 100})
    story.epoch(21, paused=["a"])
    story.epoch(90, paused=["a"])
    assert {each.partition: each.is_idle for each in story.reported} == {"a/0": True, "a/1": False}


def test_event_time_behind_an_exchange_is_idle_as_well():
    story = Story(step(is_at_source=False, idle_after=10))
    assert story.epoch(0) == MIN_TIME
    assert [(each.partition, each.is_idle) for each in story.reported] == [("t", False)]
    story.epoch(1, t={"1/0": 100, "1/1": 50})
    assert story.epoch(5, t={"1/0": 200}) == 49
    assert story.epoch(11, t={"1/0": 300}) == 199
    assert story.epoch(11) == 299


def test_steps_that_are_seen_together_follow_those_that_are_not_quiet():
    story = Story(step("l", sources=("a",)), step("r", sources=("b",), idle_after=10), together=[("l", "r")])

    def seen():
        return times_for(story.last, ("l", "r")).watermark

    story.epoch(0, l={"a/0": 100}, r={"b/0": 10})
    story.epoch(1, l={"a/0": 200})
    assert (story.last.watermarks, seen()) == ({"l": 99, "r": 9}, 9)
    story.epoch(10, r={"b/0": 20})
    assert (story.last.watermarks, seen()) == ({"l": 199, "r": 9}, 199)
    story.epoch(11, l={"a/0": 300})
    assert (story.last.watermarks, seen()) == ({"l": 199, "r": 19}, 199), "the one that is back does not turn it back"
    assert times_for(story.last, ("r",)).watermark == 19, "alone it is where it was"
    story.epoch(12, finished=["a"], r={"b/0": 500})
    assert seen() == 199
    story.epoch(13)
    assert seen() == 499, "the other has ended"
    assert times_for(story.last, ("l", "r")).before == 199
    story.epoch(99)
    assert seen() == 499, "both quiet"


def test_a_stated_watermark_and_the_end_of_a_source():
    story = Story(step(sources=("a", "b")))
    story.epoch(t={"a/0": 100, "b/0": 70})
    assert story.epoch(stated={"b": 33}) == 33
    assert story.epoch(stated={"b": 20}, finished=["b"]) == 33
    assert story.epoch() == 99


@pytest.mark.parametrize("options", [{}, {"interval": 1000}, {"watermark": WatermarkSpec(kind="none")}], ids=str)
def test_a_source_that_has_ended_is_at_the_end_of_time(options):
    story = Story(step("l", sources=("a",), **options), step("r", sources=("b",)), together=[("l", "r")])
    story.epoch(l={"a/0": 100}, r={"b/0": 10})
    story.epoch(finished=["a"], l={"a/0": 200})
    assert story.last.watermarks["l"] < 200, "rows of it are read in this epoch"
    assert story.epoch(r={"b/0": 50}) == {"l": MAX_TIME, "r": 9}
    assert story.last.combined == {"l r": 9}
    assert story.epoch() == {"l": MAX_TIME, "r": 49}
    assert story.last.combined == {"l r": 49}
    story.epoch(finished=["b"])
    story.epoch()
    assert (story.last.watermarks["r"], story.last.combined) == (MAX_TIME, {"l r": MAX_TIME})


def test_what_has_ended_does_not_speak_for_one_that_is_idle():
    story = Story(step("l", sources=("a",)), step("r", sources=("b",), idle_after=10), together=[("l", "r")])
    story.epoch(finished=["a"], l={"a/0": 100}, r={"b/0": 10})
    story.epoch(5)
    assert story.last.combined == {"l r": 9}
    assert story.epoch(50) == {"l": MAX_TIME, "r": 9}
    assert story.last.combined == {"l r": 9}


def test_event_time_behind_an_exchange_waits_for_what_the_exchange_holds():
    story = Story(step(is_at_source=False), step("r", sources=("b",)))
    story.epoch(finished=["a"], t={"1/0": 100})
    assert story.epoch()["t"] == 99


def test_a_job_that_gets_rows_again_takes_the_end_of_time_back():
    story = Story(step("l", sources=("a",)), step("r", sources=("a",)), together=[("l", "r")])
    story.epoch(finished=["a"], l={"a/0": 100}, r={"a/0": 100})
    story.epoch()
    assert (story.last.watermarks, story.last.combined) == ({"l": MAX_TIME, "r": MAX_TIME}, {"l r": MAX_TIME})
    story.steps = (step("l", sources=("a", "b")), step("r", sources=("a",)))
    assert story.epoch(l={"b/0": 70}) == {"l": MIN_TIME, "r": MAX_TIME}
    assert (story.last.combined, story.last.previous) == ({"l r": MIN_TIME}, {"r": MAX_TIME})
    assert story.epoch()["l"] == 69


def test_who_holds_a_step_back_is_named():
    story = Story(step("l", sources=("a", "b")), step("r", sources=("c",)))
    story.epoch(l={"a/0": 100, "a/1": 50}, r={"c/0": 7})
    story.epoch(paused=["a"])
    found = [(each.step, each.partition, each.watermark, each.is_holding, each.is_paused) for each in story.reported]
    assert found == [
        ("l", "a/0", 99, False, True),
        ("l", "a/1", 49, False, True),
        ("l", "b", MIN_TIME, True, False),
        ("r", "c/0", 6, True, False),
    ]


def test_what_an_earlier_version_stored_is_read():
    stored = {"started": 5, "partitions": {"t": {"a/0": [100, 7]}}, "event_due": {}, "processing_due": {}}
    state = msgspec.convert(stored, PlannerState)
    assert marks_of(step(), state, PlanningFacts(10, (), {}))[0].watermark == 99


def test_a_plan_of_an_earlier_version_keeps_its_digest():
    fields = {"epoch": 3, "now": 5, "sources": {"a": 1}, "watermarks": {"t": 7}, "previous": {}, "finished": []}
    stored = {**fields, "terminal": False, "follows": "x", "savepoint": None}
    written = hashlib.sha256(msgspec.json.encode(stored, order="sorted")).hexdigest()
    plan = msgspec.convert(stored, EpochPlan)
    assert plan.digest == written
    for name, content in {"paused": ["a"], "combined": {"t u": 1}, "previous_combined": {"t u": 1}}.items():
        assert msgspec.structs.replace(plan, **{name: content}).digest != written
