"""How a run starts, case by case: which lineage it is in, where its planner begins, and what follows a failure."""

import itertools

import msgspec
import pytest

from millstream.checkpoint.head import Head, Origin
from millstream.checkpoint.savepoint import Savepoint
from millstream.errors import ExternalFailure, Fenced
from millstream.jobmaster.attempts import Again, GiveUp, after_failure
from millstream.jobmaster.ownership import Outrun, outrun
from millstream.jobmaster.planner.origin import Afresh, BehindFirst, BehindNewest, WhereSavepointEnded, planner_origin
from millstream.jobmaster.start import GoOn, StartingPoint, StartNew, decide_lineage
from millstream.plan.start import Start

HISTORY = [("earlier", 7)]
SAVEPOINT = Savepoint(
    id="s1",
    kind="canonical",
    job="j",
    lineage="earlier",
    history=HISTORY,
    epoch=7,
    token=3,
    guarantee="exactly_once",
    fingerprint="f",
    fingerprint_steps={},
    parallelism=1,
    key_groups=8,
    engine="local",
    plan={},
    planner={},
    layouts={},
    created_at="",
    version="0",
)
PLAIN = Head(job="j", lineage="now", token=4, epoch=2, manifest="m")
IGNORED = msgspec.structs.replace(PLAIN, origin=Origin(ignored="given-up", replaced=["given-up"]))
RESTORED = msgspec.structs.replace(
    PLAIN, origin=Origin(savepoint="/s1", savepoint_id="s1", history=HISTORY, newer_output="refuse")
)
NOT_BEGUN = msgspec.structs.replace(RESTORED, epoch=None, manifest="")


# Which lineage.


def test_a_checkpoint_without_a_head_starts_a_lineage():
    assert decide_lineage(None, Start(), None) == StartNew(Origin())


@pytest.mark.parametrize("stored", [PLAIN, IGNORED, RESTORED, NOT_BEGUN])
def test_a_start_that_says_nothing_goes_on(stored):
    assert decide_lineage(stored, Start(), None) == GoOn(stored)


def test_state_is_given_up_once():
    start = Start(ignore_state_once=True, newer_output="keep")
    assert decide_lineage(None, start, None) == StartNew(Origin(ignored="unreadable", newer_output="keep"))
    given_up = Origin(ignored="now", newer_output="keep", replaced=["now"])
    assert decide_lineage(PLAIN, start, None) == StartNew(given_up)
    assert decide_lineage(IGNORED, start, None) == GoOn(IGNORED)


@pytest.mark.parametrize(("stored", "replaced"), [(None, []), (PLAIN, ["now"]), (IGNORED, ["given-up", "now"])])
def test_another_savepoint_starts_a_lineage_that_replaces_the_others(stored, replaced):
    decision = decide_lineage(stored, Start(savepoint="/s1", newer_output="truncate"), SAVEPOINT)
    origin = Origin(savepoint="/s1", savepoint_id="s1", history=HISTORY, newer_output="truncate", replaced=replaced)
    assert decision == StartNew(origin)


def test_the_savepoint_of_the_lineage_itself_goes_on():
    start = Start(savepoint="/moved/s1", newer_output="keep")
    assert decide_lineage(RESTORED, start, SAVEPOINT) == GoOn(RESTORED), "its first epoch is durable"
    told = msgspec.structs.replace(NOT_BEGUN, origin=msgspec.structs.replace(NOT_BEGUN.origin, newer_output="keep"))
    assert decide_lineage(NOT_BEGUN, start, SAVEPOINT) == GoOn(told), "it may still be told what becomes of output"
    assert decide_lineage(NOT_BEGUN, Start(savepoint="/s1"), SAVEPOINT) == GoOn(NOT_BEGUN)


def test_a_savepoint_of_the_same_id_and_another_history_is_another_one():
    other = msgspec.structs.replace(SAVEPOINT, history=[("earlier", 8)])
    assert isinstance(decide_lineage(RESTORED, Start(savepoint="/s1"), other), StartNew)


@pytest.mark.parametrize(("is_new", "newer"), list(itertools.product([True, False], ["refuse", "keep", "truncate"])))
def test_what_a_starting_point_asks_of_sinks(is_new, newer):
    origin = msgspec.structs.replace(RESTORED.origin, newer_output=newer)
    for epoch in (None, 0):
        head = msgspec.structs.replace(RESTORED, epoch=epoch, origin=origin)
        point = StartingPoint(head=head, savepoint=None, is_new=is_new)
        assert point.refuses_newer_output == (is_new and newer == "refuse")
        assert point.closes_earlier == (epoch is None)
    plain = StartingPoint(head=Head(job="j", lineage="l", token=1), savepoint=None, is_new=is_new)
    assert (plain.refuses_newer_output, plain.closes_earlier) == (False, False)


@pytest.mark.parametrize(
    ("stored", "then"),
    [
        (None, Outrun.GIVE_UP),
        (msgspec.structs.replace(PLAIN, token=4), Outrun.LOOK_AGAIN),
        (msgspec.structs.replace(PLAIN, token=5), Outrun.GIVE_UP),
        (msgspec.structs.replace(PLAIN, token=6), Outrun.GIVE_UP),
    ],
)
def test_who_could_not_move_the_head(stored, then):
    assert outrun(stored, 5) is then


# Where the planner begins.


class Newest:
    """As much of a manifest as the decision looks at."""

    def __init__(self, epoch):
        self.epoch = epoch


def test_where_a_planner_begins():
    first, later = Newest(0), Newest(1)
    assert planner_origin(None, None) == Afresh()
    assert planner_origin(SAVEPOINT, None) == WhereSavepointEnded(SAVEPOINT)
    for savepoint in (None, SAVEPOINT):
        assert planner_origin(savepoint, first) == BehindFirst(first)
        assert planner_origin(savepoint, later) == BehindNewest()


# After a failure.


AWAY = ExternalFailure("the store is away")


def test_a_failure_that_may_pass_is_got_over_with_growing_pauses():
    pauses = [after_failure(AWAY, in_a_row=n, tolerated=9, can_go_on=True).pause for n in range(1, 10)]
    assert pauses == [0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0, 10.0]


@pytest.mark.parametrize(
    ("problem", "in_a_row", "can_go_on", "decision"),
    [
        (AWAY, 2, True, Again(0.4)),
        (AWAY, 3, True, GiveUp()),
        (AWAY, 1, False, GiveUp()),
        (Fenced("another owner"), 1, True, GiveUp()),
        (ValueError("a mistake"), 1, True, GiveUp()),
    ],
)
def test_when_a_run_is_started_again(problem, in_a_row, can_go_on, decision):
    assert after_failure(problem, in_a_row=in_a_row, tolerated=2, can_go_on=can_go_on) == decision
