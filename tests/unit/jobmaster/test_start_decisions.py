"""How a run starts, case by case: which lineage it is in, where its planner begins, and what follows a failure."""

import dataclasses
import itertools

import msgspec
import pytest

from millstream.checkpoint.head import Head, Origin
from millstream.checkpoint.manifest import EpochManifest, encode_manifest
from millstream.checkpoint.run_record import RunRecord
from millstream.checkpoint.savepoint import Savepoint
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import ExternalFailure, Fenced
from millstream.jobmaster.attempts import Again, GiveUp, after_failure
from millstream.jobmaster.ownership import Outrun, outrun
from millstream.jobmaster.past_runs import followed_run
from millstream.jobmaster.planner.origin import Afresh, BehindFirst, BehindNewest, WhereSavepointEnded, planner_origin
from millstream.jobmaster.start import REMEMBERED, Asked, GoOn, StartingPoint, StartNew, decide_lineage
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


# Runs.

COMPLETE = msgspec.structs.replace(PLAIN, epoch=9, origin=Origin(run=RunRecord(id="monday")))
NEXT = Start(carry="position", run="tuesday")


def test_the_first_run_of_a_checkpoint_has_the_name_of_its_start():
    (origin,) = dataclasses.astuple(decide_lineage(None, NEXT, None, Asked(params={"n": 1})))
    assert origin == Origin(run=RunRecord(number=1, id="tuesday", params={"n": 1}))
    assert not origin.starts_from_earlier


def test_a_run_follows_one_that_is_complete_and_closes_nobody():
    decision = decide_lineage(COMPLETE, NEXT, None, Asked(follows=True, carried="/c", params={"n": 1}))
    assert isinstance(decision, StartNew)
    origin = decision.origin
    assert origin.history == [("now", 9)]
    assert origin.run == RunRecord(number=2, id="tuesday", carry="position", params={"n": 1}, since=1)
    assert (origin.savepoint, origin.begins_run, origin.starts_from_earlier, origin.of_run) == ("/c", True, False, [])
    point = StartingPoint(head=Head(job="j", lineage="l", token=1, origin=origin), savepoint=None, is_new=True)
    assert (point.refuses_newer_output, point.closes_earlier) == (False, False)


def test_nothing_follows_a_run_that_is_not_known_to_be_complete():
    assert decide_lineage(COMPLETE, NEXT, None, Asked()) == GoOn(COMPLETE)


def test_what_was_said_once_stays_said_for_later_runs():
    given_up = msgspec.structs.replace(COMPLETE, origin=IGNORED.origin)
    start = NEXT._replace(ignore_state_once=True)
    follows = decide_lineage(given_up, start, None, Asked(follows=True))
    assert (follows.origin.ignored, follows.origin.starts_from_earlier) == ("given-up", False)
    restored = msgspec.structs.replace(RESTORED, epoch=9)
    start = NEXT._replace(savepoint="/s1")
    second = decide_lineage(restored, start, SAVEPOINT, Asked(follows=True)).origin
    assert (second.savepoint_id, second.history, second.of_run) == ("s1", [("earlier", 7), ("now", 9)], [])
    head = Head(job="j", lineage="second", token=5, epoch=3, manifest="m", origin=second)
    assert decide_lineage(head, start, SAVEPOINT, Asked()) == GoOn(head), "the savepoint is restored once"


def test_a_savepoint_goes_on_with_its_run_and_begins_another_behind_a_complete_one():
    of_run = msgspec.structs.replace(
        SAVEPOINT, run=RunRecord(number=4, id="monday", since=1), history=[("a", 1), *HISTORY]
    )
    start = Start(savepoint="/s1", run="tuesday")
    origin = decide_lineage(None, start, of_run, Asked(params={"n": 1})).origin
    assert origin.run == RunRecord(number=4, id="monday", params={"n": 1}, since=1)
    assert (origin.of_run, origin.before_run, origin.starts_from_earlier) == (HISTORY, [("a", 1)], True)
    ended = msgspec.structs.replace(of_run, plan={"terminal": True})
    origin = decide_lineage(None, start, ended, Asked(params={"n": 1})).origin
    assert origin.run == RunRecord(number=5, id="tuesday", carry="state", params={"n": 1}, since=2)


def test_a_checkpoint_remembers_so_many_lineages():
    many = [(f"l{number}", 1) for number in range(REMEMBERED)]
    stored = msgspec.structs.replace(COMPLETE, origin=Origin(history=many, run=RunRecord(number=7, since=REMEMBERED)))
    origin = decide_lineage(stored, NEXT, None, Asked(follows=True)).origin
    assert (len(origin.history), origin.history[-1], origin.run.since) == (REMEMBERED, ("now", 9), REMEMBERED)


@pytest.mark.parametrize("carry", [None, "nothing", "position", "state"])
@pytest.mark.parametrize("kind", ["terminal", "periodic"])
@pytest.mark.parametrize("name", ["monday", "tuesday"])
def test_which_run_another_one_follows(carry, kind, name):
    store, manifest = MemoryStore(), written_manifest(kind)
    store.create("m", encode_manifest(manifest))
    head = msgspec.structs.replace(COMPLETE, manifest="m")
    followed = followed_run(store, head, Start(carry=carry, run=name))
    expected = carry is not None and kind == "terminal" and name == "tuesday"
    assert followed == (manifest if expected else None)


def written_manifest(kind):
    return EpochManifest(
        job="j", lineage="now", epoch=9, token=4, kind=kind, guarantee="exactly_once", requirements={}, fingerprint="f",
        fingerprint_steps={}, parallelism=1, depth=0, engine="local", digest="d", plan={}, planner={}, created_at="",
    )  # fmt: skip
