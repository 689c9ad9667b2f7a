"""The head is moved by whoever owns it, and by nobody else."""

import msgspec
import pytest
from protocol import World

from millstream.checkpoint.head import (
    FORMAT,
    HEAD,
    Head,
    HeadKeeper,
    Origin,
    decode_head,
    encode_head,
    newest_token,
    refuse_headless,
)
from millstream.checkpoint.sealed import seal
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    return MemoryStore() if request.param == "memory" else LocalStore(tmp_path / "ckpt")


def head(token=1, epoch=None, **changes):
    return Head(**{"job": "j", "lineage": "l", "token": token, "epoch": epoch, **changes})


def moved(store, *heads):
    keeper = HeadKeeper(store)
    for each in heads:
        keeper.move(each)
    return keeper


def test_the_first_owner_makes_the_head(store):
    keeper = HeadKeeper(store)
    assert keeper.head is None
    keeper.move(head())
    assert keeper.head == keeper.current == HeadKeeper(store).head == head()


def test_one_of_two_first_owners_wins(store):
    one, two = HeadKeeper(store), HeadKeeper(store)
    two.move(head(2, lineage="other"))
    with pytest.raises(Fenced) as caught:
        one.move(head(1))
    assert (caught.value.found, caught.value.known) == ("token 1", "token 2")
    assert HeadKeeper(store).current.lineage == "other"


def test_an_owner_that_was_replaced_cannot_move_the_head(store):
    old = moved(store, head(1), head(1, 0))
    new = moved(store, head(2, 0))
    with pytest.raises(Fenced):
        old.move(head(1, 1))
    new.move(head(2, 1))
    with pytest.raises(Fenced):
        old.move(head(1, 1))
    assert HeadKeeper(store).current == head(2, 1)


def test_an_owner_that_slept_before_it_read_the_head_cannot_lower_its_token(store):
    """Both hold what is there now, so the comparison alone would let it through."""
    moved(store, head(2), head(2, 3))
    late = HeadKeeper(store)
    with pytest.raises(Fenced) as caught:
        late.move(head(1, 3))
    assert (caught.value.found, caught.value.known) == ("token 1", "token 2")
    assert HeadKeeper(store).current == head(2, 3)


def test_a_swap_that_was_done_although_it_said_no_counts(monkeypatch):
    store = MemoryStore()
    keeper = moved(store, head())
    swap = store.swap
    monkeypatch.setattr(store, "swap", lambda *given: swap(*given) and False)
    keeper.move(head(1, 0))
    assert keeper.current == head(1, 0)


def test_a_swap_whose_reply_is_lost_is_found_by_the_next_owner():
    world = World()
    owner = world.owner()
    world.faults = ["swap"]
    with pytest.raises(ExternalFailure, match="TEST-LOST"):
        owner.keeper.move(head(1, 0, lineage=owner.lineage, manifest="m"))
    assert owner.keeper.current.epoch is None
    assert HeadKeeper(world.store).current.epoch == 0


def test_a_head_that_vanished_is_said_so(store):
    keeper = moved(store, head())
    store.delete(HEAD)
    with pytest.raises(CheckpointRefused) as caught:
        keeper.move(head(1, 0))
    assert caught.value.code == "CKPT-012"


def test_manifests_without_a_head_are_no_new_checkpoint(store):
    refuse_headless(store)
    store.create("manifests/l/000000000000-000001.json", b"{}")
    with pytest.raises(CheckpointRefused) as caught:
        refuse_headless(store)
    assert caught.value.code == "CKPT-012"


def test_the_newest_token_is_known_without_the_lease(store):
    assert newest_token(store) == 0
    moved(store, head(3), head(3, 1))
    assert newest_token(store) == 3
    store.swap(HEAD, store.read(HEAD), b"damaged")
    assert newest_token(store) == 0


def test_a_head_survives_its_stored_form():
    origin = Origin(savepoint="/s", savepoint_id="a", history=[("k", 4)], newer_output="keep", replaced=["x"])
    full = head(7, 12, manifest="m", origin=origin)
    assert decode_head(encode_head(full)) == full


def test_a_damaged_head_is_refused_and_can_be_given_up_on_purpose(store):
    store.create(HEAD, encode_head(head(3, 5))[:-4])
    with pytest.raises(CheckpointRefused) as caught:
        HeadKeeper(store)
    assert caught.value.code == "CKPT-003"
    keeper = HeadKeeper(store, ignore_damage=True)
    assert keeper.head is None
    keeper.move(head(4))
    assert HeadKeeper(store).current == head(4)


def test_every_flipped_bit_of_a_head_is_noticed():
    content = encode_head(head(3, 5, manifest="m"))
    for place in range(len(content)):
        for bit in (0, 1, 5, 7):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            try:
                found = decode_head(bytes(flipped))
            except CheckpointRefused as problem:
                assert problem.code in {"CKPT-002", "CKPT-003"}
            else:
                assert found == head(3, 5, manifest="m")


def test_a_newer_format_is_refused():
    newer = seal(msgspec.to_builtins(head()), format=FORMAT + 1)
    with pytest.raises(CheckpointRefused) as caught:
        decode_head(newer)
    assert (caught.value.code, caught.value.found, caught.value.known) == ("CKPT-002", str(FORMAT + 1), str(FORMAT))
    assert "version that wrote it" in str(caught.value)
