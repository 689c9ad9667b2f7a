"""Who asks: which credentials go with a request, and how those that must be obtained are. Secrets come from a lookup."""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

from millstream.connectors.http.asking import assertions
from millstream.connectors.http.asking.assertions import Assertion, assertion_of
from millstream.connectors.http.asking.secrets import (
    Lookup,
    chosen,
    json_without_secrets,
    named,
    resolved,
    secret_fields,
    without_secrets,
)
from millstream.connectors.http.nested import Fields, by_type, filled_text, nested
from millstream.connectors.http.paging.page_request import PageRequest, Pairs, pairs_of, request_of
from millstream.connectors.http.paging.paths import Steps, optional_steps
from millstream.model.connector import Option

AuthKind = Literal[
    "bearer", "api_key", "basic", "oauth2_client_credentials", "oauth2_refresh_token", "oauth2_jwt", "session"
]
LOGIN_SECRET = "ms_current_login_secret"
"""The name under which a login looks up what is made for it: the refresh token of the moment, or a statement signed now."""

_TEXT = (str, type(None))


def _text(doc: str, default: Any = None) -> Option:
    return Option(kind=_TEXT if default is None else (str,), default=default, doc=doc)


_OAUTH2: Fields = {
    "token_url": Option(kind=(str,), doc="where access tokens are given out", check=filled_text),
    "client_id": Option(kind=(str,), doc="who asks for one", check=filled_text),
    **secret_fields("client_secret", "the secret of the client"),
    "scope": _text("what the token shall allow"),
    "client_in": Option(
        kind=(str,),
        default="body",
        choices=("body", "header"),
        doc="whether id and secret go into the form or a basic header",
    ),
    "params": Option(
        kind=(dict,), default={}, doc="further fields of the form, such as `audience`", check=without_secrets
    ),
}
_LOGIN: Fields = {
    "url": Option(kind=(str,), doc="where to log in", check=filled_text),
    "method": Option(kind=(str,), default="POST", choices=("POST", "GET", "PUT"), doc="how"),
    "params": Option(kind=(dict,), default={}, doc="parameters of the query", check=without_secrets),
    "headers": Option(kind=(dict,), default={}, doc="headers", check=without_secrets),
    "json": Option(kind=(dict, list, type(None)), default=None, doc="the body, as JSON", check=json_without_secrets),
    "form": Option(kind=(dict, type(None)), default=None, doc="the body, as a form", check=without_secrets),
}
FIELDS: Mapping[str, Fields] = {
    "bearer": {
        **secret_fields("token", "the token"),
        "tokens": Option(
            kind=(list,), default=[], doc="several tokens, each as `${secret:NAME}`: the next when one has no quota"
        ),
        "header": _text("the header that it goes into", "Authorization"),
        "prefix": _text("what stands before it", "Bearer "),
    },
    "api_key": {
        **secret_fields("value", "the key"),
        "name": Option(kind=(str,), doc="the header, parameter or cookie that it goes into", check=filled_text),
        "in": Option(kind=(str,), default="header", choices=("header", "query", "cookie"), doc="which of these"),
        "prefix": _text("what stands before it", ""),
    },
    "basic": {
        "username": Option(kind=(str,), doc="the user"),
        **secret_fields("password", "the password"),
    },
    "oauth2_client_credentials": _OAUTH2,
    "oauth2_refresh_token": {
        **_OAUTH2,
        **secret_fields("refresh_token", "the refresh token"),
        "file": _text("a file for the refresh token of the moment, needed where the server gives a new one each time"),
    },
    "oauth2_jwt": assertions.FIELDS,
    "session": {
        "login": Option(
            kind=(dict,), doc="the request that logs in: `url`, `method`, `params`, `headers`, `json`, `form`"
        ),
        "path": Option(kind=_TEXT, default=None, doc="where the session stands in the answer", check=optional_steps),
        "response_header": _text("the header of the answer that holds the session"),
        "cookie": _text("the cookie that the answer sets"),
        "name": _text("the header, parameter or cookie that the session goes into", "Authorization"),
        "in": Option(kind=(str,), default="header", choices=("header", "query", "cookie"), doc="which of these"),
        "prefix": _text("what stands before it", ""),
    },
}


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """What goes with a request to its own host, and never into a text."""

    headers: Pairs = ()
    query: Pairs = ()
    cookies: Pairs = ()
    secret: str = ""
    """What of it must not be stored, should an answer repeat it."""

    def __repr__(self) -> str:
        return "Credential(***)"


@dataclasses.dataclass(frozen=True, slots=True)
class AuthRules:
    """What the option `auth` says; secrets by name."""

    kind: AuthKind
    secrets: tuple[str, ...] = ()
    """References: the tokens, the key, or the password."""
    name: str = "Authorization"
    place: Literal["header", "query", "cookie"] = "header"
    prefix: str = ""
    username: str = ""
    login: PageRequest | None = None
    login_auth: AuthRules | None = None
    """What goes with the login itself."""
    path: Steps | None = None
    response_header: str | None = None
    cookie: str | None = None
    file: str | None = None
    assertion: Assertion | None = None

    @property
    def is_obtained(self) -> bool:
        """Whether credentials come from a login and can be had anew."""
        return self.login is not None


def auth_of(value: Any) -> AuthRules | None:
    """Read the option `auth`.

    Raises:
        ValueError: says what was expected.
    """
    if value is None:
        return None
    kind, fields = by_type(FIELDS, value, what="auth")
    what = f"auth {kind!r}"
    match kind:
        case "bearer":
            return _bearer(fields, what)
        case "api_key":
            key = (chosen(fields, "value", what=what) or "",)
            return AuthRules("api_key", key, fields["name"], fields["in"], fields["prefix"])
        case "basic":
            password = (chosen(fields, "password", what=what) or "",)
            return AuthRules("basic", password, username=fields["username"])
        case "session":
            return _session(fields, what)
        case "oauth2_jwt":
            return _jwt(fields, what)
        case _:
            return _oauth2(
                "oauth2_refresh_token" if "refresh_token" in fields else "oauth2_client_credentials", fields, what
            )


def _bearer(fields: Mapping[str, Any], what: str) -> AuthRules:
    one = chosen(fields, "token", what=what, is_needed=not fields["tokens"])
    for token in fields["tokens"]:
        named(token if isinstance(token, str) else "")
    if one is not None and fields["tokens"]:
        msg = f"{what} with either 'token' or 'tokens'"
        raise ValueError(msg)
    tokens = tuple(fields["tokens"]) if one is None else (one,)
    return AuthRules("bearer", tokens, fields["header"], prefix=fields["prefix"])


def _session(fields: Mapping[str, Any], what: str) -> AuthRules:
    sources = [fields[name] for name in ("path", "response_header", "cookie") if fields[name] is not None]
    if len(sources) != 1:
        msg = f"{what} with one of 'path', 'response_header' and 'cookie'"
        raise ValueError(msg)
    login = request_of(nested(_LOGIN, fields["login"], what=f"'login' of {what}"))
    is_cookie = fields["cookie"] is not None
    return AuthRules(
        "session",
        name=fields["cookie"] if is_cookie else fields["name"],
        place="cookie" if is_cookie else fields["in"],
        prefix=fields["prefix"],
        login=login,
        path=fields["path"],
        response_header=fields["response_header"],
        cookie=fields["cookie"],
    )


def _oauth2(kind: AuthKind, fields: Mapping[str, Any], what: str) -> AuthRules:
    secret = chosen(fields, "client_secret", what=what, is_needed=kind == "oauth2_client_credentials")
    form = {"grant_type": kind.removeprefix("oauth2_"), **({"scope": fields["scope"]} if fields["scope"] else {})}
    login_auth = None
    if secret is not None and fields["client_in"] == "header":
        login_auth = AuthRules("basic", (secret,), username=fields["client_id"])
    else:
        form |= {"client_id": fields["client_id"], **({} if secret is None else {"client_secret": secret})}
    secrets: tuple[str, ...] = ()
    if kind == "oauth2_refresh_token":
        secrets = (chosen(fields, "refresh_token", what=what) or "",)
        form["refresh_token"] = f"${{secret:{LOGIN_SECRET}}}"
    login = PageRequest("POST", fields["token_url"], form=(*form.items(), *pairs_of(fields["params"])))
    return AuthRules(
        kind,
        secrets,
        prefix="Bearer ",
        login=login,
        login_auth=login_auth,
        path=("access_token",),
        file=fields.get("file"),
    )


def _jwt(fields: Mapping[str, Any], what: str) -> AuthRules:
    key = chosen(fields, "private_key", what=what) or ""
    form = (("grant_type", assertions.GRANT), ("assertion", f"${{secret:{LOGIN_SECRET}}}"), *pairs_of(fields["params"]))
    return AuthRules(
        "oauth2_jwt",
        (key,),
        prefix="Bearer ",
        login=PageRequest("POST", fields["token_url"], form=form),
        path=("access_token",),
        assertion=assertion_of(fields),
    )


def credential(rules: AuthRules, lookup: Lookup, *, obtained: str | None = None, number: int = 0) -> Credential:
    """What goes with a request: of several tokens the nth, or what a login gave."""
    value = obtained if obtained is not None else resolved(rules.secrets[number % len(rules.secrets)], lookup)
    if rules.kind == "basic":
        return Credential(headers=(("Authorization", f"Basic {basic_login(rules, value)}"),), secret=value)
    pair = ((rules.name, f"{rules.prefix}{value}"),)
    match rules.place:
        case "query":
            return Credential(query=pair, secret=value)
        case "cookie":
            return Credential(cookies=pair, secret=value)
        case _:
            return Credential(headers=pair, secret=value)


def basic_login(rules: AuthRules, password: str) -> str:
    """User and password as a basic header packs them, which hides nothing: a secret like the password."""
    return base64.b64encode(f"{rules.username}:{password}".encode()).decode("ascii")
