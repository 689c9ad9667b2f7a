"""Change the key: everything that an older one encrypted is encrypted again with the newest."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Select, Table, Update, select, update

from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import secret
from millstream.control.metadata.tables.jobs import job_config
from millstream.control.secrets.cipher import SECRETS, EncryptedValue, decrypt, encrypt, from_text, of_job
from millstream.control.secrets.key_ring import KeyRing

_AT_ONCE = 100
"""Rows of a transaction: others that write wait for it."""
_MOST_ROUNDS = 100_000


def rekey(metadata: Metadata, ring: KeyRing) -> int:
    """Make a new key and encrypt every stored secret with it; says how many. A rekey that was cut short is simply repeated.

    Earlier keys stay in the file, for copies of the database that were made before.
    """
    newest = ring.add().id
    return sum(_all_of(metadata, ring, again, newest) for again in (_secrets_again, _settings_again))


def _all_of(metadata: Metadata, ring: KeyRing, again: Any, newest: str) -> int:
    done = 0
    for _ in range(_MOST_ROUNDS):
        with metadata.begin() as connection:
            count: int = again(connection, ring, newest)
        if not count:
            break
        done += count
    return done


def _older(table: Table, newest: str, *columns: Any) -> Select[Any]:
    """Locked, where a database locks rows: a value that somebody sets meanwhile must not be replaced by the one before."""
    return select(*columns).where(table.c.key_id != newest).limit(_AT_ONCE).with_for_update()


def _secrets_again(connection: Connection, ring: KeyRing, newest: str) -> int:
    rows = connection.execute(_older(secret, newest, secret.c.name, secret.c.key_id, secret.c.ciphertext)).all()
    for name, key_id, data in rows:
        text = decrypt(ring, EncryptedValue(key_id, bytes(data)), place=SECRETS, name=name)
        kept = encrypt(ring, text, place=SECRETS, name=name)
        changed: Update = update(secret).where(secret.c.name == name)
        connection.execute(changed.values(key_id=kept.key_id, ciphertext=kept.data))
    return len(rows)


def _settings_again(connection: Connection, ring: KeyRing, newest: str) -> int:
    table = job_config.c
    columns = (table.id, table.job_id, table.config_key, table.key_id, table.config_value)
    rows = connection.execute(_older(job_config, newest, *columns)).all()
    for row, job_id, key, key_id, text in rows:
        place = of_job(job_id)
        plain = decrypt(ring, from_text(key_id, text, place=place, name=key), place=place, name=key)
        kept = encrypt(ring, plain, place=place, name=key)
        connection.execute(update(job_config).where(table.id == row).values(key_id=kept.key_id, config_value=kept.text))
    return len(rows)
