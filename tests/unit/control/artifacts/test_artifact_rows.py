"""Rows of artifacts: uploaded once, needed by versions of jobs, collected when none needs them."""

import datetime as dt
import os
import uuid

import psycopg
import pytest
from crafted_archives import GOOD, plain
from sqlalchemy import insert, select, update

from millstream.control.artifacts.collect import Collected, collect
from millstream.control.artifacts.folders import CodeFolders
from millstream.control.artifacts.rows import delete_artifact, keep_artifact, listed_artifacts, ready_artifact
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.migrate import upgrade
from millstream.control.metadata.tables.jobs import artifact, job_definition, job_version
from millstream.control.refusals import StateConflict, UnknownName

NOW = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
OTHER = plain(other="x = 1\n")


def new_database(server):
    name = f"artifacts_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.removesuffix("/postgres") + f"/{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def metadata(request, tmp_path):
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/metadata.db" if is_sqlite else new_database(request.getfixturevalue("postgres"))
    opened = Metadata(url)
    upgrade(opened)
    yield opened
    opened.close()


@pytest.fixture
def store(tmp_path):
    return ArtifactStore(tmp_path / "artifacts")


def keep(metadata, store, content, *, name="code.zip", now=NOW, actor="ada"):
    with store.receive(name) as upload:
        upload.write(content)
        upload.finish()
        with metadata.begin() as connection:
            row, is_new = keep_artifact(connection, store, upload, now=now, actor=actor)
    os.utime(store.root / f"{row.sha256}.zip", (now.timestamp(), now.timestamp()))
    return row, is_new


def add_job(metadata, number, *versions, deleted=None):
    common = {"dag_definition": {}, "settings": {}, "fingerprint": "", "create_time": NOW}
    with metadata.begin() as connection:
        job = {"id": number, "job_name": f"job_{number}", "job_type": "STREAMING", "version": len(versions)}
        more = {"update_time": NOW, "artifact_sha256": versions[-1], "deleted_time": deleted}
        connection.execute(insert(job_definition).values(**job, **common, **more))
        for version, sha256 in enumerate(versions, 1):
            row = {"job_id": number, "version": version, "artifact_sha256": sha256, "created_by": "ada"}
            connection.execute(insert(job_version).values(**row, **common))


def test_an_artifact_is_kept_once(metadata, store):
    first, is_new = keep(metadata, store, GOOD)
    assert is_new
    assert (first.name, first.size, first.kind, first.created_by) == ("code.zip", len(GOOD), "zip", "ada")
    again, is_new = keep(metadata, store, GOOD, name="renamed.zip", now=NOW + DAY, actor="bob")
    assert not is_new
    assert again == first._replace(create_time=NOW + DAY)
    other, _ = keep(metadata, store, OTHER)
    with metadata.begin() as connection:
        assert listed_artifacts(connection) == [again, other]
        assert ready_artifact(connection, first.sha256) == again
        with pytest.raises(UnknownName, match="CTL-358"):
            ready_artifact(connection, "0" * 64)


def test_a_transaction_that_fails_leaves_a_file_that_is_collected(metadata, store):
    with store.receive("code.zip") as upload:
        upload.write(GOOD)
        with pytest.raises(ZeroDivisionError), metadata.begin() as connection:
            row, _ = keep_artifact(connection, store, upload, now=NOW, actor="ada")
            raise ZeroDivisionError
        with metadata.begin() as connection:
            assert listed_artifacts(connection) == []
        with metadata.begin() as connection:
            assert keep_artifact(connection, store, upload, now=NOW, actor="ada")[1], "it is tried again"
            connection.rollback()
    os.utime(store.root / f"{row.sha256}.zip", (NOW.timestamp(), NOW.timestamp()))
    (store.root / "incoming" / "left").write_bytes(b"of one that died")
    os.utime(store.root / "incoming" / "left", (NOW.timestamp(), NOW.timestamp()))
    assert collect(metadata, store, now=NOW + DAY / 2) == Collected(0, 0)
    assert collect(metadata, store, now=NOW + 2 * DAY) == Collected(0, 2)
    assert [path.name for path in store.root.rglob("*")] == ["incoming"]


def test_what_no_job_needs_is_collected_after_the_grace(metadata, store):
    used, old, unused = (keep(metadata, store, plain(code=f"x = {n}\n"))[0].sha256 for n in range(3))
    of_deleted = keep(metadata, store, OTHER)[0].sha256
    add_job(metadata, 1, old, used)
    add_job(metadata, 2, of_deleted, deleted=NOW)
    assert collect(metadata, store, now=NOW + DAY) == Collected(0, 0), "the grace is over when it is behind"
    assert collect(metadata, store, now=NOW + 2 * DAY) == Collected(2, 0)
    assert store.kept().keys() == {used, old}
    with metadata.begin() as connection:
        assert {row.sha256 for row in listed_artifacts(connection)} == {used, old}
        with pytest.raises(UnknownName, match="CTL-358"):
            ready_artifact(connection, unused)


def test_an_upload_begins_the_grace_anew(metadata, store):
    sha256 = keep(metadata, store, GOOD)[0].sha256
    keep(metadata, store, GOOD, now=NOW + 2 * DAY)
    assert collect(metadata, store, now=NOW + 2.5 * DAY) == Collected(0, 0)
    assert sha256 in store.kept()


def test_an_artifact_in_use_is_not_deleted(metadata, store):
    used, unused = (keep(metadata, store, content)[0].sha256 for content in (GOOD, OTHER))
    add_job(metadata, 1, used, unused)
    with metadata.begin() as connection:
        for sha256 in (used, unused):
            with pytest.raises(StateConflict, match="CTL-360"):
                delete_artifact(connection, sha256)
        connection.execute(update(job_definition).values(deleted_time=NOW))
        delete_artifact(connection, unused)
        with pytest.raises(UnknownName, match="CTL-358"):
            delete_artifact(connection, unused)
        assert [row.sha256 for row in listed_artifacts(connection)] == [used]
    assert collect(metadata, store, now=NOW) == Collected(1, 0)
    assert store.kept().keys() == {used}


def test_one_that_was_deleted_and_comes_again_is_there(metadata, store):
    sha256 = keep(metadata, store, GOOD)[0].sha256
    with metadata.begin() as connection:
        delete_artifact(connection, sha256)
    assert keep(metadata, store, GOOD, now=NOW)[1]
    assert collect(metadata, store, now=NOW) == Collected(0, 0)
    with store.opened(sha256):
        pass


def test_a_collection_that_was_cut_short_is_finished_by_the_next(metadata, store, monkeypatch):
    sha256 = keep(metadata, store, GOOD)[0].sha256
    with monkeypatch.context() as broken:
        broken.setattr(store, "remove", lambda sha256: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            collect(metadata, store, now=NOW + 2 * DAY)
    with metadata.begin() as connection:
        assert connection.execute(select(artifact.c.state)).scalar_one() == "DELETED"
        with pytest.raises(UnknownName, match="CTL-358"):
            ready_artifact(connection, sha256)
    store.remove(sha256)
    assert collect(metadata, store, now=NOW + 2 * DAY) == Collected(1, 0)


def test_an_upload_during_a_collection_keeps_its_file(metadata, store, monkeypatch):
    """Just before its file is removed, somebody uploads it again: whoever comes second, row and file agree."""
    sha256 = keep(metadata, store, GOOD)[0].sha256
    real, came = metadata.begin, []

    def begin():
        if len(came) == 1:
            monkeypatch.setattr(metadata, "begin", real)
            keep(metadata, store, GOOD, now=NOW + 2 * DAY)
        came.append(1)
        return real()

    monkeypatch.setattr(metadata, "begin", begin)
    assert collect(metadata, store, now=NOW + 2 * DAY) == Collected(0, 0)
    assert len(came) == 2
    with metadata.begin() as connection:
        assert ready_artifact(connection, sha256)
    with store.opened(sha256):
        pass


def test_what_was_unpacked_goes_with_its_artifact(metadata, store, tmp_path, monkeypatch):
    monkeypatch.setattr(metadata, "_clock", lambda: NOW + 2 * DAY)
    used, unused = (keep(metadata, store, content)[0].sha256 for content in (GOOD, OTHER))
    add_job(metadata, 1, used)
    folders = CodeFolders(store, tmp_path / "code")
    assert folders.sweep(metadata, grace=3 * DAY) == Collected(0, 0), "nothing was unpacked yet"
    for sha256 in (used, unused):
        assert folders.folder(sha256) == tmp_path / "code" / sha256
    for name, age in ((".left", NOW), (".under_way", NOW + 2 * DAY)):
        (tmp_path / "code" / name).mkdir()
        os.utime(tmp_path / "code" / name, (age.timestamp(), age.timestamp()))
    assert folders.sweep(metadata) == Collected(1, 0)
    assert sorted(path.name for path in (tmp_path / "code").iterdir()) == [".under_way", used]
    with pytest.raises(UnknownName, match="CTL-358"):
        folders.folder(unused)
