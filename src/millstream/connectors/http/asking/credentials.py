"""Keeps the credentials of a source or sink: obtains them by a login, renews them once for all threads, rotates tokens."""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable
from pathlib import Path

from millstream.connectors.http.asking.assertions import signed
from millstream.connectors.http.asking.auth import (
    LOGIN_SECRET,
    AuthRules,
    Credential,
    basic_login,
    credential,
)
from millstream.connectors.http.asking.client import HttpClient, NoAnswer
from millstream.connectors.http.asking.obtained import ObtainedToken, obtained_token
from millstream.connectors.http.asking.secrets import Lookup, resolved
from millstream.errors import ExternalFailure, StepFailed

_HINT = "correct auth=, or the secret that it names"


class CredentialKeeper:
    """The credentials of the moment. Several threads may use it; a login happens once for all of them."""

    def __init__(self, rules: AuthRules | None, client: HttpClient, lookup: Lookup, clock: Callable[[], int]) -> None:
        self._rules, self._client, self._lookup, self._clock = rules, client, lookup, clock
        self._lock = threading.Lock()
        self._token: ObtainedToken | None = None
        self._number = 0

    @property
    def can_renew(self) -> bool:
        """Whether other credentials can be had when a server refuses these."""
        return self._rules is not None and self._rules.is_obtained

    def current(self) -> Credential | None:
        """What goes with a request now.

        Raises:
            StepFailed: (HTTP-015) the login is refused.
            ExternalFailure: (HTTP-011) the login gets no answer.
        """
        if self._rules is None:
            return None
        with self._lock:
            if not self._rules.is_obtained:
                return credential(self._rules, self._lookup, number=self._number)
            if self._token is None or (self._token.until is not None and self._clock() >= self._token.until):
                self._token = self._obtain(self._rules)
            return credential(self._rules, self._lookup, obtained=self._token.value)

    def secrets(self) -> set[str]:
        """The secrets of the credentials that are there, without a login."""
        if self._rules is None:
            return set()
        with self._lock:
            values = {resolved(each, self._lookup) for each in self._rules.secrets}
            if self._rules.kind == "basic":
                values |= {basic_login(self._rules, value) for value in values}
            return values | ({self._token.value} if self._token is not None else set())

    def renew(self, refused: Credential | None) -> None:
        """A server has refused a credential: the next one is another, unless somebody renewed it meanwhile."""
        with self._lock:
            if self._token is not None and refused is not None and refused.secret == self._token.value:
                self._token = None

    def rotate(self, spent: Credential | None) -> bool:
        """A credential has no quota left: use the next of several; `False` when all have been gone through."""
        if self._rules is None or len(self._rules.secrets) < 2 or self._rules.is_obtained:
            return False
        with self._lock:
            mine = credential(self._rules, self._lookup, number=self._number)
            if spent is not None and mine.secret == spent.secret:
                self._number += 1
            return self._number % len(self._rules.secrets) != 0

    def _obtain(self, rules: AuthRules) -> ObtainedToken:
        assert rules.login is not None
        held = _stored(rules) or (resolved(rules.secrets[0], self._lookup) if rules.secrets else "")
        made = held if rules.assertion is None else signed(rules.assertion, held, self._clock())
        lookup = _with_login_secret(self._lookup, made)
        sender = None if rules.login_auth is None else credential(rules.login_auth, lookup)
        try:
            answer = self._client.send(rules.login, lookup, sender)
        except NoAnswer as problem:
            msg = "the login got no answer"
            raise ExternalFailure(
                msg, code="HTTP-011", found=str(problem), hint="start again when it is back"
            ) from None
        if answer.status >= 500 or answer.status == 429:
            msg = "the login is out of order"
            raise ExternalFailure(
                msg, code="HTTP-011", found=f"status {answer.status}", hint="start again when it is back"
            )
        if not 200 <= answer.status < 300:
            msg = "the login was refused"
            raise StepFailed(msg, code="HTTP-015", found=f"status {answer.status}", hint=_HINT)
        token = obtained_token(rules, answer, self._clock())
        self._keep_refresh_token(rules, token, held)
        return token

    def _keep_refresh_token(self, rules: AuthRules, token: ObtainedToken, held: str) -> None:
        if rules.kind != "oauth2_refresh_token" or token.refresh_token in (None, held):
            return
        assert token.refresh_token is not None
        if rules.file is None:
            msg = "the server gives a new refresh token each time, and there is no place to keep it"
            hint = "name a file that outlives the job: auth={..., 'file': '/path/refresh-token'}, and log in anew"
            raise StepFailed(msg, code="HTTP-016", hint=hint)
        _store(Path(rules.file), token.refresh_token)


def _with_login_secret(lookup: Lookup, made: str) -> Lookup:
    return lambda name: made if name == LOGIN_SECRET else lookup(name)


def _stored(rules: AuthRules) -> str:
    path = None if rules.file is None else Path(rules.file)
    return path.read_text(encoding="utf-8").strip() if path is not None and path.is_file() else ""


def _store(path: Path, token: str) -> None:
    """Replace the token durably: the one before it is worth nothing any more. Nobody else may read it."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(token)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
