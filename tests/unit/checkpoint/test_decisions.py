"""Every decision of the epoch protocol, case by case: values in, a named outcome out."""

import itertools

import pytest

from millstream.checkpoint.decisions import (
    Adopt,
    Challenge,
    EpochDigest,
    EpochStanding,
    Hold,
    Phase,
    Prepare,
    ReadBack,
    Restoration,
    Stop,
    Unfinished,
    challenge,
    decide_new,
    decide_replay,
    epoch_standing,
    hold,
    read_back,
    restoration,
    retired_manifests,
    sort_manifests,
    unfinished,
)
from millstream.checkpoint.manifest import EpochManifest, ParticipantRecord, manifest_name


@pytest.mark.parametrize(
    ("phase", "left"),
    [
        (Phase.CREATED, Unfinished.GIVE_UP),
        (Phase.STAGING, Unfinished.GIVE_UP),
        (Phase.PRECOMMITTED, Unfinished.GIVE_UP),
        (Phase.DURABLE, Unfinished.PUBLISH),
        (Phase.COMMITTED, Unfinished.NOTHING),
        (Phase.ABORTED, Unfinished.NOTHING),
    ],
)
def test_what_an_epoch_leaves_to_do(phase, left):
    assert unfinished(phase) is left


def test_every_phase_leaves_something_that_is_known():
    assert {unfinished(phase) for phase in Phase} == set(Unfinished)


@pytest.mark.parametrize(
    ("epoch", "durable", "standing"),
    [
        (-1, None, "out_of_order"),
        (0, None, "next"),
        (1, None, "out_of_order"),
        (-1, 0, "over"),
        (0, 0, "replayed"),
        (1, 0, "next"),
        (2, 0, "out_of_order"),
        (3, 5, "over"),
        (5, 5, "replayed"),
        (6, 5, "next"),
        (7, 5, "out_of_order"),
    ],
)
def test_where_an_epoch_stands(epoch, durable, standing):
    assert epoch_standing(epoch, durable) is EpochStanding(standing)


def test_what_may_begin_and_what_is_decided():
    table = {each: (each.may_begin, each.is_decided) for each in EpochStanding}
    assert table == {
        EpochStanding.OVER: (False, True),
        EpochStanding.REPLAYED: (True, True),
        EpochStanding.NEXT: (True, False),
        EpochStanding.OUT_OF_ORDER: (False, False),
    }


def test_a_replay_of_the_same_rows_is_adopted():
    assert decide_replay(EpochDigest(4, "d"), EpochDigest(4, "d")) == Adopt()


@pytest.mark.parametrize("staged", [EpochDigest(4, "other"), EpochDigest(3, "d")])
def test_a_replay_of_other_rows_stops(staged):
    decision = decide_replay(staged, EpochDigest(4, "d"))
    assert isinstance(decision, Stop)
    assert (decision.problem.code, decision.problem.known) == ("CKPT-004", "d")


@pytest.mark.parametrize("newest", [None, EpochDigest(4, "before")])
def test_an_epoch_that_starts_where_the_one_before_ended_is_prepared(newest):
    assert decide_new(5, "before", newest) == Prepare()


def test_an_epoch_that_starts_elsewhere_stops():
    decision = decide_new(5, "elsewhere", EpochDigest(4, "before"))
    assert isinstance(decision, Stop)
    assert (decision.problem.code, decision.problem.found) == ("CKPT-014", "elsewhere")


def manifest(**participants):
    return EpochManifest(
        job="j",
        lineage="l",
        epoch=4,
        token=1,
        kind="periodic",
        guarantee="exactly_once",
        requirements={},
        fingerprint="f",
        fingerprint_steps={},
        parallelism=1,
        depth=0,
        engine="local",
        digest="d",
        plan={},
        planner={},
        participants=participants,
        created_at="",
    )


def test_what_a_participant_is_told_at_a_start():
    known = manifest(sink=ParticipantRecord(type="sink files", handle={"parts": 2}))
    assert restoration(None, "sink") == Restoration(None, None)
    assert restoration(known, "sink") == Restoration(4, {"parts": 2})
    assert restoration(known, "new in the job") == Restoration(4, None)


def test_undecided_manifests_are_those_of_earlier_owners_beyond_the_head():
    names = {pair: manifest_name("l", *pair) for pair in itertools.product((1, 2, 3), (4, 5, 6))}
    parted = sort_manifests(names.values(), durable=2, token=5)
    assert parted.undecided == [names[3, 4]]
    assert sorted(parted.kept) == sorted(set(names.values()) - {names[3, 4]})
    none_durable = sort_manifests([manifest_name("l", 0, 4)], durable=None, token=5)
    assert none_durable == ([], [manifest_name("l", 0, 4)])


def test_manifests_retire_by_epoch():
    epochs = {manifest_name("l", epoch, 1): epoch for epoch in range(6)}
    assert retired_manifests(epochs, durable=5, retained=2) == list(epochs)[:4]
    assert retired_manifests(epochs, durable=5, retained=6) == []


@pytest.mark.parametrize(
    ("stored", "is_own", "outcome"),
    [
        (b"sent", False, ReadBack.LANDED),
        (b"sent", True, ReadBack.LANDED),
        (None, False, ReadBack.GONE),
        (b"earlier", True, ReadBack.BEHIND),
        (b"another's", False, ReadBack.REPLACED),
    ],
)
def test_what_became_of_a_swap(stored, is_own, outcome):
    assert read_back(b"sent", stored, is_own=is_own) is outcome


@pytest.mark.parametrize("is_renewed", [False, True])
@pytest.mark.parametrize("silent", [0.0, 9.0])
def test_a_lease_that_is_free_or_not_there_is_taken(is_renewed, silent):
    for term, is_free in ((None, False), (1000, True)):
        taken = challenge(term, is_free=is_free, is_renewed=is_renewed, silent_seconds=silent)
        assert taken is Challenge.TAKE


@pytest.mark.parametrize(
    ("is_renewed", "silent", "decision"),
    [
        (False, 0.0, Challenge.WATCH),
        (False, 0.999, Challenge.WATCH),
        (False, 1.0, Challenge.TAKE),
        (True, 0.0, Challenge.REFUSE),
        (True, 1.0, Challenge.REFUSE),
    ],
)
def test_a_lease_of_somebody_else_is_watched_for_its_term(is_renewed, silent, decision):
    assert challenge(1000, is_free=False, is_renewed=is_renewed, silent_seconds=silent) is decision


@pytest.mark.parametrize(
    ("claim", "stored", "decision"),
    [
        (0, 0, Challenge.WATCH),  # two people
        (0, 7, Challenge.WATCH),  # a person meets a run of a node
        (7, 0, Challenge.WATCH),  # a node meets a run of a person
        (7, 7, Challenge.WATCH),
        (8, 7, Challenge.TAKE),
        (7, 8, Challenge.OUTCLAIMED),
    ],
)
def test_a_later_claim_does_not_watch_an_earlier_one(claim, stored, decision):
    given = {"is_renewed": False, "silent_seconds": 0.0, "claim": claim, "stored_claim": stored}
    assert challenge(1000, is_free=False, **given) is decision
    assert challenge(1000, is_free=True, **given) is (decision if claim < stored and claim else Challenge.TAKE)


def test_a_later_claim_takes_a_lease_that_is_renewed_under_its_eyes():
    given = {"is_free": False, "is_renewed": True, "silent_seconds": 0.0}
    assert challenge(1000, **given, claim=8, stored_claim=7) is Challenge.TAKE
    assert challenge(1000, **given, claim=7, stored_claim=7) is Challenge.REFUSE


@pytest.mark.parametrize(
    ("is_lost", "is_given_back", "silent", "sure"),
    [
        (False, False, 0.6, Hold.SURE),
        (False, False, 0.7, Hold.DOUBTFUL),
        (False, True, 0.7, Hold.GIVEN_BACK),
        (True, False, 0.0, Hold.LOST),
        (True, True, 0.7, Hold.LOST),
    ],
)
def test_how_sure_an_owner_is_of_its_lease(is_lost, is_given_back, silent, sure):
    assert hold(is_lost=is_lost, is_given_back=is_given_back, silent_seconds=silent, term=1000) is sure
