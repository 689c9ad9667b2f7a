"""Behind a proxy that has TLS: browsers' cookies are safe, and what strangers say of themselves is not believed."""

import pytest
from starlette.testclient import TestClient
from tests.unit.server.world import bearer, service_of, tokens_of
from typer.testing import CliRunner

from millstream.cli.main import app as command
from millstream.server.access.proxies import asker_of, networks_of
from millstream.server.app import create_app
from millstream.server.limits import Limits

PROXY = networks_of(["10.0.0.0/24", "fd00::7"])
STRANGER, MIDDLE = "203.0.113.9", "10.0.0.7"


def asked(peer, *told):
    headers = [(b"x-forwarded-for", each.encode("latin-1")) for each in told]
    return {"type": "http", "client": (peer, 1), "headers": headers}


@pytest.mark.parametrize(
    ("peer", "told", "asker"),
    [
        (MIDDLE, [STRANGER], STRANGER),
        (MIDDLE, [f"198.51.100.1, {STRANGER}"], STRANGER),
        (MIDDLE, ["198.51.100.1", STRANGER], STRANGER),
        (MIDDLE, [f"{STRANGER}, 10.0.0.8"], STRANGER),
        ("fd00::7", ["2001:db8::1"], "2001:db8::1"),
        (f"::ffff:{MIDDLE}", [STRANGER], STRANGER),
        (MIDDLE, [], MIDDLE),
        (MIDDLE, ["", " , "], MIDDLE),
        (MIDDLE, ["unknown"], MIDDLE),
        (MIDDLE, [f"{STRANGER}, _hidden"], MIDDLE),
        (MIDDLE, [f"{STRANGER}:80"], MIDDLE),
        (MIDDLE, ["\xe9\x00"], MIDDLE),
        (STRANGER, ["127.0.0.1"], STRANGER),
        (STRANGER, [MIDDLE, "198.51.100.1"], STRANGER),
        ("10.0.1.7", [STRANGER], "10.0.1.7"),
        ("testclient", [STRANGER], "testclient"),
    ],
)
def test_who_asks(peer, told, asker):
    assert asker_of(asked(peer, *told), PROXY) == asker


def test_a_long_list_is_not_read_to_its_beginning():
    assert asker_of(asked(MIDDLE, ",".join([MIDDLE] * 100_000)), PROXY) == MIDDLE


def test_without_proxies_nothing_is_believed():
    assert asker_of(asked("127.0.0.1", STRANGER), ()) == "127.0.0.1"


@pytest.fixture
def clients(metadata, ticking):
    """The same application as two peers reach it: the proxy, and somebody else."""
    limits = Limits(logins_per_minute=2, burst=3)
    made = create_app(service_of(metadata, monotonic=ticking, has_tls=True, proxies=PROXY, limits=limits))
    with TestClient(made, client=(MIDDLE, 1), base_url="https://host") as proxy:
        yield proxy, TestClient(made, client=(STRANGER, 1), base_url="https://host")


def wrong_login(client, **headers):
    return client.post("/v1/session", json={"token": "ms_wrong"}, headers=headers).status_code


def test_rates_are_those_of_the_asker(clients):
    proxy, _ = clients
    first = [wrong_login(proxy, **{"X-Forwarded-For": STRANGER}) for _ in range(3)]
    assert first == [401, 401, 429]
    assert wrong_login(proxy, **{"X-Forwarded-For": "198.51.100.1"}) == 401, "another is not kept out by them"


def test_a_stranger_cannot_take_another_address(clients):
    _, stranger = clients
    codes = [wrong_login(stranger, **{"X-Forwarded-For": f"198.51.100.{n}", "X-Real-IP": "1.1.1.1"}) for n in range(3)]
    assert codes == [401, 401, 429]


def test_cookies_and_headers_behind_it(clients, metadata):
    proxy, _ = clients
    token = tokens_of(metadata)["viewer"]
    answer = proxy.post("/v1/session", json={"token": token})
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith("__Host-millstream=")
    assert {"Secure", "HttpOnly", "Path=/", "SameSite=strict"} <= set(cookie.split("; "))
    assert "max-age" in answer.headers["strict-transport-security"]
    assert proxy.get("/v1/session").json()["name"] == "viewer"


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Proto": "https"},
        {"Forwarded": "proto=https;host=evil.example"},
        {"X-Forwarded-Ssl": "on", "X-Forwarded-Host": "evil.example"},
    ],
)
def test_nobody_says_by_a_header_that_there_is_tls(anyone, tokens, headers):
    answer = anyone.post("/v1/session", json={"token": tokens["viewer"]}, headers=headers)
    assert answer.headers["set-cookie"].startswith("millstream=")
    assert "Secure" not in answer.headers["set-cookie"]
    assert "strict-transport-security" not in answer.headers


def test_the_origin_is_compared_with_the_host_that_was_asked(clients, metadata):
    proxy, _ = clients
    proxy.post("/v1/session", json={"token": tokens_of(metadata)["operator"]})
    csrf = proxy.get("/v1/session").json()["csrf"]
    forged = {"Sec-Fetch-Site": "same-origin", "X-CSRF-Token": csrf, "Origin": "https://evil.example"}
    answer = proxy.patch("/v1/jobs/x", json={}, headers={**forged, "X-Forwarded-Host": "evil.example"})
    assert (answer.status_code, answer.json()["code"]) == (403, "REST-012")


def test_no_answer_repeats_where_it_was_asked(admin):
    """No address is made of `Host`: who sends another one finds it nowhere."""
    answer = admin.get("/v1/info", headers={"Host": "evil.example", "X-Forwarded-Host": "evil.example"})
    assert "evil.example" not in answer.text + str(answer.headers)
    assert admin.get("/v1/info", headers=bearer("x")).status_code == 401


@pytest.mark.parametrize("wrong", ["everywhere", "10.0.0.1/24", "10.0.0.1:80", ""])
def test_the_command_takes_addresses_only(wrong, tmp_path):
    done = CliRunner().invoke(command, ["server", "start", "--data", str(tmp_path), "--behind-tls-proxy", wrong])
    assert (done.exit_code != 0, "CLI-021" in done.stderr) == (True, True), done.stderr


def test_beyond_this_machine_tls_is_somewhere(tmp_path):
    done = CliRunner().invoke(command, ["server", "start", "--data", str(tmp_path), "--host", "0.0.0.0"])
    assert "CLI-013" in done.stderr
