"""The tables: the same on both databases, migrated up and down with rows in them, refused where they do not fit."""

import concurrent.futures
import contextlib
import datetime as dt
import time

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import insert, select, text
from sqlalchemy.exc import DatabaseError, IntegrityError
from tests.unit.control.conftest import NOON, submission

from millstream.control.dispatcher.definitions import submit
from millstream.control.metadata import migrate
from millstream.control.metadata import postgres as postgres_side
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import audit
from millstream.control.metadata.tables.all import SCHEMA
from millstream.control.metadata.tables.jobs import job_config, job_definition
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.refusals import SchemaMismatch
from millstream.errors import ExternalFailure, InvalidStep


def test_migrations_give_what_the_tables_say(metadata):
    with metadata.begin() as connection:
        found = compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), SCHEMA)
    assert found == []


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004", "0005", "0006", "0007"])
def test_up_down_up_with_old_rows(metadata, act, revision):
    with act() as a:
        submit(a, submission("kept"))
    migrate.downgrade(metadata, to=revision)
    assert migrate.upgrade(metadata)[1] == "0008"
    with metadata.begin() as connection:
        assert connection.execute(select(job_definition.c.job_name)).scalars().all() == ["kept"]


def test_all_the_way_down_leaves_nothing(metadata):
    migrate.downgrade(metadata, to="base")
    with metadata.begin() as connection:
        found = compare_metadata(MigrationContext.configure(connection), SCHEMA)
    assert {each[1].name for each in found if each[0] == "add_table"} == set(SCHEMA.tables)


def test_an_older_and_a_newer_schema_are_refused(metadata):
    migrate.check(metadata)
    migrate.downgrade(metadata, to="0003")
    with pytest.raises(SchemaMismatch, match=r"CTL-003.*millstream db upgrade"):
        migrate.check(metadata)
    migrate.upgrade(metadata)
    with metadata.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for act in (migrate.check, migrate.upgrade):
        with pytest.raises(SchemaMismatch, match="CTL-004"):
            act(metadata)


@pytest.mark.parametrize("revision", ["0", "9999", "", "0001;"])
def test_a_revision_that_there_is_not_is_refused(metadata, revision):
    with pytest.raises(SchemaMismatch, match=r"CTL-005.*known: 0001, .*, base"):
        migrate.downgrade(metadata, to=revision)
    migrate.check(metadata)


@pytest.mark.parametrize("content", [b"garbage" * 1000, b"SQLite format 3\0" + b"\1" * 8000])
def test_a_damaged_database_is_told_as_such(tmp_path, content):
    (tmp_path / "m.db").write_bytes(content)
    damaged = Metadata(f"sqlite:///{tmp_path}/m.db")
    for opened in (damaged.begin, damaged.read):
        with pytest.raises(ExternalFailure, match=r"CTL-006.*m\.db.*put a copy"), opened() as connection:
            connection.exec_driver_sql("SELECT * FROM sqlite_master").all()
    damaged.close()


def test_a_full_disk_is_told_as_such(tmp_path):
    small = Metadata(f"sqlite:///{tmp_path}/small.db")
    with small.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE much (content BLOB)")
    with pytest.raises(ExternalFailure, match=r"CTL-002.*is full.*make room"), small.begin() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 3")
        connection.exec_driver_sql("INSERT INTO much VALUES (zeroblob(1000000))")
    small.close()


@pytest.mark.parametrize("change", ["UPDATE audit SET actor = 'nobody'", "DELETE FROM audit", "TRUNCATE audit"])
def test_the_audit_is_only_added_to(metadata, clock, change):
    if metadata.is_sqlite and change.startswith("TRUNCATE"):
        return  # SQLite has no such statement
    row = {"actor": "ada", "action": "x", "target": "t", "result": "done"}
    with metadata.begin() as connection:
        connection.execute(insert(audit).values(**row, time=dt.datetime.now(dt.UTC)))
        connection.execute(insert(audit).values(**row, time=dt.datetime.now(dt.UTC) - dt.timedelta(days=398)))
    with pytest.raises(DatabaseError, match="only ever added to"), metadata.begin() as connection:
        connection.execute(text(change))
    with metadata.begin() as connection:
        assert connection.execute(select(audit.c.actor)).scalars().all() == ["ada", "ada"]


def test_times_have_a_zone(metadata, job):
    with metadata.begin() as connection:
        read = connection.execute(select(job_definition.c.create_time)).scalar_one()
        assert (read, read.tzinfo) == (NOON, dt.UTC)
    with pytest.raises(Exception, match="without a zone"), metadata.begin() as connection:
        connection.execute(job_definition.update().values(create_time=dt.datetime(2026, 1, 1)))


def test_orphans_and_unknown_words_are_refused(metadata, job):
    def refused(statement):
        with pytest.raises(IntegrityError), metadata.begin() as connection:
            connection.execute(statement)

    event = {"execution_id": "nobody", "seq": 1, "time": NOON, "kind": "x", "cause": "", "actor": "", "token": 0}
    refused(insert(run_event).values(**event))
    refused(job_definition.update().values(job_type="BATCH"))
    refused(job_definition.update().values(parallelism=0))
    config = {"job_id": job.id, "config_key": "password", "config_value": "x", "is_sensitive": True}
    refused(insert(job_config).values(**config))
    run = {"job_id": job.id, "job_name": "orders", "job_version": 1, "start_time": NOON, "not_before": NOON}
    run |= {"options": {}, "failures": [], "trigger_id": "t", "execution_id": "e"}
    refused(insert(execution).values(**run, status="SLEEPING"))


def test_large_numbers_fit(metadata, job):
    with metadata.begin() as connection:
        run = {"job_id": job.id, "job_name": "orders", "job_version": 1, "start_time": NOON, "not_before": NOON}
        run |= {"options": {}, "failures": [], "trigger_id": "t", "execution_id": "e", "status": "RUNNING"}
        connection.execute(insert(execution).values(**run, processed_records=10**12, token=10**12, throughput=10**10))
        assert connection.execute(select(execution.c.processed_records)).scalar_one() == 10**12


@pytest.mark.parametrize("url", ["mysql://h/d", "oracle://x", "metadata.db", "sqlite:///m.db?mode=ro"])
def test_a_database_that_cannot_serve_is_refused(url):
    with pytest.raises(InvalidStep, match="CTL-001"):
        Metadata(url)


def test_a_database_that_is_away_says_so_without_its_password():
    metadata = Metadata("postgresql://ada:geheim@127.0.0.1:1/none")
    with pytest.raises(ExternalFailure, match="CTL-002") as caught, metadata.begin():
        pass
    assert "geheim" not in str(caught.value)


def test_who_stands_still_in_a_transaction_keeps_nobody_waiting(metadata, database_url, job, monkeypatch):
    if metadata.is_sqlite:
        return  # one machine has it: who stands still there is one of its own processes
    monkeypatch.setattr(postgres_side, "_IDLE_MS", 500)
    paused = Metadata(database_url)

    def sleepy():
        with paused.begin() as connection:
            connection.execute(job_definition.update().values(description="mine"))
            time.sleep(3)
            connection.execute(job_definition.update().values(description="late"))

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        slept = pool.submit(sleepy)
        time.sleep(0.3)
        begun = time.monotonic()
        with metadata.begin() as connection:
            connection.execute(job_definition.update().values(description="another's"))
        waited = time.monotonic() - begun
        assert slept.exception(timeout=20).code == "CTL-002"
    paused.close()
    with metadata.begin() as connection:
        assert connection.execute(select(job_definition.c.description)).scalar_one() == "another's"
    assert waited < 2.5


def test_a_process_whose_connections_all_wait_says_so(tmp_path, monkeypatch):
    metadata = Metadata(f"sqlite:///{tmp_path}/m.db")
    monkeypatch.setattr(metadata.engine.pool, "_timeout", 0.05)
    with contextlib.ExitStack() as held:
        for _ in range(15):
            held.enter_context(metadata.read())
        for opened in (metadata.begin, metadata.read):
            with pytest.raises(ExternalFailure, match="CTL-002"), opened():
                pass
