"""The epoch protocol at every place where it can be cut."""

import pytest
from protocol import World, identity

from millstream.checkpoint import coordinator as coordinator_module
from millstream.checkpoint.coordinator import RETAINED
from millstream.checkpoint.manifest import decode_manifest, encode_manifest, manifest_name
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.plan.fingerprint import Fingerprint

FAILPOINTS = ["staged", "prepared", "durable", "sink_published", "published"]
ROWS = {0: ["0-0", "0-1"]}


@pytest.fixture(params=["memory", "local"])
def world(request, tmp_path):
    return World(MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "ckpt"))


def test_a_straight_epoch(world):
    run = world.coordinator()
    assert run.recover() is None
    manifest = run.commit(world.staged(0, terminal=True))
    assert (manifest.epoch, manifest.kind, manifest.parallelism) == (0, "terminal", 2)
    assert world.visible("first") == world.visible("second") == ROWS
    assert run.newest() == manifest == run.decided(0)
    assert run.decided(1) is None


def test_sinks_nearest_the_end_publish_first(world):
    world.coordinator().commit(world.staged(0))
    assert [(what, name) for what, name, _ in world.log] == [
        ("prepare", "second"),
        ("prepare", "first"),
        ("publish", "second"),
        ("publish", "first"),
    ]


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("place", FAILPOINTS)
@pytest.mark.parametrize("replays", [False, True])
def test_a_crash_anywhere_loses_and_doubles_nothing(world, failpoints, place, nth, replays):
    """After the crash the run starts again; Spark then replays the epoch or, when it was durable, may go on."""
    first = world.coordinator()
    first.commit(world.staged(0))
    failpoints(f"{place}:{nth if place == 'sink_published' else 1}:raise")
    with pytest.raises(ExternalFailure):
        first.commit(world.staged(1))
    is_durable = world.store.read(manifest_name(1)) is not None
    assert is_durable == (place not in {"staged", "prepared"})
    shown = [name for name in world.sinks if 1 in world.visible(name)]
    assert is_durable or shown == []
    failpoints("")
    again = world.coordinator()
    newest = again.recover()
    assert newest.epoch == (1 if is_durable else 0)
    assert all((1 in world.visible(name)) == is_durable for name in world.sinks)
    if not is_durable:
        assert not any(epoch == 1 for sink in world.sinks.values() for epoch, _ in sink.staged)
    if replays or not is_durable:
        again.commit(world.staged(1))
    again.commit(world.staged(2))
    expected = {epoch: [f"{epoch}-0", f"{epoch}-1"] for epoch in range(3)}
    assert world.visible("first") == world.visible("second") == expected


def test_publishing_again_and_again_changes_nothing(world):
    run = world.coordinator()
    run.commit(world.staged(0))
    for _ in range(3):
        run.commit(world.staged(0))
        world.coordinator().recover()
    assert world.visible() == ROWS
    assert world.store.names("manifests/") == [manifest_name(0)]


def test_a_replay_drops_what_it_staged_itself(world):
    run = world.coordinator()
    run.commit(world.staged(0))
    run.commit(world.staged(0))
    assert [entry for entry in world.log if entry[0] == "discard"] == [
        ("discard", "first", [2]),
        ("discard", "second", [2]),
    ]
    assert list(world.sinks["first"].staged) == [(0, 1)]


def test_whoever_loses_the_race_adopts_the_manifest(world, monkeypatch):
    winner, loser = world.coordinator(), world.coordinator()
    staged = world.staged(0)
    create = world.store.create

    def raced(name, content):
        monkeypatch.setattr(world.store, "create", create)
        winner.commit(world.staged(0))
        return create(name, content)

    monkeypatch.setattr(world.store, "create", raced)
    adopted = loser.commit(staged)
    assert adopted == winner.newest()
    assert world.visible() == ROWS
    assert list(world.sinks["first"].staged) == [(0, 2)]


def test_other_rows_for_a_durable_epoch_stop_the_job(world):
    world.coordinator().commit(world.staged(0))
    with pytest.raises(CheckpointRefused) as caught:
        world.coordinator().commit(world.staged(0, ["other"], digest="other"))
    assert caught.value.code == "CKPT-004"
    assert (caught.value.found, caught.value.known) == ("other", "digest-0")
    assert world.visible() == ROWS


def test_a_lost_reply_is_resolved_by_publishing_again(world):
    world.sinks["second"].lose_reply = True
    with pytest.raises(ConnectionError):
        world.coordinator().commit(world.staged(0))
    assert world.visible("first") == {}
    world.coordinator().recover()
    assert world.visible("first") == world.visible("second") == ROWS


def test_a_failing_prepare_leaves_nothing(world, monkeypatch):
    monkeypatch.setattr(world.sinks["first"], "prepare", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.coordinator().commit(world.staged(0))
    assert world.store.names("manifests/") == []
    world.coordinator().recover()
    assert world.sinks["first"].staged == {}


@pytest.mark.parametrize(
    ("changes", "code", "text"),
    [
        ({"job": "other"}, "CKPT-005", "another job"),
        ({"lineage": "m"}, "CKPT-007", "lineage"),
        ({"parallelism": 3}, "CKPT-008", "parallelism=2"),
        ({"fingerprint": Fingerprint(whole="x", steps={"in": "1", "sum": "3"})}, "CKPT-006", "step 'sum'"),
        ({"fingerprint": Fingerprint(whole="x", steps={"in": "1"})}, "CKPT-006", "step 'sum' is gone"),
        (
            {"fingerprint": Fingerprint(whole="x", steps={"in": "1", "sum": "2", "m": "1"})},
            "CKPT-006",
            "step 'm' is new",
        ),
        ({"fingerprint": Fingerprint(whole="x", steps={"in": "1", "sum": "2"})}, "CKPT-006", "guarantee or key groups"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused_before_anything_is_published(world, failpoints, changes, code, text):
    failpoints("durable:1:raise")
    with pytest.raises(ExternalFailure):
        world.coordinator().commit(world.staged(0))
    world.log.clear()
    with pytest.raises(CheckpointRefused) as caught:
        world.coordinator(**changes).recover()
    assert caught.value.code == code
    assert text in str(caught.value)
    assert world.log == []


def test_old_manifests_are_retired(world, monkeypatch):
    monkeypatch.setattr(coordinator_module, "RETAINED", 3)
    run = world.coordinator()
    for epoch in range(8):
        run.commit(world.staged(epoch))
    assert world.store.names("manifests/") == [manifest_name(epoch) for epoch in (5, 6, 7)]
    assert len(world.visible()) == 8
    assert world.coordinator().recover().epoch == 7
    assert RETAINED >= 3


def manifest_bytes(world):
    world.coordinator().commit(world.staged(0, ["grüße\n", '"quoted"']))
    return world.store.read(manifest_name(0))


def outcome(content):
    try:
        return str(decode_manifest(content, name="m"))
    except CheckpointRefused as problem:
        return problem.code


def test_every_flipped_bit_of_a_manifest_is_detected_or_harmless(world):
    content = manifest_bytes(world)
    good = decode_manifest(content, name="m")
    for place in range(len(content)):
        for bit in (0, 1, 5, 7):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            assert outcome(bytes(flipped)) in {"CKPT-002", "CKPT-003", str(good)}, f"byte {place} bit {bit}"


def test_every_cut_manifest_is_detected(world):
    content = manifest_bytes(world)
    for length in range(len(content)):
        with pytest.raises(CheckpointRefused):
            decode_manifest(content[:length], name="m")


def test_a_manifest_survives_keys_that_json_does_not_know(world):
    manifest = world.coordinator().commit(world.staged(0))
    odd = type(manifest)(
        **{**{f: getattr(manifest, f) for f in manifest.__struct_fields__}, "sinks": {"s": {2: "b", 10: "a"}}}
    )
    assert decode_manifest(encode_manifest(odd), name="m").sinks == {"s": {"2": "b", "10": "a"}}


def test_a_damaged_newest_manifest_stops_recovery(tmp_path):
    world = World(LocalStore(tmp_path))
    world.coordinator().commit(world.staged(0))
    path = tmp_path / manifest_name(0)
    path.write_bytes(path.read_bytes().replace(b'"job":"j"', b'"job":"k"'))
    with pytest.raises(CheckpointRefused, match="CKPT-003"):
        world.coordinator(**{"job": identity().job}).recover()
