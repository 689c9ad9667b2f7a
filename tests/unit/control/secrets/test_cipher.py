"""Secrets at rest: what is stored cannot be read without its key, moved, or changed in any byte."""

import base64
import json
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.control.secrets.cipher import EncryptedValue, decrypt, encrypt, from_text
from millstream.control.secrets.key_ring import KeyRing, SecretRefused

CANARY = "canary-7c1f0e-ünïcode-\U0001f40d"
HERE = {"place": "secret", "name": "PG"}


@pytest.fixture
def ring(tmp_path):
    return KeyRing(tmp_path / "keys" / "secret.keys")


def test_what_is_encrypted_is_read_back_and_never_looks_the_same(ring):
    first, second = (encrypt(ring, CANARY, **HERE) for _ in range(2))
    assert first.data != second.data
    assert [decrypt(ring, each, **HERE) for each in (first, second)] == [CANARY, CANARY]
    assert CANARY.encode() not in first.data
    assert from_text(first.key_id, first.text, **HERE) == first


@pytest.mark.parametrize("elsewhere", [{"name": "PG2"}, {"place": "job/1"}, {"place": "secretPG", "name": ""}])
def test_a_value_that_was_moved_is_refused(ring, elsewhere):
    value = encrypt(ring, CANARY, **HERE)
    with pytest.raises(SecretRefused, match="CTL-303") as refused:
        decrypt(ring, value, **{**HERE, **elsewhere})
    assert CANARY not in str(refused.value)


def test_every_changed_byte_is_refused(ring):
    value = encrypt(ring, "short", **HERE)
    for place in range(len(value.data)):
        for flip in (1, 0x80, 0xFF):
            changed = bytearray(value.data)
            changed[place] ^= flip
            with pytest.raises(SecretRefused, match="CTL-303"):
                decrypt(ring, EncryptedValue(value.key_id, bytes(changed)), **HERE)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 27])
def test_a_value_that_was_cut_is_refused(ring, length):
    value = encrypt(ring, "short", **HERE)
    with pytest.raises(SecretRefused, match="CTL-303"):
        decrypt(ring, EncryptedValue(value.key_id, value.data[:length]), **HERE)


@pytest.mark.parametrize("secret", ["s", "sh", "sho", "shor"])
def test_every_changed_character_of_a_text_is_refused(ring, secret):
    """Also those of which base64 ignores bits, and those that it skips."""
    value = encrypt(ring, secret, **HERE)
    for place in range(len(value.text)):
        for other in "ABxyz019+/=- \n_é":
            text = value.text[:place] + other + value.text[place + 1 :]
            if text == value.text:
                continue
            with pytest.raises(SecretRefused, match="CTL-303"):
                decrypt(ring, from_text(value.key_id, text, **HERE), **HERE)
    for text in (value.text + "=", value.text + "\n", value.text + "\ud800", " " + value.text, value.text + "AAAA", ""):
        with pytest.raises(SecretRefused, match="CTL-303"):
            decrypt(ring, from_text(value.key_id, text, **HERE), **HERE)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back(tmp_path_factory, text):
    ring = KeyRing(tmp_path_factory.getbasetemp() / "any.keys")
    assert decrypt(ring, encrypt(ring, text, **HERE), **HERE) == text


def test_the_newest_key_encrypts_and_older_ones_decrypt(ring):
    old = encrypt(ring, CANARY, **HERE)
    made = ring.add()
    new = encrypt(ring, CANARY, **HERE)
    assert new.key_id == made.id != old.key_id
    assert ring.ids == [old.key_id, new.key_id]
    assert decrypt(ring, old, **HERE) == decrypt(ring, new, **HERE) == CANARY
    with pytest.raises(SecretRefused, match="CTL-303"):
        decrypt(ring, EncryptedValue(new.key_id, old.data), **HERE)


def test_a_key_that_another_process_adds_is_seen(ring):
    encrypt(ring, CANARY, **HERE)
    made = KeyRing(ring.path).add()
    assert ring.newest.id == made.id
    assert decrypt(ring, encrypt(KeyRing(ring.path), CANARY, **HERE), **HERE) == CANARY


def test_a_missing_key_is_named(ring, tmp_path):
    value = encrypt(ring, CANARY, **HERE)
    other = KeyRing(tmp_path / "other.keys")
    with pytest.raises(SecretRefused, match=rf"CTL-302.*{value.key_id}.*nothing.*restore the key file"):
        decrypt(other, value, **HERE)
    assert not other.path.exists(), "nothing is made to read with"
    other.add()
    with pytest.raises(SecretRefused, match="CTL-302"):
        decrypt(other, value, **HERE)


def test_the_file_is_for_its_owner_alone(ring):
    before = os.umask(0)
    try:
        key = ring.newest
    finally:
        os.umask(before)
    assert stat.S_IMODE(ring.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(ring.path.parent.stat().st_mode) == 0o700
    assert sorted(each.name for each in ring.path.parent.iterdir()) == ["secret.keys", "secret.keys.lock"]
    assert len(key.material) == 32
    assert key.key not in repr(key)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601, 0o777])
def test_a_file_that_others_may_read_is_refused(ring, mode):
    value = encrypt(ring, CANARY, **HERE)
    ring.path.chmod(mode)
    for act in (lambda: ring.newest, lambda: ring.ids, lambda: decrypt(ring, value, **HERE), ring.add):
        with pytest.raises(SecretRefused, match=r"CTL-300.*chmod 600"):
            act()
    ring.path.chmod(0o600)
    assert decrypt(ring, value, **HERE) == CANARY


def keys_of(ring):
    return json.loads(ring.path.read_text())


@pytest.mark.parametrize(
    "damage",
    [
        lambda file: b"",
        lambda file: b"\xff\xfe",
        lambda file: json.dumps({**file, "format": 2}).encode(),
        lambda file: json.dumps({**file, "keys": []}).encode(),
        lambda file: json.dumps({**file, "keys": file["keys"] * 2}).encode(),
        lambda file: json.dumps({**file, "keys": [{**file["keys"][0], "key": "short"}]}).encode(),
        lambda file: json.dumps({**file, "keys": [{**file["keys"][0], "key": "*" * 44}]}).encode(),
        lambda file: json.dumps(
            {**file, "keys": [{**file["keys"][0], "key": base64.b64encode(bytes(16)).decode()}]}
        ).encode(),
        lambda file: json.dumps({**file, "more": 1}).encode(),
        lambda file: json.dumps(file).encode()[:-1],
    ],
)
def test_a_damaged_file_is_refused_without_its_content(ring, damage):
    key = ring.newest.key
    ring.path.write_bytes(damage(keys_of(ring)))
    with pytest.raises(SecretRefused, match=r"CTL-301.*backup") as refused:
        KeyRing(ring.path).newest
    assert key not in str(refused.value)


def test_a_folder_or_an_unreadable_file_is_refused(tmp_path):
    with pytest.raises(SecretRefused, match=r"CTL-30[01]"):
        KeyRing(tmp_path).newest


def test_many_that_make_the_first_key_at_once_get_the_same(tmp_path):
    path = tmp_path / "at_once.keys"
    with ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(lambda _: KeyRing(path).newest.id, range(32)))
    assert len(ids) == 1
    with ThreadPoolExecutor(8) as pool:
        made = {key.id for key in pool.map(lambda _: KeyRing(path).add(), range(32))}
    assert len(made) == 32
    assert set(KeyRing(path).ids) == ids | made
