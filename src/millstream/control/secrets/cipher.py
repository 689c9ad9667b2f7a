"""How secrets are encrypted at rest: AES-256-GCM, bound to where they stand, so that no value can be moved to another place."""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import json
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from millstream.control.secrets.key_ring import KeyRing, SecretRefused

_NONCE = 12
_TAG = 16
SECRETS = "secret"
"""The place of secrets of the whole service; those of a job stand under `of_job`."""


def of_job(job_id: int) -> str:
    """The place of the settings of a job."""
    return f"job/{job_id}"


@dataclasses.dataclass(frozen=True, slots=True)
class EncryptedValue:
    """What is stored of a secret."""

    key_id: str
    data: bytes
    """Nonce, ciphertext and tag."""

    @property
    def text(self) -> str:
        """The same for a column of text."""
        return base64.b64encode(self.data).decode()


def from_text(key_id: str, text: str, *, place: str, name: str) -> EncryptedValue:
    """What `EncryptedValue.text` wrote; another spelling of the same bytes was not written by us."""
    try:
        data = base64.b64decode(text.encode(), validate=True)
    except (binascii.Error, ValueError):
        data = b""
    value = EncryptedValue(key_id, data)
    if value.text != text:
        raise _changed(place, name)
    return value


def encrypt(ring: KeyRing, text: str, *, place: str, name: str) -> EncryptedValue:
    """Encrypt with the newest key, under a nonce that was never used."""
    key = ring.newest
    nonce = os.urandom(_NONCE)
    data = AESGCM(key.material).encrypt(nonce, text.encode(), _bound_to(key.id, place, name))
    return EncryptedValue(key.id, nonce + data)


def decrypt(ring: KeyRing, value: EncryptedValue, *, place: str, name: str) -> str:
    """The text.

    Raises:
        SecretRefused: (CTL-302) the key is missing, (CTL-303) what is stored was changed, or stands in another place.
    """
    key = ring.key(value.key_id)
    if len(value.data) < _NONCE + _TAG:
        raise _changed(place, name)
    try:
        nonce, data = value.data[:_NONCE], value.data[_NONCE:]
        return AESGCM(key.material).decrypt(nonce, data, _bound_to(key.id, place, name)).decode()
    except InvalidTag:
        raise _changed(place, name) from None


def pretend_decrypting(ring: KeyRing) -> None:
    """Take as long as a value takes that is there: who asks for one that is not must not notice."""
    if not ring.path.exists():
        return
    with contextlib.suppress(InvalidTag):
        AESGCM(ring.newest.material).decrypt(bytes(_NONCE), bytes(4 * _TAG), _bound_to("", SECRETS, ""))


def _bound_to(key_id: str, place: str, name: str) -> bytes:
    """JSON keeps the parts apart, whatever characters they have."""
    return json.dumps(["millstream", 1, key_id, place, name]).encode()


def _changed(place: str, name: str) -> SecretRefused:
    msg = "a stored secret was changed, or put into another place"
    hint = "find out who writes to the database, and set the secret again"
    return SecretRefused(msg, code="CTL-303", found=f"{place}: {name}", hint=hint)
