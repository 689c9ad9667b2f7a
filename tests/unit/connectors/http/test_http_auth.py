import base64

import pytest

from millstream.connectors.http.asking.auth import auth_of, credential
from millstream.connectors.http.asking.obtained import obtained_token
from millstream.connectors.http.paging.pages import HttpAnswer
from millstream.errors import StepFailed

SECRETS = {"TOKEN": "t0ken", "OTHER": "0ther", "PASSWORD": "p:w"}
NOW = 1_700_000_000_000


def given(value, **more):
    return credential(auth_of(value), SECRETS.__getitem__, **more)


def test_a_bearer_token():
    assert given({"type": "bearer", "token": "${secret:TOKEN}"}).headers == (("Authorization", "Bearer t0ken"),)
    assert given({"type": "bearer", "token_env": "TOKEN"}).headers == (("Authorization", "Bearer t0ken"),)
    other = given({"type": "bearer", "token_env": "TOKEN", "header": "X-Auth", "prefix": "Token "})
    assert other.headers == (("X-Auth", "Token t0ken"),)


def test_several_tokens_take_turns():
    auth = {"type": "bearer", "tokens": ["${secret:TOKEN}", "${secret:OTHER}"]}
    assert [given(auth, number=number).secret for number in range(3)] == ["t0ken", "0ther", "t0ken"]


@pytest.mark.parametrize("place", ["header", "query", "cookie"])
def test_a_key_goes_into_each_of_three_places(place):
    found = given({"type": "api_key", "name": "key", "in": place, "value": "${secret:TOKEN}"})
    kept = {"header": found.headers, "query": found.query, "cookie": found.cookies}
    assert kept == {name: (("key", "t0ken"),) if name == place else () for name in kept}


def test_user_and_password():
    ((name, value),) = given({"type": "basic", "username": "me", "password_env": "PASSWORD"}).headers
    assert name == "Authorization"
    assert base64.b64decode(value.removeprefix("Basic ")) == b"me:p:w"


def test_client_credentials_are_asked_for_by_a_form():
    fields = {
        "token_url": "https://a.example/token",
        "client_id": "me",
        "client_secret": "${secret:TOKEN}",
        "scope": "read",
    }
    auth = auth_of({"type": "oauth2_client_credentials", **fields, "params": {"audience": "x"}})
    assert auth.login.form == (
        ("grant_type", "client_credentials"),
        ("scope", "read"),
        ("client_id", "me"),
        ("client_secret", "${secret:TOKEN}"),
        ("audience", "x"),
    )
    in_header = auth_of({"type": "oauth2_client_credentials", **fields, "client_in": "header"})
    assert in_header.login.form == (("grant_type", "client_credentials"), ("scope", "read"))
    sent = credential(in_header.login_auth, SECRETS.__getitem__).headers[0][1]
    assert base64.b64decode(sent.removeprefix("Basic ")) == b"me:t0ken"


def test_a_refresh_token_is_looked_up_when_it_is_needed():
    fields = {"token_url": "https://a.example/token", "client_id": "me", "refresh_token_env": "TOKEN"}
    auth = auth_of({"type": "oauth2_refresh_token", **fields})
    assert dict(auth.login.form)["refresh_token"] == "${secret:ms_current_login_secret}"
    assert auth.secrets == ("${secret:TOKEN}",)


def answer(document=b"{}", headers=()):
    return HttpAnswer(200, dict(headers), document)


OAUTH = {
    "type": "oauth2_client_credentials",
    "token_url": "https://a.example/t",
    "client_id": "me",
    "client_secret_env": "T",
}


@pytest.mark.parametrize(
    ("expires", "until"),
    [(b"3600", NOW + 3_570_000), (b'"3600"', NOW + 3_570_000), (b"10", NOW + 5_000), (b"null", None), (b"true", None)],
)
def test_an_access_token_is_replaced_before_it_ends(expires, until):
    token = obtained_token(auth_of(OAUTH), answer(b'{"access_token": "a", "expires_in": %s}' % expires), NOW)
    assert (token.value, token.until, token.refresh_token) == ("a", until, None)


def session(**fields):
    return auth_of({"type": "session", "login": {"url": "https://a.example/login", "json": {"user": "me"}}, **fields})


def test_a_session_comes_from_body_header_or_cookie():
    body = session(path="data.session", name="X-Session")
    found = obtained_token(body, answer(b'{"data": {"session": "s1"}}'), NOW)
    assert credential(body, SECRETS.__getitem__, obtained=found.value).headers == (("X-Session", "s1"),)
    header = session(response_header="X-Token")
    assert obtained_token(header, answer(headers={"x-token": "s2"}), NOW).value == "s2"
    cookie = session(cookie="sid")
    set_cookie = {"set-cookie": "other=1; Path=/\nsid=s3; HttpOnly"}
    assert obtained_token(cookie, answer(headers=set_cookie), NOW).value == "s3"
    assert credential(cookie, SECRETS.__getitem__, obtained="s3").cookies == (("sid", "s3"),)


@pytest.mark.parametrize("document", [b"{}", b'{"access_token": ""}', b'{"access_token": 7}', b"<html>", b""])
def test_a_login_that_gives_nothing_is_refused(document):
    with pytest.raises(StepFailed) as refused:
        obtained_token(auth_of(OAUTH), answer(document), NOW)
    assert refused.value.code == "HTTP-015"


def test_nothing_shows_a_secret():
    token = obtained_token(auth_of(OAUTH), answer(b'{"access_token": "abc"}'), NOW)
    shown = repr(given({"type": "bearer", "token_env": "TOKEN"})) + repr(token)
    assert "t0ken" not in shown
    assert "abc" not in shown


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "magic"}, "'type' is one of bearer, api_key"),
        ({"type": "bearer", "token": "abc"}, "the name of a secret, ${secret:NAME}, and not the secret itself"),
        ({"type": "bearer"}, "with either 'token', as ${secret:NAME}, or 'token_env'"),
        ({"type": "bearer", "token": "${secret:A}", "token_env": "A"}, "with either 'token'"),
        ({"type": "bearer", "token_env": "not a name"}, "the name of an environment variable"),
        ({"type": "bearer", "tokens": ["abc"]}, "and not the secret itself"),
        ({"type": "bearer", "token_env": "A", "tokens": ["${secret:B}"]}, "either 'token' or 'tokens'"),
        ({"type": "api_key", "value_env": "A"}, "with 'name'"),
        ({"type": "api_key", "name": "k", "value_env": "A", "in": "body"}, "one of header, query, cookie"),
        ({"type": "basic", "username": "me", "password": "pw"}, "and not the secret itself"),
        ({"type": "oauth2_client_credentials", "token_url": "x", "client_id": "me"}, "either 'client_secret'"),
        ({"type": "session", "login": {"url": "x"}}, "one of 'path', 'response_header' and 'cookie'"),
        ({"type": "session", "login": {}, "path": "a"}, "with 'url'"),
        ({"type": "session", "login": {"url": "x", "json": {"password": "pw"}}, "path": "a"}, "and not as text"),
        ({"type": "session", "login": {"url": "x", "form": {"pwd": "pw"}}, "path": "a"}, "and not as text"),
    ],
)
def test_what_is_wrong_with_credentials_is_said_without_them(value, expected):
    with pytest.raises(ValueError) as refused:
        auth_of(value)
    assert expected in str(refused.value)
    assert "abc" not in str(refused.value)
