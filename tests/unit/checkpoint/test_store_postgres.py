"""What only a store in PostgreSQL promises: it outlives restarts of the server and lost replies, and shows no password."""

import threading
import time
from urllib.parse import urlsplit

import psycopg
import pytest
from tests.servers.postgres import PostgresServer
from tests.servers.proxy import Proxy
from tests.servers.stores import empty_store_url, shared_postgres

from millstream.checkpoint.stores.open import open_store
from millstream.errors import ExternalFailure


@pytest.fixture
def url(tmp_path, monkeypatch):
    return empty_store_url("postgres", tmp_path, monkeypatch)


@pytest.fixture
def store(url):
    store = open_store(url)
    yield store
    store.close()


@pytest.fixture
def proxied(url):
    """A store whose replies can get lost, and the proxy that loses them."""
    proxy = Proxy(shared_postgres().port)
    parts = urlsplit(url)
    store = open_store(parts._replace(netloc=f"{parts.username}@127.0.0.1:{proxy.port}").geturl())
    yield store, proxy
    store.close()
    proxy.close()


def end_connections():
    """Let the server end the store's connection, as a restart does."""
    shared_postgres().execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'millstream'"
    )


def test_a_connection_that_the_server_ended_is_opened_again(store):
    store.create("m/1", b"one")
    end_connections()
    assert store.read("m/1") == b"one"
    end_connections()
    assert store.create("m/2", b"two")
    end_connections()
    assert store.swap("m/2", b"two", b"three")
    end_connections()
    assert not store.create("m/2", b"two")
    end_connections()
    store.delete("m/2")
    end_connections()
    assert store.names("") == ["m/1"]


@pytest.mark.parametrize("lose", ["lose_reply_to", "hold"])
def test_a_write_without_a_reply_happens_once(proxied, lose):
    store, proxy = proxied
    for word, write in (
        (b"INSERT", lambda: store.create("m/1", b"one")),
        (b"UPDATE", lambda: store.swap("m/1", b"one", b"two")),
        (b"INSERT", lambda: not store.create("m/1", b"one")),
        (b"DELETE", lambda: store.delete("m/1") is None),
    ):
        getattr(proxy, lose)(word)
        assert write()
        assert proxy.lost.is_set()
    assert store.names("") == []


def test_a_write_that_arrives_late_changes_nothing(proxied):
    store, proxy = proxied
    proxy.hold(b"INSERT")
    assert store.create("m/1", b"one")
    proxy.release()
    assert store.read("m/1") == b"one"
    proxy.hold(b"UPDATE")
    assert store.swap("m/1", b"one", b"two")
    assert store.swap("m/1", b"two", b"three")
    proxy.release()
    assert store.read("m/1") == b"three"


def test_a_swap_that_lost_its_reply_and_its_turn_is_an_error(proxied, url):
    store, proxy = proxied
    store.create("lease", b"one")
    proxy.lose_reply_to(b"UPDATE")
    other, look = open_store(url), store._look

    def late_look(name):
        # The server does what it was told although nobody hears the reply; that may take a moment.
        until = time.monotonic() + 20
        while other.read(name) == b"one" and time.monotonic() < until:
            time.sleep(0.01)
        other.swap(name, b"two", b"three")
        return look(name)

    store._look = late_look
    with pytest.raises(ExternalFailure, match="unknown"):
        store.swap("lease", b"one", b"two")
    assert other.read("lease") == b"three"
    other.close()


def test_a_server_that_is_killed_and_comes_back_is_waited_for():
    server = PostgresServer().start()
    try:
        store = open_store(f"{server.url}?store=s")
        store.create("m/1", b"one")
        server.kill()
        starting = threading.Thread(target=server.launch)
        starting.start()
        assert store.swap("m/1", b"one", b"two")
        assert store.read("m/1") == b"two"
        starting.join()
        store.close()
    finally:
        server.stop()


def test_a_server_that_is_away_is_a_typed_error_without_the_password(monkeypatch):
    monkeypatch.setattr("millstream.checkpoint.stores.postgres.PATIENCE_SECONDS", 0.2)
    with pytest.raises(ExternalFailure, match="postgresql://me@127") as failure:
        open_store("postgresql://me:hunter2@127.0.0.1:1/d")
    assert failure.value.code == "CKPT-032"
    assert "hunter2" not in str(failure.value)
    assert failure.value.__cause__ is None


@pytest.mark.parametrize("change", ["?port=hunter2&password=hunter2", "?hunter2=1&password=hunter2"])
def test_no_error_of_the_driver_shows_a_password(change):
    with pytest.raises(ExternalFailure) as failure:
        open_store(f"postgresql://me@127.0.0.1/d{change}")
    assert "hunter2" not in str(failure.value)


def test_refusals_that_stay_are_not_waited_for(url, monkeypatch):
    monkeypatch.setattr("millstream.checkpoint.stores.postgres.PATIENCE_SECONDS", 600)
    with pytest.raises(ExternalFailure, match="does not exist"):
        open_store(urlsplit(url)._replace(path="/nowhere").geturl())
    with pytest.raises(ExternalFailure, match="does not exist"):
        open_store(url.replace("postgres@", "nobody:secret@"))


def test_a_lock_that_stays_taken_is_an_error(store):
    store.create("lease", b"one")
    store._session._open().execute("SET lock_timeout = '100ms'")
    with psycopg.connect(shared_postgres().url) as other:
        other.execute("SELECT 1 FROM millstream_objects WHERE name = 'lease' FOR UPDATE")
        with pytest.raises(ExternalFailure, match="lock timeout"):
            store.swap("lease", b"one", b"two")
    assert store.swap("lease", b"one", b"two")


def test_the_session_is_durable_and_bounded_whatever_the_server_defaults_to(store, url):
    server, role = shared_postgres(), "careless"
    server.execute(f"CREATE ROLE {role} LOGIN")
    server.execute(f"GRANT ALL ON millstream_objects TO {role}")
    server.execute(f"ALTER ROLE {role} SET synchronous_commit = off")
    server.execute(f"ALTER ROLE {role} SET default_transaction_isolation = serializable")
    careless = open_store(url.replace("postgres@", f"{role}@"))
    shown = {name: careless._session.query(f"SHOW {name}")[0][0] for name in (
        "synchronous_commit", "default_transaction_isolation", "lock_timeout", "statement_timeout",
    )}  # fmt: skip
    assert shown == {
        "synchronous_commit": "on",
        "default_transaction_isolation": "read committed",
        "lock_timeout": "10s",
        "statement_timeout": "30s",
    }
    assert careless.create("m/1", b"x")
    assert store.read("m/1") == b"x"
    careless.close()


def test_many_may_open_the_first_store_of_a_database_at_once():
    server = shared_postgres()
    server.execute("DROP TABLE IF EXISTS millstream_objects")
    start, opened = threading.Barrier(6), []

    def begin():
        start.wait()
        opened.append(open_store(f"{server.url}?store=race"))

    threads = [threading.Thread(target=begin) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [store.create("m/1", b"x") for store in opened].count(True) == 1
    for store in opened:
        store.close()
