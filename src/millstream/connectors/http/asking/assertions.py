"""A signed statement in place of a password: what it says, and how it is signed (RFC 7523)."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Mapping
from typing import Any

from millstream.connectors.extras import missing_extra
from millstream.connectors.http.asking.secrets import secret_fields, without_secrets
from millstream.connectors.http.nested import Fields, duration, filled_text
from millstream.errors import StepFailed
from millstream.model.connector import Option

ALGORITHMS = tuple(
    ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA", "HS256", "HS384", "HS512"]
)
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_TEXT = (str, type(None))


def _life(value: str) -> int:
    found = duration(value)
    if not 1_000 <= found <= 86_400_000:
        msg = "a time from 1s to 1d"
        raise ValueError(msg)
    return found


FIELDS: Fields = {
    "token_url": Option(kind=(str,), doc="where access tokens are given out", check=filled_text),
    "issuer": Option(kind=(str,), doc="who signs, as `iss`", check=filled_text),
    **secret_fields("private_key", "the key that signs, in PEM form, or the shared secret of HS algorithms"),
    "algorithm": Option(kind=(str,), default="RS256", choices=ALGORITHMS, doc="how it is signed"),
    "key_id": Option(kind=_TEXT, default=None, doc="the name of the key, as `kid`"),
    "subject": Option(kind=_TEXT, default=None, doc="for whom, as `sub`; the issuer if not given"),
    "audience": Option(kind=_TEXT, default=None, doc="whom it is for, as `aud`; `token_url` if not given"),
    "claims": Option(kind=(dict,), default={}, doc="what else is said, such as `scope`", check=without_secrets),
    "life": Option(kind=(str,), default="5m", doc="how long a statement counts", check=_life),
    "params": Option(kind=(dict,), default={}, doc="further fields of the form", check=without_secrets),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Assertion:
    """What is said, by whom and to whom; without the key."""

    claims: Mapping[str, Any]
    algorithm: str
    key_id: str | None
    life: int
    """Milliseconds."""


def assertion_of(fields: Mapping[str, Any]) -> Assertion:
    """Of the fields of `auth`."""
    issuer = fields["issuer"]
    said = {"iss": issuer, "sub": fields["subject"] or issuer, "aud": fields["audience"] or fields["token_url"]}
    return Assertion({**fields["claims"], **said}, fields["algorithm"], fields["key_id"], fields["life"])


def signed(assertion: Assertion, key: str, now: int) -> str:
    """The statement at an instant, in milliseconds since 1970. Each has a name of its own: a server may take one only once.

    Raises:
        InvalidStep: (CONN-010) the library is missing.
        StepFailed: (HTTP-017) the key is none for the algorithm.
    """
    try:
        import jwt
    except ModuleNotFoundError as problem:
        raise missing_extra(problem, extra="jwt") from problem
    times = {"iat": now // 1000, "exp": (now + assertion.life) // 1000, "jti": uuid.uuid4().hex}
    headers = None if assertion.key_id is None else {"kid": assertion.key_id}
    try:
        return jwt.encode({**assertion.claims, **times}, key, algorithm=assertion.algorithm, headers=headers)
    except (jwt.PyJWTError, ValueError, TypeError) as problem:
        # The text of the error may repeat the key.
        msg = f"the private key cannot sign by {assertion.algorithm}"
        hint = "correct 'algorithm' in auth=, or the secret that 'private_key' names: a whole PEM text with its lines"
        raise StepFailed(msg, code="HTTP-017", found=type(problem).__name__, hint=hint) from None
