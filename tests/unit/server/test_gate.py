"""Nobody passes without a token, nobody does more than their role, and every answer has its headers."""

import re

import pytest
from sqlalchemy import select
from starlette.routing import Route
from starlette.testclient import TestClient
from tests.unit.server.world import bearer, job_body, service_of, tokens_of, whole_service

from millstream.control.act import acting
from millstream.control.metadata.tables.access import api_token, session
from millstream.server.access.gate import OPEN
from millstream.server.access.roles import ROLE_ORDER
from millstream.server.access.tokens import first_admin_token, hash_of
from millstream.server.app import create_app
from millstream.server.front import CONTENT_POLICY

VALUES = {
    "name": "orders",
    "number": "1",
    "run": "0" * 32,
    "operation": "x",
    "node": "n",
    "savepoint": "1",
    "token": "t",
}


def routes_of(app):
    """Method, path with values, and role of every route that the OpenAPI document names."""
    for path, methods in app.openapi()["paths"].items():
        for method, facts in methods.items():
            yield method.upper(), re.sub(r"\{(\w+)\}", lambda found: VALUES.get(found[1], "x"), path), facts["x-role"]


@pytest.fixture
def whole(metadata, ticking, tmp_path):
    """The application with all of its parts."""
    return create_app(whole_service(metadata, tmp_path, monotonic=ticking))


@pytest.fixture
def visitor(whole):
    with TestClient(whole, raise_server_exceptions=False) as client:
        yield client


def later(ticking):
    """The rate of one caller is another test's matter."""
    ticking.seconds += 600


def test_every_route_says_its_role(whole):
    roles = {role for _, _, role in routes_of(whole)}
    assert roles == {"open", *ROLE_ORDER}
    described = {(method, path) for method, path, _ in routes_of(whole)}
    assert len(described) >= 60


def test_without_a_token_everything_is_shut(visitor, whole, ticking):
    walked = 0
    for method, path, _role in routes_of(whole):
        later(ticking)
        if (method, path) in OPEN or path.startswith("/v1/hooks/"):
            continue
        answer = visitor.request(method, path, json={} if method in ("POST", "PUT", "PATCH") else None)
        assert (answer.status_code, answer.json()["code"]) == (401, "REST-010"), (method, path)
        assert answer.headers["www-authenticate"] == "Bearer"
        walked += 1
    assert walked >= 58


@pytest.mark.parametrize(
    "path",
    ["/", "/docs", "/redoc", "/openapi.json", "/metrics", "/v1", "/v1/", "/v1/nothing", "//v1/health", "/v1/health/"],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "TRACE", "ODD"])
def test_paths_that_are_not_there_are_shut_too(visitor, path, method):
    assert visitor.request(method, path).status_code == 401


def test_routes_that_stand_outside_of_the_document(whole):
    """Every route of the application is in the document, and so walked above."""
    paths = set(whole.openapi()["paths"])
    inside = {route.path for route in whole.routes if isinstance(route, Route)}
    assert inside <= paths


def test_what_is_open(visitor):
    assert visitor.get("/v1/health").json() == {"status": "ok"}
    assert visitor.get("/v1/ready").json() == {"status": "ok"}
    assert visitor.post("/v1/health").status_code == 401


def test_each_role_may_do_what_it_may_and_no_more(visitor, whole, metadata, ticking):
    tokens = tokens_of(metadata)
    tried = 0
    for method, path, needed in routes_of(whole):
        if needed == "open" or path == "/v1/events":
            continue
        for role in ROLE_ORDER:
            later(ticking)
            body = {} if method in ("POST", "PUT", "PATCH") else None
            answer = visitor.request(method, path, json=body, headers=bearer(tokens[role]))
            is_allowed = ROLE_ORDER.index(role) >= ROLE_ORDER.index(needed)
            assert (answer.status_code == 403) != is_allowed, (method, path, role, answer.text)
            assert answer.status_code != 401
            tried += 1
    assert tried >= 280


def test_code_needs_an_author(visitor, metadata):
    tokens = tokens_of(metadata)
    body = {"dag_definition": {"kind": "code", "entry": "orders.py:job"}}
    refused = visitor.post("/v1/jobs", json=body, headers=bearer(tokens["editor"]))
    assert (refused.status_code, refused.json()["code"]) == (403, "REST-011")
    assert visitor.post("/v1/jobs", json=body, headers=bearer(tokens["author"])).status_code == 201
    assert visitor.delete("/v1/jobs/job", headers=bearer(tokens["editor"])).status_code == 403
    assert visitor.delete("/v1/jobs/job", headers=bearer(tokens["author"])).status_code == 204


@pytest.mark.parametrize("path", ["/v1/health", "/v1/jobs", "/v1/nothing", "/elsewhere"])
def test_every_answer_has_its_headers(visitor, path):
    headers = visitor.get(path).headers
    assert headers["content-security-policy"] == CONTENT_POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"
    assert headers["cache-control"] == "no-store"
    assert re.fullmatch("[0-9a-f]{16}", headers["x-request-id"])
    assert "server" not in headers
    assert "access-control-allow-origin" not in headers


def test_by_tls_browsers_are_told_to_stay_with_it(metadata):
    with TestClient(create_app(service_of(metadata, has_tls=True))) as client:
        assert "max-age" in client.get("/v1/health").headers["strict-transport-security"]


class TestTokens:
    def test_only_the_hash_is_stored(self, metadata, tokens):
        with acting(metadata) as act:
            rows = list(act.connection.execute(select(api_token)))
        assert {row.hash for row in rows} == {hash_of(text) for text in tokens.values()}
        assert all(re.fullmatch(r"ms_[0-9a-f]{16}_[\w-]{43}", text) for text in tokens.values())
        assert not any(text.split("_", 2)[2] in str(tuple(row)) for row in rows for text in tokens.values())

    def test_a_revoked_token_is_dead(self, admin, tokens):
        made = admin.post("/v1/tokens", json={"name": "ci", "role": "viewer"}).json()
        assert admin.get("/v1/info", headers=bearer(made["token"])).json()["you"] == "ci"
        assert admin.delete(f"/v1/tokens/{made['id']}").json()["revoked"] is not None
        assert admin.get("/v1/info", headers=bearer(made["token"])).status_code == 401
        listed = admin.get("/v1/tokens").json()["items"]
        assert all("token" not in each and "hash" not in each for each in listed)

    def test_an_expired_token_is_dead(self, admin, clock):
        made = admin.post("/v1/tokens", json={"name": "ci", "role": "viewer", "days": 1}).json()
        clock.forward(86_399)
        assert admin.get("/v1/info", headers=bearer(made["token"])).status_code == 200
        clock.forward(1)
        assert admin.get("/v1/info", headers=bearer(made["token"])).status_code == 401

    def test_use_is_noted(self, admin, clock):
        clock.forward(3600)
        admin.get("/v1/info")
        (mine,) = [each for each in admin.get("/v1/tokens").json()["items"] if each["name"] == "admin"]
        assert mine["last_used"] == "2026-03-01T13:00:00Z"

    @pytest.mark.parametrize(
        "text", ["", "x", "ms_", "ms_0_0", "Bearer", "ms_0011223344556677_" + "a" * 43, "ms_é", "ms_\x7f" * 50]
    )
    def test_other_tokens(self, anyone, tokens, text):
        assert anyone.get("/v1/info", headers={"Authorization": f"Bearer {text}".encode()}).status_code == 401

    def test_a_token_with_another_secret(self, anyone, tokens):
        text = tokens["admin"][:-1] + ("a" if tokens["admin"][-1] != "a" else "b")
        assert anyone.get("/v1/info", headers=bearer(text)).status_code == 401
        assert anyone.get(f"/v1/info?token={tokens['admin']}").status_code == 401
        assert anyone.get("/v1/info", headers={"Authorization": f"Basic {tokens['admin']}"}).status_code == 401

    @pytest.mark.parametrize("days", [0, 366, -1, 10**9])
    def test_no_longer_than_a_year(self, admin, days):
        assert admin.post("/v1/tokens", json={"name": "x", "role": "viewer", "days": days}).status_code == 422

    def test_one_name_for_one_token(self, admin):
        body = {"name": "ci", "role": "viewer"}
        first = admin.post("/v1/tokens", json=body).json()
        assert admin.post("/v1/tokens", json=body).json()["code"] == "REST-025"
        admin.delete(f"/v1/tokens/{first['id']}")
        assert admin.post("/v1/tokens", json=body).status_code == 201

    def test_the_first_one_goes_into_a_file(self, metadata, tmp_path, visitor):
        path = tmp_path / "deep" / "admin.token"
        with acting(metadata) as act:
            assert first_admin_token(act, path)
            assert not first_admin_token(act, tmp_path / "again")
        assert path.stat().st_mode & 0o777 == 0o600
        assert visitor.get("/v1/info", headers=bearer(path.read_text().strip())).json()["role"] == "admin"

    def test_the_first_one_of_another_database_takes_nobodys_place(self, metadata, tmp_path):
        path = tmp_path / "admin.token"
        path.write_text("of a database that is away\n")
        (tmp_path / "admin.token.1").write_text("older")
        with acting(metadata) as act:
            assert first_admin_token(act, path)
        assert path.read_text().startswith("ms_")
        assert (tmp_path / "admin.token.2").read_text() == "of a database that is away\n"
        assert (tmp_path / "admin.token.1").read_text() == "older"


class TestSessions:
    @pytest.fixture
    def page(self, anyone, tokens):
        """A browser that is logged in as an operator."""
        answer = anyone.post("/v1/session", json={"token": tokens["operator"]})
        assert answer.status_code == 204
        assert answer.content == b""
        return anyone

    def test_the_cookie(self, anyone, tokens, metadata):
        cookie = anyone.post("/v1/session", json={"token": tokens["viewer"]}).headers["set-cookie"]
        assert cookie.startswith("millstream=")
        assert {"HttpOnly", "SameSite=strict", "Path=/"} <= set(cookie.split("; "))
        with acting(metadata) as act:
            (row,) = act.connection.execute(select(session))
        assert row.hash == hash_of(cookie.split(";")[0].removeprefix("millstream="))

    def test_the_cookie_by_tls(self, metadata, tokens):
        with TestClient(create_app(service_of(metadata, has_tls=True)), base_url="https://host") as client:
            cookie = client.post("/v1/session", json={"token": tokens["viewer"]}).headers["set-cookie"]
            assert cookie.startswith("__Host-millstream=")
            assert "Secure" in cookie
            assert "Domain" not in cookie
            assert client.get("/v1/session").json()["name"] == "viewer"

    def test_who(self, page):
        told = page.get("/v1/session").json()
        assert (told["name"], told["role"]) == ("operator", "operator")
        assert len(told["csrf"]) == 43

    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"Sec-Fetch-Site": "same-origin"},
            {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": "other"},
            {"Sec-Fetch-Site": "cross-site", "X-CSRF-Token": "right"},
            {"Sec-Fetch-Site": "same-site", "X-CSRF-Token": "right"},
            {"X-CSRF-Token": "right"},
            {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": "right", "Origin": "http://evil.example"},
            {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": "right", "Origin": "null"},
        ],
    )
    def test_forged_changes(self, page, headers):
        csrf = page.get("/v1/session").json()["csrf"]
        sent = {name: csrf if value == "right" else value for name, value in headers.items()}
        answer = page.patch("/v1/jobs/orders", json={"enabled": False}, headers=sent)
        assert (answer.status_code, answer.json()["code"]) == (403, "REST-012")

    def test_changes_of_our_own_page(self, page):
        csrf = page.get("/v1/session").json()["csrf"]
        right = {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": csrf, "Origin": "http://testserver"}
        assert page.patch("/v1/jobs/orders", json={"enabled": False}, headers=right).status_code == 404
        assert page.delete("/v1/session", headers=right).status_code == 204
        assert page.get("/v1/session").status_code == 401

    @pytest.mark.parametrize("headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}])
    def test_streams_and_reading_for_others(self, page, headers):
        assert page.get("/v1/events", headers=headers).status_code == 403
        assert page.get("/v1/jobs", headers=headers).status_code == 403

    def test_another_site_cannot_log_in(self, anyone, tokens):
        body = {"token": tokens["viewer"]}
        assert anyone.post("/v1/session", json=body, headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403

    def test_half_a_day(self, page, clock):
        clock.forward(12 * 3600 - 1)
        assert page.get("/v1/session").status_code == 200
        clock.forward(1)
        assert page.get("/v1/session").status_code == 401

    def test_it_ends_with_its_token(self, page, tokens, anyone):
        own = page.cookies
        identifier = tokens["operator"].split("_")[1]
        gone = page.delete(f"/v1/tokens/{identifier}", headers=bearer(tokens["admin"]))
        assert gone.status_code == 200
        assert page.get("/v1/session").status_code == 401
        assert own

    def test_wrong_tokens_and_five_tries(self, anyone, tokens, ticking):
        for _ in range(5):
            answer = anyone.post("/v1/session", json={"token": "ms_wrong"})
            assert (answer.status_code, answer.json()["code"]) == (401, "REST-013")
        answer = anyone.post("/v1/session", json={"token": tokens["admin"]})
        assert (answer.status_code, answer.json()["code"]) == (429, "REST-015")
        assert int(answer.headers["retry-after"]) == 12
        ticking.seconds += 12
        assert anyone.post("/v1/session", json={"token": tokens["admin"]}).status_code == 204


def test_the_rate_of_one_caller(admin, tokens, ticking):
    codes = [admin.get("/v1/health").status_code for _ in range(61)]
    assert codes == [200] * 60 + [429]
    codes = [admin.get("/v1/info").status_code for _ in range(61)]
    assert codes == [200] * 60 + [429]
    refused = admin.get("/v1/info")
    assert (refused.json()["code"], refused.headers["retry-after"]) == ("REST-014", "1")
    assert admin.get("/v1/info", headers=bearer(tokens["viewer"])).status_code == 200
    ticking.seconds += 0.1
    assert [admin.get("/v1/info").status_code for _ in range(3)] == [200, 200, 429]


def test_whoever_guesses_is_slowed_down_too(anyone, tokens):
    codes = [anyone.get("/v1/info", headers=bearer("ms_wrong")).status_code for _ in range(62)]
    assert codes == [401] * 60 + [429] * 2


class TestAudit:
    def audited(self, admin):
        return [
            (each["actor"], each["action"], each["target"], each["result"])
            for each in admin.get("/v1/audit").json()["items"]
        ]

    def test_what_was_done(self, admin):
        made = admin.post("/v1/jobs", json=job_body())
        admin.patch("/v1/jobs/orders", json={"enabled": False})
        assert ("admin", "job.submit", "orders", "done") in self.audited(admin)
        (patched, *_) = admin.get("/v1/audit?target=orders").json()["items"]
        assert (patched["before"]["enabled"], patched["after"]["enabled"]) == (True, False)
        assert patched["request_id"] != made.headers["x-request-id"]

    def test_what_was_refused(self, admin, tokens):
        admin.post("/v1/jobs", json=job_body())
        admin.post("/v1/jobs", json=job_body())
        admin.post("/v1/jobs", json=job_body("other"), headers=bearer(tokens["viewer"]))
        admin.get("/v1/audit", headers=bearer(tokens["viewer"]))
        admin.get("/v1/jobs", headers=bearer("ms_wrong"))
        admin.get("/v1/jobs/unknown")
        told = self.audited(admin)
        assert ("admin", "POST /jobs", "/v1/jobs", "refused") in told
        assert ("viewer", "POST /jobs", "/v1/jobs", "refused") in told
        assert ("viewer", "GET /audit", "/v1/audit", "refused") in told
        assert ("nobody", "GET", "/v1/jobs", "refused") in told
        assert len([each for each in told if each[3] == "refused"]) == 4

    def test_the_act_and_its_audit_stand_and_fall_together(self, admin, monkeypatch):
        def broken(*_, **__):
            msg = "no audit"
            raise RuntimeError(msg)

        monkeypatch.setattr("millstream.server.asking.write_audit", broken)
        assert admin.post("/v1/jobs", json=job_body()).status_code == 500
        monkeypatch.undo()
        assert admin.get("/v1/jobs/orders").status_code == 404

    def test_no_token_stands_in_it(self, admin, tokens, metadata):
        admin.post("/v1/tokens", json={"name": "ci", "role": "viewer"})
        admin.post("/v1/session", json={"token": tokens["viewer"]})
        told = admin.get("/v1/audit").text
        assert not any(text.rpartition("_")[2] in told for text in tokens.values())
