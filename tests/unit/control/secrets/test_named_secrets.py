"""Secrets by name: written, listed without their values, given to runs, encrypted again under a new key."""

import datetime as dt

import pytest
from sqlalchemy import select, update

from millstream.control.metadata.tables.access import secret
from millstream.control.metadata.tables.jobs import job_config
from millstream.control.refusals import UnknownName
from millstream.control.secrets import rotation
from millstream.control.secrets.config import ConfigEntry, own_secrets, read_config, set_setting
from millstream.control.secrets.key_ring import SecretRefused
from millstream.control.secrets.named import delete_secret, named_values, secret_names, set_secret
from millstream.control.secrets.of_run import secrets_of_run
from millstream.control.secrets.rotation import rekey
from millstream.errors import InvalidStep

NOW = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
LATER = NOW + dt.timedelta(hours=1)
CANARY = "canary-51c8aa-never-to-be-seen"


def test_a_secret_is_set_listed_without_its_value_and_deleted(metadata, ring):
    with metadata.begin() as connection:
        set_secret(connection, ring, "PG", CANARY, now=NOW)
        set_secret(connection, ring, "API_TOKEN", "other", now=NOW)
        set_secret(connection, ring, "PG", CANARY + "2", now=LATER)
        listed = secret_names(connection)
        assert [(each.name, each.create_time, each.update_time) for each in listed] == [
            ("API_TOKEN", NOW, NOW),
            ("PG", NOW, LATER),
        ]
        assert CANARY not in repr(listed)
        assert named_values(connection, ring, ["PG", "MISSING"]) == {"PG": CANARY + "2"}
        assert CANARY not in repr(named_values(connection, ring, ["PG"]))
        delete_secret(connection, "PG")
        assert [each.name for each in secret_names(connection)] == ["API_TOKEN"]
        with pytest.raises(UnknownName, match=r"CTL-306.*millstream secret set PG"):
            delete_secret(connection, "PG")


@pytest.mark.parametrize("name", ["", "1A", "a-b", "a.b", "a b", "ä", "x" * 129, "A\n", None, 3, "${secret:A}"])
def test_a_name_that_jobs_could_not_write_is_refused(ring, name):
    with pytest.raises(InvalidStep, match="CTL-304"):
        set_secret(None, ring, name, CANARY, now=NOW)


@pytest.mark.parametrize("value", ["", None, 5, "a\0b", "\ud800", "x" * (64 * 1024 + 1), b"bytes"])
def test_a_value_that_cannot_be_kept_is_refused_and_not_shown(ring, value):
    with pytest.raises(InvalidStep, match="CTL-305") as refused:
        set_secret(None, ring, "PG", value, now=NOW)
    assert "xxx" not in str(refused.value)


def test_a_run_gets_what_its_job_names_and_nothing_else(metadata, ring):
    with metadata.begin() as connection:
        for name in ("PG", "API", "UNUSED"):
            set_secret(connection, ring, name, f"{name} of all", now=NOW)
        set_setting(connection, ring, 1, ConfigEntry("API", "of the job", "STRING", is_sensitive=True))
        set_setting(connection, ring, 1, ConfigEntry("OWN", "of the job too", "STRING", is_sensitive=True))
        assert secrets_of_run(connection, ring, 1, {"PG", "API"}) == {"PG": "PG of all", "API": "of the job"}
        assert secrets_of_run(connection, ring, 2, {"API"}) == {"API": "API of all"}
        assert secrets_of_run(connection, ring, 1, set()) == {}
        with pytest.raises(UnknownName, match=r"CTL-306.*'A', 'B'"):
            secrets_of_run(connection, ring, 1, {"B", "A", "PG"})


def test_nothing_of_a_secret_is_in_the_bytes_of_the_database(tmp_path, metadata, ring):
    with metadata.begin() as connection:
        set_secret(connection, ring, "PG", CANARY, now=NOW)
        set_setting(connection, ring, 1, ConfigEntry("DB_PASSWORD", CANARY, "STRING", is_sensitive=True))
        rows = repr([*connection.execute(select(secret)), *connection.execute(select(job_config))])
    metadata.close()
    assert CANARY not in rows
    assert ring.newest.key not in rows
    if metadata.is_sqlite:
        stored = b"".join(path.read_bytes() for path in tmp_path.glob("metadata.db*"))
        assert b"DB_PASSWORD" in stored, "the right files were searched"
        assert CANARY.encode() not in stored
        assert ring.newest.material not in stored


def test_every_changed_byte_in_the_database_is_refused(metadata, ring):
    with metadata.begin() as connection:
        set_secret(connection, ring, "PG", "x", now=NOW)
        data = bytes(connection.execute(select(secret.c.ciphertext)).scalar_one())
        for place in range(len(data)):
            changed = bytearray(data)
            changed[place] ^= 1
            connection.execute(update(secret).values(ciphertext=bytes(changed)))
            with pytest.raises(SecretRefused, match=r"CTL-303.*PG"):
                named_values(connection, ring, ["PG"])


def test_a_value_that_was_put_into_another_row_is_refused(metadata, ring):
    with metadata.begin() as connection:
        for job in (1, 2):
            set_setting(connection, ring, job, ConfigEntry("PW", f"of {job}", "STRING", is_sensitive=True))
        texts = select(job_config.c.config_value).where(job_config.c.job_id == 1)
        connection.execute(update(job_config).values(config_value=connection.execute(texts).scalar_one()))
        assert own_secrets(connection, ring, 1, ["PW"]) == {"PW": "of 1"}
        with pytest.raises(SecretRefused, match=r"CTL-303.*job/2: PW"):
            own_secrets(connection, ring, 2, ["PW"])


def test_a_rekey_encrypts_every_row_again(metadata, ring, monkeypatch):
    monkeypatch.setattr(rotation, "_AT_ONCE", 3)
    with metadata.begin() as connection:
        for number in range(7):
            set_secret(connection, ring, f"S{number}", f"value {number}", now=NOW)
        ring.add()
        for number in range(5):
            key = f"K{number}"
            set_setting(connection, ring, 1, ConfigEntry(key, f"value {number}", "STRING", is_sensitive=True))
        set_setting(connection, ring, 2, ConfigEntry("plain", "value", "STRING", is_sensitive=False))
    assert rekey(metadata, ring) == 12
    with metadata.begin() as connection:
        used = {*connection.scalars(select(secret.c.key_id)), *connection.scalars(select(job_config.c.key_id))}
        assert used == {ring.newest.id, None}
        assert len(ring.ids) == 3
        assert named_values(connection, ring, ["S0", "S6"]) == {"S0": "value 0", "S6": "value 6"}
        own = own_secrets(connection, ring, 1, ["K0", "K4", "S0"])
        assert own == {"K0": "value 0", "K4": "value 4"}
        assert read_config(connection, 2).params == {"plain": "value"}
        assert [each.update_time for each in secret_names(connection)] == [NOW] * 7


def test_a_rekey_that_finds_a_damaged_row_says_which_and_is_repeated_when_it_is_mended(metadata, ring):
    with metadata.begin() as connection:
        for name in ("A", "B", "C"):
            set_secret(connection, ring, name, name, now=NOW)
        connection.execute(update(secret).where(secret.c.name == "B").values(ciphertext=b"changed" * 5))
    with pytest.raises(SecretRefused, match=r"CTL-303.*B"):
        rekey(metadata, ring)
    with metadata.begin() as connection:
        assert named_values(connection, ring, ["A", "C"]) == {"A": "A", "C": "C"}
        set_secret(connection, ring, "B", "B", now=LATER)
    assert rekey(metadata, ring) == 3


def test_a_lost_key_file_is_told_as_such(metadata, ring):
    with metadata.begin() as connection:
        set_secret(connection, ring, "PG", CANARY, now=NOW)
    ring.path.unlink()
    with metadata.begin() as connection:
        with pytest.raises(SecretRefused, match=r"CTL-302.*restore the key file"):
            named_values(connection, ring, ["PG"])
        set_secret(connection, ring, "PG", CANARY, now=LATER)
        assert named_values(connection, ring, ["PG"]) == {"PG": CANARY}


def test_secrets_are_not_in_what_is_printed(metadata, ring):
    with metadata.begin() as connection:
        set_setting(connection, ring, 1, ConfigEntry("PW", CANARY, "STRING", is_sensitive=True))
        own = own_secrets(connection, ring, 1, ["PW"])
        assert CANARY not in repr(read_config(connection, 1))
    assert CANARY not in repr(own)
    assert own == {"PW": CANARY}
