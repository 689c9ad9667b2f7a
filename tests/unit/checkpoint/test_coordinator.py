"""One epoch at a time: the order of its steps, what a failure leaves behind, and what is refused."""

import itertools

import pytest
from protocol import Owner, World, stored_manifests

from millstream.checkpoint.coordinator import _FOLLOWS, Phase
from millstream.checkpoint.manifest import manifest_name
from millstream.checkpoint.stores.local import LocalStore
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced

FAILPOINTS = ["staged", "prepared", "manifest_written", "durable", "sink_published", "published"]
BEFORE_DURABLE = {"staged", "prepared", "manifest_written"}
LEGAL = {
    ("COMMITTED", "CREATED"),
    ("ABORTED", "CREATED"),
    ("CREATED", "STAGING"),
    ("STAGING", "PRECOMMITTED"),
    ("PRECOMMITTED", "DURABLE"),
    ("STAGING", "DURABLE"),  # an epoch that is durable already is adopted
    ("DURABLE", "COMMITTED"),
    ("CREATED", "ABORTED"),
    ("STAGING", "ABORTED"),
    ("PRECOMMITTED", "ABORTED"),
}


@pytest.fixture
def world():
    return World()


def entries(world, *kinds):
    return [entry for entry in world.log if entry[0] in kinds]


def codes(caught):
    return caught.value.code


# The life cycle.


@pytest.mark.parametrize(("before", "after"), list(itertools.product(Phase, Phase)))
def test_only_legal_moves_are_made(world, before, after):
    coordinator = world.owner().coordinator
    coordinator.phase = before
    if (before, after) in LEGAL:
        coordinator._enter(after)
        assert coordinator.phase is after
    else:
        with pytest.raises(AssertionError, match="cannot follow"):
            coordinator._enter(after)
    assert set(_FOLLOWS) == set(Phase)


@pytest.mark.parametrize("phase", Phase)
def test_only_an_epoch_that_is_not_durable_can_be_given_up(world, phase):
    coordinator = world.owner().coordinator
    coordinator.phase = phase
    coordinator.abort()
    given_up = phase in (Phase.CREATED, Phase.STAGING, Phase.PRECOMMITTED, Phase.ABORTED)
    assert coordinator.phase is (Phase.ABORTED if given_up else phase)


def test_phases_of_a_straight_epoch(world, monkeypatch):
    owner, seen = world.owner(), []
    enter = owner.coordinator._enter
    monkeypatch.setattr(owner.coordinator, "_enter", lambda phase: (enter(phase), seen.append(str(phase))))
    manifest = owner.epoch()
    assert seen == ["CREATED", "STAGING", "PRECOMMITTED", "DURABLE", "COMMITTED"]
    assert (manifest.epoch, manifest.token, manifest.kind, manifest.digest) == (0, 1, "periodic", "digest-0")
    assert owner.coordinator.newest() == manifest
    seen.clear()
    owner.epoch(0)
    assert seen == ["CREATED", "STAGING", "DURABLE", "COMMITTED"]


@pytest.mark.parametrize("place", FAILPOINTS)
def test_the_phase_says_how_far_a_failed_epoch_came(world, failpoints, place):
    owner = world.owner()
    failpoints(f"{place}:1:raise")
    with pytest.raises(ExternalFailure):
        owner.epoch()
    expected = {
        "staged": Phase.STAGING,
        "prepared": Phase.PRECOMMITTED,
        "manifest_written": Phase.ABORTED,
        "durable": Phase.DURABLE,
        "sink_published": Phase.DURABLE,
        "published": Phase.COMMITTED,
    }
    assert owner.coordinator.phase is expected[place]
    owner.coordinator.abort()
    assert (owner.coordinator.phase is Phase.ABORTED) == (place in BEFORE_DURABLE)


def test_an_epoch_must_be_begun_before_it_is_committed(world):
    owner = world.owner()
    with pytest.raises(AssertionError, match="cannot follow"):
        owner.coordinator.commit(owner.staged(0))
    world.check()


def test_one_epoch_is_in_flight(world):
    owner = world.owner()
    owner.coordinator.begin(0)
    with pytest.raises(CheckpointRefused) as caught:
        owner.coordinator.begin(1)
    assert codes(caught) == "CKPT-013"
    owner.coordinator.begin(0)  # the same one again: the first attempt is given up
    assert owner.coordinator.phase is Phase.STAGING


def test_what_stands_before_the_first_epoch_is_none(world):
    with pytest.raises(CheckpointRefused) as caught:
        world.owner().coordinator.begin(-1)
    assert codes(caught) == "CKPT-013"


@pytest.mark.parametrize("wanted", [0, 1, 4, 9])
def test_an_epoch_out_of_order_is_refused(world, wanted):
    owner = world.owner()
    for _ in range(3):
        owner.epoch()
    with pytest.raises(CheckpointRefused) as caught:
        owner.epoch(wanted)
    assert codes(caught) == "CKPT-013"
    world.check()


# The order of steps.


def test_participants_save_before_any_prepares_and_publish_in_reverse(world, monkeypatch):
    owner, calls = world.owner(), []
    for name, participant in owner.coordinator._participants.items():
        for step in ("save", "prepare", "finish"):
            real = getattr(participant, step)

            def spy(*given, real=real, step=step, name=name, **more):
                calls.append((step, name))
                return real(*given, **more)

            monkeypatch.setattr(participant, step, spy)
    owner.epoch()
    names = ["in", "first", "second"]
    assert calls == [(step, name) for step in ("save", "prepare") for name in names] + [
        ("finish", name) for name in reversed(names)
    ]


def test_nothing_is_visible_before_the_head_moved(world):
    world.owner()
    swaps = []
    swap = world.store.swap

    def watched(name, expected, content):
        swaps.append((name, [dict(table.markers) for table in world.tables.values()]))
        return swap(name, expected, content)

    world.store.swap = watched
    world.owner().epoch()
    assert [(name, shown) for name, shown in swaps if name == "head.json"][-1] == ("head.json", [{}, {}])


def test_start_fences_every_sink_before_it_reads_the_manifest(world, monkeypatch):
    world.owner().epoch()
    world.log.clear()
    read = world.store.read
    monkeypatch.setattr(
        world.store,
        "read",
        lambda name: (world.log.append(("read", name, 0)) if "manifests" in name else None, read(name))[1],
    )
    world.owner()
    order = [what for what, _, _ in entries(world, "fence", "read", "publish", "recover")]
    assert order == ["fence", "fence", "read", "publish", "recover", "publish", "recover"]
    restored = [name for what, name, _ in entries(world, "recover")]
    assert restored == ["second", "first"]


def test_a_check_that_refuses_leaves_everything_as_it_was(world, failpoints):
    owner = world.owner()
    failpoints("durable:1:raise")
    with pytest.raises(ExternalFailure):
        owner.epoch()
    failpoints("")
    world.log.clear()

    def refuse(newest):
        assert newest.epoch == 0
        raise CheckpointRefused("another plan", code="CKPT-006")

    with pytest.raises(CheckpointRefused, match="another plan"):
        Owner(world).start(refuse)
    assert entries(world, "publish", "recover", "discard") == []
    assert stored_manifests(world) == [(0, 1)]
    world.heal()


def test_sources_acknowledge_what_every_sink_shows(world):
    owner = world.owner()
    owner.epoch()
    owner.epoch()
    assert [position for _, _, position in entries(world, "acknowledge")] == [1, 2]
    world.faults = ["before publish"]
    with pytest.raises(ExternalFailure):
        owner.epoch()
    assert len(entries(world, "acknowledge")) == 2
    world.owner()
    assert entries(world, "acknowledge")[-1][2] == 3


# Crashes and failures.


@pytest.mark.parametrize("replays", [False, True])
@pytest.mark.parametrize(
    ("place", "nth"), [*((place, 1) for place in FAILPOINTS), ("sink_published", 2), ("sink_published", 3)]
)
def test_a_crash_anywhere_loses_and_doubles_nothing(world, failpoints, place, nth, replays):
    first = world.owner()
    first.epoch()
    failpoints(f"{place}:{nth}:raise")
    with pytest.raises(ExternalFailure):
        first.epoch()
    failpoints("")
    is_durable = place not in BEFORE_DURABLE
    assert world.head.epoch == (1 if is_durable else 0)
    again = world.owner()
    assert again.durable == (1 if is_durable else 0)
    assert all((1 in table.visible(again.lineage)) == is_durable for table in world.tables.values())
    if replays and is_durable:
        again.epoch(1)
    again.epoch()
    world.check_all_shown()
    world.heal()
    world.check_rows_are_the_oracle()


@pytest.mark.parametrize(
    ("fault", "is_durable"),
    [("before create", False), ("create", False), ("before swap", False), ("swap", True)],
)
def test_a_failure_of_the_store_keeps_what_was_prepared(world, fault, is_durable):
    """The write may have landed although it reported a failure: whoever starts next finds out."""
    owner = world.owner()
    owner.epoch()
    world.faults = [fault]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.epoch()
    assert owner.coordinator.phase is Phase.ABORTED
    assert entries(world, "discard") == []
    staged = (owner.lineage, 1, owner.last_staged.messages["first"][0]["attempt"])
    assert all(staged in table.staged for table in world.tables.values())
    assert all(1 not in table.visible(owner.lineage) for table in world.tables.values())
    after = world.owner()
    assert after.durable == (1 if is_durable else 0)
    assert all((1 in table.visible(owner.lineage)) == is_durable for table in world.tables.values())
    world.heal()
    world.check_rows_are_the_oracle()


def test_an_attempt_whose_outcome_is_unknown_is_not_overwritten(world):
    """The head may name the manifest of the first attempt, so the second may not take its place."""
    owner = world.owner()
    world.faults = ["swap"]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.epoch()
    kept = world.store.read(world.head.manifest)
    with pytest.raises(ExternalFailure) as caught:
        owner.epoch()
    assert codes(caught) == "CKPT-015"
    assert world.store.read(world.head.manifest) == kept
    world.heal()


def test_an_attempt_that_never_reached_the_store_is_simply_made_again(world):
    owner = world.owner()
    world.faults = ["before create"]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.epoch()
    owner.epoch()
    world.check_all_shown()


@pytest.mark.parametrize("fault", ["publish", "before publish", "before acknowledge"])
def test_a_durable_epoch_is_published_before_the_next_one_begins(world, fault):
    owner = world.owner()
    world.faults = [fault]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.epoch()
    assert (owner.coordinator.phase, world.head.epoch) == (Phase.DURABLE, 0)
    world.faults = [fault]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.epoch()
    assert world.head.epoch == 0, "no second epoch becomes durable while one waits to be published"
    owner.epoch()
    for name in world.tables:
        published = [epoch for what, sink, epoch in world.log if what == "published" and sink == name]
        assert published == sorted(published)
    world.check_all_shown()
    world.check_rows_are_the_oracle()


def test_a_participant_publishes_every_pending_epoch_in_order(world):
    owner = world.owner()
    participant = owner.coordinator._participants["first"]
    for epoch in range(3):
        participant.save(epoch, owner.staged(epoch).messages["first"])
        participant.prepare(epoch)
    participant.finish(2, success=False)
    assert world.visible() == {}
    participant.finish(2, success=True)
    assert [epoch for what, _, epoch in world.log if what == "published"] == [0, 1, 2]
    participant.finish(2, success=True)
    assert len(world.visible()) == 3


def test_a_failing_prepare_leaves_nothing(world, monkeypatch):
    owner = world.owner()
    monkeypatch.setattr(owner.committers["second"], "prepare", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        owner.epoch()
    assert stored_manifests(world) == []
    assert world.head.epoch is None
    world.heal()


# Replays, chains and other owners.


def test_a_replay_adopts_the_manifest_and_drops_what_it_staged(world):
    owner = world.owner()
    manifest = owner.epoch()
    assert owner.epoch(0) == manifest
    assert entries(world, "discard") == [("discard", "first", 1), ("discard", "second", 1)]
    assert world.visible("second") == {0: []}
    assert stored_manifests(world) == [(0, 1)]
    again = world.owner()
    assert again.epoch(0) == manifest
    world.check_all_shown()


def test_the_same_reports_twice_drop_nothing(world):
    owner = world.owner()
    owner.epoch()
    owner.epoch()
    owner.repeat()
    owner.repeat()
    assert entries(world, "discard") == []
    assert world.visible("second")[1] == ["1-0"]
    world.faults = ["before publish"]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.epoch()
    owner.repeat()
    world.check_all_shown()
    world.check_rows_are_the_oracle()


def test_other_rows_for_a_durable_epoch_are_refused(world):
    owner = world.owner()
    owner.epoch()
    with pytest.raises(CheckpointRefused) as caught:
        world.owner().epoch(0, digest="other", rows=["x"])
    assert (codes(caught), caught.value.found, caught.value.known) == ("CKPT-004", "other", "digest-0")
    world.check()


def test_an_epoch_that_does_not_follow_the_last_one_is_refused(world):
    owner = world.owner()
    owner.epoch()
    for run in (owner, world.owner()):
        with pytest.raises(CheckpointRefused) as caught:
            run.epoch(1, follows="digest-7")
        assert (codes(caught), caught.value.known) == ("CKPT-014", "digest-0")
    assert world.head.epoch == 0


def test_a_replaced_owner_makes_nothing_durable(world):
    old = world.owner()
    old.epoch()
    new = world.owner()
    with pytest.raises(Fenced, match="token 1"):
        old.epoch()
    assert world.head.token == new.token
    new.epoch()
    world.check_all_shown()


def test_a_watchful_owner_stops_before_it_writes_a_manifest(world):
    old = world.owner(is_watchful=True)
    old.coordinator.begin(0)
    staged = old.staged(0)
    world.owner()
    with pytest.raises(Fenced, match="lease"):
        old.coordinator.commit(staged)
    assert stored_manifests(world) == []
    with pytest.raises(Fenced, match="lease"):
        old.coordinator.begin(0)


def test_manifests_the_head_never_named_are_removed(world):
    old = world.owner()
    world.faults = ["before swap"]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        old.epoch()
    assert stored_manifests(world) == [(0, 1)]
    world.owner()
    assert stored_manifests(world) == []


def test_an_owner_that_was_replaced_while_it_started_removes_nothing_of_the_next(world):
    """It read the head, slept, and goes on to clean up what is newer than it knows."""
    slow = world.owner()
    quick = world.owner()
    quick.epoch()
    quick.epoch()
    slow.coordinator._remove_undecided()
    assert stored_manifests(world) == [(0, 2), (1, 2)]
    world.heal()


@pytest.mark.parametrize("retained", [1, 3])
def test_old_manifests_are_retired(world, retained):
    owner = world.owner(retained=retained)
    for _ in range(8):
        owner.epoch()
    assert stored_manifests(world) == [(epoch, 1) for epoch in range(8 - retained, 8)]
    assert world.owner().durable == 7
    assert len(world.visible()) == 8


def test_a_replaced_owner_retires_nothing_the_next_needs(world):
    old = world.owner(retained=1)
    old.epoch()
    new = world.owner()
    new.epoch()
    world.faults = ["before swap"]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        new.epoch()  # leaves a manifest beyond the head
    old.coordinator._retire()
    assert (1, 2) in stored_manifests(world)
    world.heal()


def test_the_protocol_on_a_disk(tmp_path, failpoints):
    world = World(LocalStore(tmp_path))
    owner = world.owner()
    owner.epoch()
    failpoints("manifest_written:1:raise")
    with pytest.raises(ExternalFailure):
        owner.epoch()
    failpoints("")
    assert (tmp_path / manifest_name(owner.lineage, 1, 1)).exists()
    again = world.owner()
    assert not (tmp_path / manifest_name(owner.lineage, 1, 1)).exists()
    again.epoch()
    again.epoch()
    assert {name: len(table.visible(owner.lineage)) for name, table in world.tables.items()} == {
        "first": 3,
        "second": 3,
    }
