"""The client against a server: what it sends, where it goes, and how much it takes."""

import gzip
import socket
import threading

import pytest
from tests.servers.http import Reply, serving

from millstream.connectors.http.asking import addresses, transport
from millstream.connectors.http.asking.addresses import allowed_hosts, refusal
from millstream.connectors.http.asking.auth import Credential
from millstream.connectors.http.asking.client import HttpClient, NoAnswer
from millstream.connectors.http.paging.page_request import PageRequest
from millstream.connectors.http.settings import ClientLimits
from millstream.errors import ExternalFailure, StepFailed

SECRETS = {"KEY": "k&y", "TOKEN": "t0ken"}
CREDENTIAL = Credential(headers=(("Authorization", "Bearer t0ken"),), query=(("key", "q"),), cookies=(("sid", "c"),))


@pytest.fixture
def other():
    with serving(lambda asked: {"other": asked.path}) as running:
        yield running


@pytest.fixture
def client_for():
    opened = []

    def build(*urls, private=True, hosts=(), step=5.0, whole=5.0, most=1 << 20):
        client = HttpClient(allowed_hosts(urls, hosts, private=private), ClientLimits(step, whole, most))
        opened.append(client)
        return client

    yield build
    for client in opened:
        client.close()


def send(client, request, credential=None):
    return client.send(request, SECRETS.__getitem__, credential)


def test_a_request_is_sent_with_its_secrets(api, client_for):
    request = PageRequest(
        "POST",
        f"{api.url}/a/${{secret:KEY}}?x=1",
        query=(("q", "ä b"), ("k", "${secret:KEY}")),
        headers=(("X-Key", "${secret:TOKEN}"),),
        json={"n": 1, "secret": "${secret:TOKEN}"},
    )
    answer = send(client_for(api.url), request, CREDENTIAL)
    (asked,) = api.asked
    assert (answer.status, answer.body) == (200, b'{"path": "/a/k&y"}')
    assert asked.query == {"x": "1", "q": "ä b", "k": "k&y", "key": "q"}
    assert asked.json == {"n": 1, "secret": "t0ken"}
    assert {
        name: asked.headers.get(name) for name in ("x-key", "authorization", "cookie", "content-type", "user-agent")
    } == {
        "x-key": "t0ken",
        "authorization": "Bearer t0ken",
        "cookie": "sid=c",
        "content-type": "application/json",
        "user-agent": "millstream",
    }


def test_a_form_is_sent(api, client_for):
    send(client_for(api.url), PageRequest("POST", f"{api.url}/", form=(("a", "1 2"), ("b", "${secret:KEY}"))))
    assert api.asked[0].form == {"a": "1 2", "b": "k&y"}


def test_connections_are_used_again(api, client_for):
    client = client_for(api.url)
    assert [send(client, PageRequest("GET", f"{api.url}/{number}")).status for number in range(3)] == [200] * 3
    assert len(client._pool.connections) == 1


def test_cookies_that_a_server_sets_do_not_stay(api, client_for):
    api.answer = lambda asked: Reply(b"", headers=(("Set-Cookie", "a=1"), ("Set-Cookie", "b=2")))
    client = client_for(api.url)
    assert send(client, PageRequest("GET", f"{api.url}/")).headers["set-cookie"] == "a=1\nb=2"
    send(client, PageRequest("GET", f"{api.url}/"))
    assert "cookie" not in api.asked[1].headers


# Bodies


@pytest.mark.parametrize("encoded", [True, False])
def test_packed_bodies_are_unpacked(api, client_for, encoded):
    headers = (("Content-Encoding", "gzip"),) if encoded else (("Content-Type", "application/gzip"),)
    api.answer = lambda asked: Reply(gzip.compress(b'{"a": 1}'), headers=headers)
    assert send(client_for(api.url), PageRequest("GET", f"{api.url}/")).body == b'{"a": 1}'


@pytest.mark.parametrize("packed", [True, False])
def test_an_endless_body_is_not_read(api, client_for, packed):
    body = gzip.compress(bytes(5 << 20)) if packed else bytes(5 << 20)
    api.answer = lambda asked: Reply(body)
    with pytest.raises(ExternalFailure) as refused:
        send(client_for(api.url), PageRequest("GET", f"{api.url}/"))
    assert refused.value.code == "HTTP-013"


def test_a_broken_package_is_no_answer_to_be_used(api, client_for):
    api.answer = lambda asked: Reply(gzip.compress(b"x" * 1000)[:-9])
    with pytest.raises(ExternalFailure) as refused:
        send(client_for(api.url), PageRequest("GET", f"{api.url}/"))
    assert refused.value.code == "HTTP-012"


def test_a_body_that_is_cut_off_is_no_answer(api, client_for):
    api.answer = lambda asked: Reply(bytes(1000), cut=10)
    with pytest.raises(NoAnswer):
        send(client_for(api.url), PageRequest("GET", f"{api.url}/"))


def test_a_server_that_does_not_answer_is_given_up(api, client_for):
    held = threading.Event()
    api.answer = lambda asked: Reply(b"", held=held)
    with pytest.raises(NoAnswer, match="ReadTimeout"):
        send(client_for(api.url, step=0.1), PageRequest("GET", f"{api.url}/"))
    held.set()


def test_an_answer_that_takes_for_ever_is_given_up(api):
    ticks = iter([0.0, 100.0])
    limits = ClientLimits(5.0, 5.0, 1 << 20)
    client = HttpClient(allowed_hosts([api.url], [], private=True), limits, clock=lambda: next(ticks))
    with pytest.raises(NoAnswer, match="not complete after 5 s"):
        send(client, PageRequest("GET", f"{api.url}/"))
    client.close()


def test_a_server_that_is_away(client_for):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unheard.getsockname()[1]}"
        with pytest.raises(NoAnswer, match="ConnectError from 127"):
            send(client_for(url), PageRequest("GET", url))


def test_a_name_that_nobody_knows(client_for):
    url = "http://no-such-host.invalid/"
    with pytest.raises(NoAnswer, match="no address is known for 'no-such-host"):
        send(client_for(url), PageRequest("GET", url))


def test_cutting_ends_what_is_under_way(api, client_for):
    held = threading.Event()
    api.answer = lambda asked: Reply(b"", held=held)
    client = client_for(api.url, step=60.0)
    ended = []

    def ask():
        try:
            send(client, PageRequest("GET", f"{api.url}/"))
        except NoAnswer:
            ended.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    while not api.asked:
        threading.Event().wait(0.005)
    client.cut()
    thread.join(20)
    held.set()
    assert ended == [True]


# Where it goes


def test_redirects_are_followed(api, client_for):
    api.answer = lambda asked: (
        Reply(b"", 302, (("Location", "/there?a=1"),)) if asked.path == "/here" else {"done": True}
    )
    request = PageRequest("GET", f"{api.url}/here", query=(("a", "0"),))
    assert send(client_for(api.url), request, CREDENTIAL).body == b'{"done": true}'
    assert api.asked[1].query == {"a": "1", "key": "q"}
    assert api.asked[1].headers["authorization"] == "Bearer t0ken"


@pytest.mark.parametrize(("status", "method"), [(301, "GET"), (302, "GET"), (303, "GET"), (307, "POST"), (308, "POST")])
def test_what_a_redirect_makes_of_a_post(api, client_for, status, method):
    api.answer = lambda asked: Reply(b"", status, (("Location", "/there"),)) if asked.path == "/here" else {}
    send(client_for(api.url), PageRequest("POST", f"{api.url}/here", json={"a": 1}))
    assert (api.asked[1].method, api.asked[1].body) == (method, b'{"a":1}' if method == "POST" else b"")


def test_credentials_do_not_go_to_another_host(api, other, client_for):
    api.answer = lambda asked: Reply(b"", 307, (("Location", f"{other.url}/there"),))
    headers = (("X-Key", "${secret:TOKEN}"), ("Accept", "text/csv"))
    send(client_for(api.url, other.url), PageRequest("GET", f"{api.url}/here", headers=headers), CREDENTIAL)
    (asked,) = other.asked
    assert asked.query == {}
    assert not {"authorization", "cookie", "x-key"} & asked.headers.keys()
    assert asked.headers["accept"] == "text/csv"


def test_a_redirect_to_a_host_that_nobody_named_is_refused(api, other, client_for):
    api.answer = lambda asked: Reply(b"", 302, (("Location", f"{other.url}/there"),))
    with pytest.raises(StepFailed) as refused:
        send(client_for(api.url), PageRequest("GET", f"{api.url}/here"))
    assert refused.value.code == "HTTP-031"
    assert other.asked == []


def test_endless_redirects_are_no_answer(api, client_for):
    api.answer = lambda asked: Reply(b"", 302, (("Location", "/here"),))
    with pytest.raises(NoAnswer, match="more than 5 redirects"):
        send(client_for(api.url), PageRequest("GET", f"{api.url}/here"))
    assert len(api.asked) == 6


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "[::ffff:127.0.0.1]"]
)
def test_this_machine_is_not_asked_however_it_is_written(api, client_for, host):
    url = f"http://{host}:{api.port}/"
    with pytest.raises(StepFailed) as refused:
        send(client_for(url, private=False), PageRequest("GET", url))
    assert refused.value.code == ("HTTP-031" if host == "0177.0.0.1" else "HTTP-030")
    assert api.asked == []


def test_a_redirect_into_a_private_network_is_refused(api, client_for, monkeypatch):
    """A name that is allowed leads inside; the server of the test stands for the public internet."""
    known = {"public.example.com": ["127.0.0.1"], "inside.example.com": ["93.184.216.34", "10.0.0.7"]}
    monkeypatch.setattr(transport, "_looked_up", lambda host, port: known[host])
    monkeypatch.setattr(addresses, "refusal", lambda address: None if address == "127.0.0.1" else refusal(address))
    api.answer = lambda asked: Reply(b"", 302, (("Location", f"http://inside.example.com:{api.port}/"),))
    url = f"http://public.example.com:{api.port}/"
    client = client_for(url, private=False, hosts=[f"inside.example.com:{api.port}"])
    with pytest.raises(StepFailed) as refused:
        send(client, PageRequest("GET", url))
    assert refused.value.code == "HTTP-030"
    assert refused.value.found == "10.0.0.7: private"
    assert len(api.asked) == 1


def test_no_error_text_holds_a_secret(api, client_for):
    request = PageRequest("GET", f"{api.url}/${{secret:TOKEN}}", headers=(("X-Key", "${secret:BROKEN}"),))
    secrets = {"TOKEN": "t0ken", "BROKEN": "line\nbreak"}
    with pytest.raises(StepFailed) as refused:
        client_for(api.url).send(request, secrets.__getitem__)
    assert refused.value.code == "HTTP-018"
    assert "'X-Key'" in refused.value.found
    assert "t0ken" not in str(refused.value)
    assert "break" not in str(refused.value)
    assert api.asked == []
