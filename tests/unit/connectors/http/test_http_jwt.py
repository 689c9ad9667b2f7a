"""Access tokens for signed statements: the server checks the signature with the public key, as real ones do."""

import time

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from tests.unit.connectors.http.apis import ids, pages_of, read_all, refused, rows

from millstream.connectors.http.asking.auth import auth_of
from millstream.errors import StepFailed

PAGES = pages_of(rows(12), 4)
KEYS = {
    "RS256": lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048),
    "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate,
}


def pem(key):
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


class Office:
    """Gives out tokens for statements that it can check, each statement once."""

    def __init__(self, api, key, algorithm):
        self.url, self.key, self.algorithm = f"{api.url}/token", key, algorithm
        self.seen, self.headers = [], []

    def __call__(self, asked):
        if asked.path != "/token":
            is_mine = asked.headers.get("authorization") == f"Bearer access-{len(self.seen)}"
            return PAGES(asked) if is_mine else refused(401)
        text = asked.form["assertion"]
        said = jwt.decode(text, self.key, algorithms=[self.algorithm], audience=self.url)
        if asked.form["grant_type"] != "urn:ietf:params:oauth:grant-type:jwt-bearer" or said in self.seen:
            return refused(400)
        self.seen.append(said)
        self.headers.append(jwt.get_unverified_header(text))
        return {"access_token": f"access-{len(self.seen)}", "expires_in": 0}


def options(office, **auth):
    given = {"type": "oauth2_jwt", "token_url": office.url, "issuer": "me@example", "private_key": "${secret:KEY}"}
    return {"records": "items", "paginator": {"type": "page"}, "auth": {**given, **auth}}


@pytest.mark.parametrize("algorithm", KEYS)
def test_statements_are_signed_and_new_each_time(api, monkeypatch, algorithm):
    key = KEYS[algorithm]()
    monkeypatch.setenv("KEY", pem(key))
    api.answer = office = Office(api, key.public_key(), algorithm)
    more = {"algorithm": algorithm, "key_id": "k1", "claims": {"scope": "read"}, "subject": "you", "life": "2m"}
    assert ids(read_all(f"{api.url}/items", **options(office, **more))) == list(range(1, 13))
    first = office.seen[0]
    assert (first["iss"], first["sub"], first["aud"], first["scope"]) == ("me@example", "you", office.url, "read")
    assert first["exp"] - first["iat"] == 120
    assert abs(first["iat"] - time.time()) < 120
    assert len({said["jti"] for said in office.seen}) == len(office.seen) == 4
    assert office.headers[0]["kid"] == "k1"


def test_a_shared_secret_signs_too(api, monkeypatch):
    secret = "a secret that is long enough to sign with"
    monkeypatch.setenv("KEY", secret)
    api.answer = office = Office(api, secret, "HS256")
    assert len(read_all(f"{api.url}/items", **options(office, algorithm="HS256"))) == 12
    assert office.seen[0]["sub"] == "me@example"


@pytest.mark.parametrize("key", ["no key at all", "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----END PRIVATE KEY-----"])
def test_a_key_that_is_none_is_named_without_showing_it(api, monkeypatch, key):
    monkeypatch.setenv("KEY", key)
    api.answer = office = Office(api, None, "RS256")
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", **options(office))
    assert failed.value.code == "HTTP-017"
    assert key not in str(failed.value)
    assert "c2VjcmV0" not in str(failed.value)
    assert not api.asked


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"private_key": "-----BEGIN PRIVATE KEY-----"}, "name of a secret"),
        ({"algorithm": "none"}, "algorithm"),
        ({"life": "1ms"}, "from 1s to 1d"),
        ({"life": "soon"}, "a duration such as"),
        ({"issuer": ""}, "issuer"),
    ],
)
def test_wrong_fields_are_refused(fields, told):
    given = {"type": "oauth2_jwt", "token_url": "https://a", "issuer": "me", "private_key": "${secret:KEY}"}
    with pytest.raises(ValueError, match=told):
        auth_of({**given, **fields})
