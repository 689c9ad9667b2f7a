"""Credentials against a server: obtained, renewed once, rotated; and never written anywhere."""

import json
import threading

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import QUICK, Reading, ids, pages_of, read_all, refused, rows

from millstream.errors import ExternalFailure, InvalidStep, StepFailed

TABLE = rows(12)
PAGES = pages_of(TABLE, 4)
CLIENT = {"type": "oauth2_client_credentials", "client_id": "me", "client_secret": "${secret:SECRET}"}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch):
    for name, value in {"SECRET": "s3cret", "TOKEN": "t0ken", "OTHER": "0ther"}.items():
        monkeypatch.setenv(name, value)


class Guarded:
    """Answers those who have the token of the moment; gives out a new one at `/token`."""

    def __init__(self, uses=1_000, **more):
        self.given, self.uses, self.left, self.more = 0, uses, 0, more
        self.forms = []

    def __call__(self, asked):
        if asked.path == "/token":
            self.forms.append(asked.form)
            self.given, self.left = self.given + 1, self.uses
            return {"access_token": f"access-{self.given}", **self.more}
        if asked.headers.get("authorization") != f"Bearer access-{self.given}" or not self.left:
            return refused(401)
        self.left -= 1
        return PAGES(asked)

    def options(self, api, **auth):
        return {
            "records": "items",
            "paginator": {"type": "page"},
            "auth": {**CLIENT, "token_url": f"{api.url}/token", **auth},
        }


def test_a_token_is_obtained_and_used(api):
    api.answer = guarded = Guarded()
    assert ids(read_all(f"{api.url}/items", **guarded.options(api, scope="read"))) == list(range(1, 13))
    form = {"grant_type": "client_credentials", "scope": "read", "client_id": "me", "client_secret": "s3cret"}
    assert guarded.forms == [form]


def test_a_token_that_ends_is_renewed_once_for_each_refusal(api):
    api.answer = guarded = Guarded(uses=2)
    assert ids(read_all(f"{api.url}/items", **guarded.options(api))) == list(range(1, 13))
    assert guarded.given == 2
    assert len(api.asked) == 4 + 2 + 1


def test_a_token_is_renewed_before_it_ends(api):
    api.answer = guarded = Guarded(expires_in=0)
    assert ids(read_all(f"{api.url}/items", **guarded.options(api))) == list(range(1, 13))
    assert guarded.given == 4
    assert not [each for each in api.asked if each.path == "/items" and "authorization" not in each.headers]


def test_a_refusal_of_the_new_token_too_is_the_end(api):
    api.answer = lambda asked: {"access_token": "x"} if asked.path == "/token" else refused(401)
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", **Guarded().options(api))
    assert failed.value.code == "HTTP-010"
    assert "with new credentials too" in failed.value.message
    assert [each.path for each in api.asked] == ["/token", "/items", "/token", "/items"]


def test_slices_that_are_refused_at_once_log_in_once(api):
    guarded = Guarded()
    # The server's own loop must not wait: each request is held until all have come.
    arrived, all_there = [], threading.Event()

    def held(asked):
        if asked.path != "/token" and len(arrived) < 3 and guarded.given == 1:
            arrived.append(asked)
            if len(arrived) == 3:
                all_there.set()
            return Reply({}, status=401, held=all_there)
        return guarded(asked)

    api.answer = held
    slices = {"type": "list", "name": "n", "values": [1, 2, 3]}
    found = read_all(f"{api.url}/items", **guarded.options(api), params={"n": "${slice:n}"}, slices=slices)
    assert len(found) == 36
    assert guarded.given == 2


def test_a_login_that_is_refused_is_for_the_job_and_one_that_is_away_for_others(api):
    api.answer = lambda asked: refused(400, error="bad s3cret")
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", **Guarded().options(api))
    assert failed.value.code == "HTTP-015"
    assert "s3cret" not in str(failed.value)
    api.answer = lambda asked: refused(503)
    with pytest.raises(ExternalFailure) as away:
        read_all(f"{api.url}/items", rate=QUICK, **Guarded().options(api))
    assert away.value.code == "HTTP-011"


class Rotating(Guarded):
    """Gives a new refresh token each time, and takes none twice."""

    def __call__(self, asked):
        if asked.path == "/token":
            current = "t0ken" if not self.given else f"refresh-{self.given}"
            if asked.form["refresh_token"] != current:
                return refused(400)
            self.more = {"refresh_token": f"refresh-{self.given + 1}"}
        return super().__call__(asked)

    def options(self, api, **auth):
        return super().options(api, **{"type": "oauth2_refresh_token", "refresh_token_env": "TOKEN", **auth})


def test_a_refresh_token_that_rotates_is_kept_in_a_file(api, tmp_path):
    api.answer = rotating = Rotating(uses=2)
    file = tmp_path / "refresh-token"
    options = rotating.options(api, file=str(file))
    assert ids(read_all(f"{api.url}/items", **options)) == list(range(1, 13))
    assert file.read_text() == "refresh-2"
    assert file.stat().st_mode & 0o777 == 0o600
    assert ids(read_all(f"{api.url}/items", **options)) == list(range(1, 13))
    assert [each.name for each in tmp_path.iterdir()] == ["refresh-token"]


def test_a_refresh_token_that_rotates_without_a_file_is_refused_at_once(api):
    api.answer = rotating = Rotating()
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", **rotating.options(api))
    assert failed.value.code == "HTTP-016"


def test_a_refresh_token_that_stays_needs_no_file(api):
    api.answer = guarded = Guarded(refresh_token="t0ken")
    options = guarded.options(api, type="oauth2_refresh_token", refresh_token_env="TOKEN")
    assert ids(read_all(f"{api.url}/items", **options)) == list(range(1, 13))


def test_the_next_of_several_tokens_when_one_has_no_quota(api):
    def answer(asked):
        is_spent = asked.headers["authorization"] == "Bearer t0ken" and len(api.asked) > 2
        return refused(429, headers=(("Retry-After", "600"),)) if is_spent else PAGES(asked)

    api.answer = answer
    auth = {"type": "bearer", "tokens": ["${secret:TOKEN}", "${secret:OTHER}"]}
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, auth=auth)
    assert ids(found) == list(range(1, 13))
    assert api.asked[-1].headers["authorization"] == "Bearer 0ther"


def test_when_all_tokens_are_spent_the_source_waits(api):
    api.answer = lambda asked: refused(429, headers=(("Retry-After", "600"),))
    auth = {"type": "bearer", "tokens": ["${secret:TOKEN}", "${secret:OTHER}"]}
    with Reading(f"{api.url}/items", records="items", auth=auth) as reading:
        while not reading.advance().blocked:
            threading.Event().wait(0.005)
        assert [each.headers["authorization"] for each in api.asked] == ["Bearer t0ken", "Bearer 0ther"]


def test_a_session_by_cookie(api):
    def answer(asked):
        if asked.path == "/login":
            assert asked.json == {"user": "me", "password": "s3cret"}
            return Reply({}, headers=(("Set-Cookie", "sid=abc; Path=/"),))
        return PAGES(asked) if asked.headers.get("cookie") == "sid=abc" else refused(401)

    api.answer = answer
    login = {"url": f"{api.url}/login", "json": {"user": "me", "password": "${secret:SECRET}"}}
    auth = {"type": "session", "login": login, "cookie": "sid"}
    assert ids(read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, auth=auth)) == list(
        range(1, 13)
    )


def test_a_secret_that_nobody_knows_is_named(api, monkeypatch):
    monkeypatch.delenv("TOKEN")
    with pytest.raises(InvalidStep) as failed:
        read_all(f"{api.url}/items", records="items", auth={"type": "bearer", "token": "${secret:TOKEN}"})
    assert (failed.value.code, failed.value.step) == ("RUN-022", "in")
    assert "'TOKEN'" in failed.value.message


@pytest.mark.parametrize("kind", ["query", "header", "params"])
def test_no_secret_is_written_anywhere(api, tmp_path, kind):
    """The server repeats the secret in its next address, in a page, and in an error."""

    def answer(asked):
        if asked.query.get("page") == "3":
            return refused(400, error="what is t0ken?")
        page = int(asked.query.get("page", 1))
        link = f"{api.url}/items?page={page + 1}&access_token=t0ken"
        return {"items": rows(2, page * 10), "next": link}

    api.answer = answer
    auth = {"type": "api_key", "name": "access_token", "in": kind, "value": "${secret:TOKEN}"}
    asking = {"params": {"access_token": "${secret:TOKEN}"}} if kind == "params" else {"auth": auth}
    with Reading(f"{api.url}/items", folder=tmp_path, records="items", paginator={"type": "link"}, **asking) as reading:
        with pytest.raises(StepFailed) as failed:
            reading.everything(1)
        stored = json.dumps(reading.path) + str(failed.value) + repr(failed.value.fields())
    stored += "".join(path.read_text(errors="replace") + path.name for path in tmp_path.iterdir())
    assert "page=2" in stored
    assert "t0ken" not in stored
    sent = [each.query.get("access_token") or each.headers.get("access_token") for each in api.asked]
    assert sent == ["t0ken", "t0ken", "t0ken"]


def test_a_secret_in_the_path_is_not_stored_with_the_next_address(api, tmp_path, monkeypatch):
    monkeypatch.setenv("TOKEN", "t0/ken")

    def answer(asked):
        first = int(asked.query.get("from", 0))
        following = {"next": f"{api.url}/bot/t0%2Fken/items?from={first + 4}"} if first < 8 else {}
        return {"items": TABLE[first : first + 4], **following}

    api.answer = answer
    options = {"records": "items", "paginator": {"type": "link"}}
    with Reading(f"{api.url}/bot/${{secret:TOKEN}}/items", folder=tmp_path, **options) as reading:
        assert ids(reading.everything(3)) == list(range(1, 13))
    assert {each.path for each in api.asked} == {"/bot/t0/ken/items"}
    stored = json.dumps(reading.path) + "".join(path.read_text("latin-1") for path in tmp_path.iterdir())
    assert "ken" not in stored.replace("token", "")


def test_a_secret_that_an_error_repeats_is_hidden_however_it_is_written(api, monkeypatch):
    monkeypatch.setenv("TOKEN", "t0 /k+n")
    api.answer = lambda asked: refused(400, error="no such key: t0%20%2Fk%2Bn, t0+%2Fk%2Bn, t0%20/k%2Bn, t0 /k+n")
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", params={"key": "${secret:TOKEN}"})
    assert "no such key" in str(failed.value)
    assert "k%2Bn" not in str(failed.value)
    assert "k+n" not in str(failed.value)


@pytest.mark.parametrize("written", [json.dumps, lambda text: json.dumps(text, ensure_ascii=False)])
def test_a_secret_that_an_error_repeats_in_json_is_hidden(api, monkeypatch, written):
    monkeypatch.setenv("TOKEN", 't0"ken \\é')
    api.answer = lambda asked: Reply(('{"echo": ' + written('t0"ken \\é') + "}").encode(), status=403)
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", params={"key": "${secret:TOKEN}"})
    assert "ken" not in str(failed.value)
    assert '"echo": "***"' in failed.value.found


def test_user_and_password_as_a_header_packs_them_are_hidden_too(api):
    api.answer = lambda asked: refused(403, error=asked.headers["authorization"])
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", auth={"type": "basic", "username": "me", "password": "${secret:SECRET}"})
    assert "Basic ***" in failed.value.found


def test_a_login_that_is_out_of_order_is_asked_again(api):
    guarded, left = Guarded(), [503, 500]
    api.answer = lambda asked: refused(left.pop()) if asked.path == "/token" and left else guarded(asked)
    options = {**guarded.options(api), "rate": QUICK}
    assert ids(read_all(f"{api.url}/items", **options)) == list(range(1, 13))
    api.answer = lambda asked: refused(503)
    api.asked.clear()
    with pytest.raises(ExternalFailure) as failed:
        read_all(f"{api.url}/items", **{**options, "rate": {**QUICK, "attempts": 3}})
    assert (failed.value.code, len(api.asked)) == ("HTTP-011", 3)
