"""The stored form of a manifest: verified before it is believed, and refused with a code when it cannot be."""

import json

import msgspec
import pytest
from protocol import Owner, World

from millstream.checkpoint.manifest import (
    FORMAT,
    ParticipantRecord,
    SinkRecord,
    SourceRange,
    StateFileRecord,
    decode_manifest,
    encode_manifest,
    epoch_of,
    manifest_name,
)
from millstream.checkpoint.sealed import canonical, seal
from millstream.checkpoint.stores.local import LocalStore
from millstream.errors import CheckpointRefused


@pytest.fixture
def manifest():
    found = World().owner().epoch(rows=["grüße\n", '"quoted"', "\x00"])
    return msgspec.structs.replace(
        found,
        sources={"in": SourceRange(start=0, end=[1, "x"], digest="d")},
        watermarks={"t": -(2**63), "combined": 2**62},
        sinks={"out": SinkRecord(protocol="STAGED_ATOMIC_COMMIT", rows=3)},
        segments=[StateFileRecord(type="state", path="a/b", codec="arrow", bytes=10, checksum="c")],
        uids={"sum": "u"},
    )


def refusal(content):
    with pytest.raises(CheckpointRefused) as caught:
        decode_manifest(content, name="m")
    return caught.value.code


def test_a_manifest_survives_its_stored_form(manifest):
    assert decode_manifest(encode_manifest(manifest), name="m") == manifest


def test_equal_manifests_have_equal_bytes(manifest):
    turned = msgspec.structs.replace(manifest, watermarks=dict(reversed(manifest.watermarks.items())))
    assert list(turned.watermarks) != list(manifest.watermarks)
    assert encode_manifest(turned) == encode_manifest(manifest)


def test_integer_keys_become_text_and_the_checksum_still_holds(manifest):
    record = ParticipantRecord(type="sink x", state={2: "b", 10: {3: "a"}}, handle={1: [2, {7: None}]})
    odd = msgspec.structs.replace(manifest, participants={"s": record}, plan={10: "a", 9: "b"})
    found = decode_manifest(encode_manifest(odd), name="m")
    assert found.participants["s"].state == {"2": "b", "10": {"3": "a"}}
    assert found.participants["s"].handle == {"1": [2, {"7": None}]}
    assert found.plan == {"10": "a", "9": "b"}
    assert encode_manifest(found) == encode_manifest(odd)


def test_every_flipped_bit_is_noticed_or_harmless(manifest):
    content = encode_manifest(manifest)
    for place in range(len(content)):
        for bit in (0, 1, 5, 7):
            flipped = bytearray(content)
            flipped[place] ^= 1 << bit
            try:
                found = decode_manifest(bytes(flipped), name="m")
            except CheckpointRefused as problem:
                assert problem.code in {"CKPT-002", "CKPT-003"}, f"byte {place} bit {bit}"
            else:
                assert found == manifest, f"byte {place} bit {bit}"


def test_every_cut_is_noticed(manifest):
    content = encode_manifest(manifest)
    assert {refusal(content[:length]) for length in range(len(content))} == {"CKPT-003"}


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"null", b'"x"', b"\xff\xfe", b"{" * 50])
def test_what_is_no_manifest_is_damaged(content):
    assert refusal(content) == "CKPT-003"


def test_a_wrong_checksum_is_damage(manifest):
    envelope = json.loads(encode_manifest(manifest))
    envelope["content"]["epoch"] = 7
    assert refusal(canonical(envelope)) == "CKPT-003"


@pytest.mark.parametrize(("format", "hint"), [(FORMAT + 1, "version that wrote it"), (FORMAT - 1, "new savepoint")])
def test_another_format_is_refused(manifest, format, hint):
    content = seal(msgspec.to_builtins(manifest, str_keys=True), format=format)
    with pytest.raises(CheckpointRefused) as caught:
        decode_manifest(content, name="m")
    assert (caught.value.code, caught.value.found, caught.value.known) == ("CKPT-002", str(format), str(FORMAT))
    assert hint in caught.value.hint


def test_names_sort_by_epoch_and_differ_by_owner():
    names = [manifest_name("l", epoch, token) for epoch in (0, 9, 10, 123456) for token in (1, 9, 10)]
    assert names == sorted(names)
    assert len(set(names)) == len(names)
    assert [epoch_of(name) for name in names[::3]] == [0, 9, 10, 123456]


@pytest.mark.parametrize("damage", ["gone", "cut", "changed", "empty"])
def test_a_start_refuses_a_damaged_newest_manifest_and_changes_nothing(tmp_path, damage):
    world = World(LocalStore(tmp_path))
    world.owner().epoch()
    path = tmp_path / world.head.manifest
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(
            {"cut": content[:-9], "changed": content.replace(b'"job":"j"', b'"job":"k"'), "empty": b""}[damage]
        )
    world.log.clear()
    for _ in range(2):
        with pytest.raises(CheckpointRefused) as caught:
            Owner(world).start()
        assert caught.value.code == "CKPT-003"
        assert world.head.manifest in str(caught.value)
    assert {what for what, _, _ in world.log} == {"fence"}
    path.write_bytes(content)
    assert world.owner().durable == 0
