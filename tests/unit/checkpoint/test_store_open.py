"""Urls of stores: which store they name, what is refused, what errors show of them."""

import pickle
import sqlite3
from pathlib import Path

import pytest

from millstream.checkpoint.stores.database import parse_url
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.open import open_for_reading, open_store
from millstream.checkpoint.stores.sqlite import open_sqlite
from millstream.errors import ExternalFailure, InvalidPlan


def test_paths_and_file_urls_are_directories(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in (
        tmp_path / "a b",
        str(tmp_path / "a b"),
        "a b",
        f"file://{tmp_path}/a%20b",
        f"file://localhost{tmp_path}/a b",
    ):
        store = open_store(url)
        assert isinstance(store, LocalStore)
        store.swap("m/1", store.read("m/1"), b"x")
    assert (tmp_path / "a b" / "m" / "1").read_bytes() == b"x"
    assert str(tmp_path) in repr(open_store(tmp_path))


@pytest.mark.parametrize(
    "url",
    ["ftp://host/x", "hdfs://host/x", "file://host/x", "file:///", "sqlite://", "sqlite:///", "sqlite:///:memory:",
     "sqlite://host/x.db", "sqlite:///x.db?store=", "s3:///prefix", "s3://key:secret@bucket/x", "postgresql://h/d?store="],
)  # fmt: skip
def test_urls_that_name_no_store_are_refused(url, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidPlan) as refusal:
        open_store(url)
    assert refusal.value.code == "PLAN-034"
    assert "secret" not in str(refusal.value)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_scheme_lists_the_known_ones():
    with pytest.raises(InvalidPlan, match=r"sqlite:///file\.db"):
        open_store("redis://user:secret@host/0")


def test_sqlite_urls_are_relative_or_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///sub/a%20b.db", f"sqlite:///{tmp_path}/sub/a b.db"):
        store = open_sqlite(url)
        store.create("m/1", b"x")
        assert store.names("") == ["m/1"]
        store.close()
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["a b.db"]


def test_stores_of_one_database_are_apart(tmp_path):
    first, second = (open_store(f"sqlite:///{tmp_path}/s.db?store={name}") for name in ("one", "two"))
    assert first.create("m/1", b"a")
    assert second.create("m/1", b"b")
    second.delete("m/1")
    assert (first.names(""), second.names("")) == (["m/1"], [])
    assert (first.read("m/1"), repr(second)) == (b"a", f"DatabaseStore('sqlite:///{tmp_path}/s.db?store=two')")


def test_sqlite_waits_for_its_disk(tmp_path):
    store = open_sqlite(f"sqlite:///{tmp_path}/s.db")
    assert store._session.query("PRAGMA journal_mode") == [("wal",)]
    assert store._session.query("PRAGMA synchronous") == [(2,)]
    assert store._session.query("PRAGMA busy_timeout") == [(30_000,)]


def test_a_file_that_is_no_database_is_a_typed_error(tmp_path):
    path = tmp_path / "s.db"
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ExternalFailure, match="not a database") as failure:
        open_store(f"sqlite:///{path}")
    assert failure.value.code == "CKPT-032"
    assert failure.value.__cause__ is None


def test_a_damaged_database_is_a_typed_error(tmp_path):
    url = f"sqlite:///{tmp_path}/s.db"
    store = open_store(url)
    with sqlite3.connect(tmp_path / "s.db") as direct:
        direct.execute("DROP TABLE millstream_objects")
    for attempt in (lambda: store.read("m"), lambda: store.create("m", b""), lambda: store.names("")):
        with pytest.raises(ExternalFailure, match="no such table"):
            attempt()


@pytest.mark.parametrize(
    ("url", "driver", "shown"),
    [
        ("postgresql://u:p%40ss@h:1/d", "postgresql://u:p%40ss@h:1/d", "postgresql://u@h:1/d?store=default"),
        ("postgresql://h1:1,h2:2/d?a=b+c&store=x%20y", "postgresql://h1:1,h2:2/d?a=b+c", "postgresql://h1:1,h2:2/d?store=x+y"),
        ("postgresql:///d?store=s&password=p%40ss", "postgresql:///d?password=p%40ss", "postgresql:///d?store=s"),
    ],
)  # fmt: skip
def test_urls_of_databases_are_taken_apart_without_their_password(url, driver, shown):
    parsed = parse_url(url)
    assert (parsed.driver, parsed.shown) == (driver, shown)
    assert "p%40ss" not in repr(parsed)
    failure = parsed.failure("refused p%40ss and p@ss" if "ss" in url else "refused")
    assert "ss" not in str(failure).replace("pass", "")
    assert str(pickle.loads(pickle.dumps(failure))) == str(failure)


def test_a_path_object_is_never_a_url(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    open_store(Path("s3:") / "bucket").create("m", b"x")
    assert (tmp_path / "s3:" / "bucket" / "m").exists()


@pytest.mark.parametrize(
    "url", ["postgresql//u:hunter2@h:1/d", "postgresql:/u:hunter2@h/d", "sqlite:/x.db", "S3//bucket"]
)
@pytest.mark.parametrize("open_it", [open_store, open_for_reading])
def test_a_slip_in_a_url_is_no_folder(url, open_it, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidPlan, match="PLAN-034") as refused:
        open_it(url)
    assert "hunter2" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []
