"""What only a store in a bucket promises: lost replies, restarts and services without conditions; against a real server."""

import contextlib
import http.server
import threading

import pytest
from tests.servers.proxy import Proxy
from tests.servers.s3 import s3_server_running, shared_s3_server
from tests.servers.stores import empty_store_url, use_s3

from millstream.checkpoint.stores.open import open_store
from millstream.checkpoint.stores.s3 import S3Store
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidPlan


@pytest.fixture
def url(tmp_path, monkeypatch):
    return empty_store_url("s3", tmp_path, monkeypatch)


@pytest.fixture
def proxied(url, monkeypatch):
    proxy = Proxy(shared_s3_server().port)
    use_s3(shared_s3_server(), monkeypatch, AWS_ENDPOINT_URL=f"http://127.0.0.1:{proxy.port}")
    yield open_store(url), proxy
    proxy.close()


@pytest.mark.s3
@pytest.mark.parametrize("lose", ["lose_reply_to", "hold"])
def test_a_write_without_a_reply_happens_once(proxied, lose):
    store, proxy = proxied
    store.create("m/0", b"zero")
    for word, write in (
        (b"/m/1 HTTP", lambda: store.create("m/1", b"one")),
        (b"if-none-match", lambda: not store.create("m/1", b"one")),
        (b"if-match", lambda: store.swap("m/1", b"one", b"two")),
        (b"delete HTTP", lambda: store.delete("m/1") is None),
    ):
        getattr(proxy, lose)(word)
        assert write()
        assert proxy.lost.is_set()
    assert store.names("") == ["m/0"]


@pytest.mark.s3
def test_a_put_that_arrives_late_changes_nothing(proxied):
    store, proxy = proxied
    store.create("m/1", b"one")
    proxy.hold(b"if-match")
    assert store.swap("m/1", b"one", b"two")
    assert store.swap("m/1", b"two", b"three")
    proxy.release()
    assert store.read("m/1") == b"three"


@pytest.mark.s3
def test_a_swap_that_lost_its_reply_and_its_turn_is_an_error(proxied, url, monkeypatch):
    store, proxy = proxied
    store.create("lease", b"one")
    use_s3(shared_s3_server(), monkeypatch)
    other, look = open_store(url), store._look

    def late_look(name):
        other.swap(name, b"two", b"three")
        return look(name)

    monkeypatch.setattr(store, "_look", late_look)
    proxy.lose_reply_to(b"if-match")
    with pytest.raises(ExternalFailure, match="whether 'lease' was replaced is unknown"):
        store.swap("lease", b"one", b"two")
    assert other.read("lease") == b"three"


@pytest.mark.s3
def test_objects_survive_a_kill_of_the_server(monkeypatch):
    with s3_server_running() as server:
        use_s3(server, monkeypatch)
        store = open_store("s3://checkpoints/x")
        for number in range(5):
            assert store.create(f"m/{number}", str(number).encode())
        server.kill()
        server.start()
        assert store.names("") == [f"m/{number}" for number in range(5)]
        assert store.swap("m/4", b"4", b"5")
        assert [store.read(f"m/{number}") for number in range(5)] == [b"0", b"1", b"2", b"3", b"5"]


@pytest.mark.s3
def test_the_probe_of_the_store_is_no_object(url):
    store = open_store(url)
    store.create("m/1", b"one")
    assert store.names("") == ["m/1"]
    assert repr(store) == f"S3Store({url!r})"


@pytest.mark.s3
def test_prefixes_keep_checkpoints_apart(url):
    first, second = open_store(url), open_store(url + "er")
    first.create("m/1", b"one")
    assert second.read("m/1") is None
    assert second.names("") == []


@pytest.mark.s3
def test_refused_credentials_are_a_typed_error_that_shows_none(url, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2-secret")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "hunter2-key")
    store = open_store(url)
    for attempt in (
        lambda: store.create("m", b"x"),
        lambda: store.read("m"),
        lambda: store.names(""),
        lambda: store.delete("m"),
        lambda: store.swap("m", b"a", b"b"),
    ):
        with pytest.raises(ExternalFailure) as failure:
            attempt()
        assert failure.value.code == "CKPT-032"
        assert url in str(failure.value)
        assert "hunter2" not in str(failure.value)
        assert failure.value.__cause__ is None


class Careless(http.server.BaseHTTPRequestHandler):
    """A service that confirms every put, whatever its condition."""

    status = 200

    def do_PUT(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(self.status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self):
        self.send_error(404)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def service(monkeypatch, status):
    handler = type("Handler", (Careless,), {"status": status})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
        for name, value in {
            "ALLOW_HTTP": "true",
            "ACCESS_KEY_ID": "some-key",
            "SECRET_ACCESS_KEY": "some-secret",
        }.items():
            monkeypatch.setenv(f"AWS_{name}", value)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield
        server.shutdown()


@pytest.mark.parametrize("status", [200, 501])
def test_a_service_without_conditional_puts_is_refused(monkeypatch, status):
    with service(monkeypatch, status):
        store = S3Store("s3://bucket/x")
        with pytest.raises(CheckpointRefused, match="does not support conditional puts") as refusal:
            store.create("m/1", b"one")
        assert refusal.value.code == "CKPT-033"
        with pytest.raises(CheckpointRefused):
            store.swap("m/1", b"one", b"two")


@pytest.mark.parametrize(("status", "said"), [(500, "500"), (503, "503"), (409, "exists for writes and not for reads")])
def test_a_service_that_stays_broken_is_a_typed_error_within_bounds(monkeypatch, status, said):
    monkeypatch.setattr(S3Store, "patience", 0.3)
    with service(monkeypatch, status), pytest.raises(ExternalFailure, match=said):
        S3Store("s3://bucket/x").create("m/1", b"one")


def test_a_refusal_is_not_repeated(monkeypatch):
    monkeypatch.setattr(S3Store, "patience", 600)
    with service(monkeypatch, 400), pytest.raises(ExternalFailure, match="400"):
        S3Store("s3://bucket/x").create("m/1", b"one")


def test_plain_http_must_be_allowed(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    monkeypatch.delenv("AWS_ALLOW_HTTP", raising=False)
    with pytest.raises(InvalidPlan, match="AWS_ALLOW_HTTP") as refusal:
        S3Store("s3://bucket/x")
    assert refusal.value.code == "PLAN-034"
