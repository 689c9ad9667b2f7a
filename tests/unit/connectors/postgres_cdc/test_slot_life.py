"""The life of a slot: made once, moved only behind what is published, never dropped; and everything that can become of it."""

import time

import psycopg
import pytest
from psycopg import pq
from tests.servers.postgres import PostgresServer
from tests.unit.connectors.postgres_cdc.test_cdc_stories import begun, changes, moved
from tests.unit.connectors.sources.cdc_under_test import CdcUnderTest
from tests.unit.connectors.sources.source_contract import walked
from tests.unit.connectors.sources.source_under_test import Opened

from millstream.connectors.postgres_cdc.spec import postgres_cdc
from millstream.errors import CheckpointRefused, ExternalFailure, InvalidStep, MillstreamError, StepFailed


def refused(opened, position, code):
    """What a source says that cannot go on."""
    until = time.monotonic() + 20
    with pytest.raises(MillstreamError) as problem:
        while time.monotonic() < until:
            opened.advance(position, 10)
    assert problem.value.code == code
    return problem.value


# Made


def test_a_slot_that_is_there_already_is_not_ours(make_source, open_owner):
    source = make_source(count=1)
    source.make_slot()
    problem = refused(open_owner(source), {"phase": "begin"}, "CDC-005")
    assert isinstance(problem, StepFailed)
    assert f"pg_drop_replication_slot('{source.slot}')" in problem.hint


def test_a_slot_of_our_own_is_found_again(make_source, open_owner, failpoints):
    source = make_source(count=3)
    failpoints("table_copied:1:raise")
    refused(open_owner(source), {"phase": "begin"}, "TEST-FAILPOINT")
    first = source.confirmed()
    source.add(2)
    later = open_owner(source, token=2)
    _, rows = walked(later, later.initial(), 10, until=5)
    assert [(row["op"], row["id"]) for row in rows] == [("read", number) for number in range(5)]
    assert source.confirmed() == first, "the same slot: what the new copy shows is left out of its changes"
    source.add(1)
    assert changes(later, begun(later), 1)[1] == [("insert", 5)]


def test_two_owners_that_begin_at_once_believe_one_copy(make_source, open_owner):
    source = make_source(count=3)
    old, new = open_owner(source, token=1), open_owner(source, token=2)
    old.advance(old.initial(), 10)
    paths = [walked(each, each.initial(), 2, until=3) for each in (new, old)]
    assert paths[0][0][-1] == paths[1][0][-1]
    assert paths[0][1] == paths[1][1]


def test_a_slot_that_shall_be_there_and_is_not(make_source, open_owner):
    source = make_source(count=1, create=False)
    assert "does not exist" in refused(open_owner(source), {"phase": "begin"}, "CDC-008").message
    source.do(f"CREATE PUBLICATION {source.slot} FOR TABLE {source.table}")
    assert "does not exist" in refused(open_owner(source, token=2), {"phase": "begin"}, "CDC-007").message


def test_a_slot_of_another_kind(make_source, open_owner):
    source = make_source(count=1, create=False)
    source.do(f"CREATE PUBLICATION {source.slot} FOR TABLE {source.table}")
    source.do(f"SELECT pg_create_physical_replication_slot('{source.slot}')")
    refused(open_owner(source), {"phase": "begin"}, "CDC-005")


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("CREATE PUBLICATION {slot} FOR TABLE {table} WITH (publish = 'insert')", "does not publish inserts, updates"),
        ("CREATE PUBLICATION {slot}", "does not hold the table"),
    ],
)
def test_a_publication_that_would_lose_changes(make_source, open_owner, statement, problem):
    source = make_source()
    source.do(statement.format(slot=source.slot, table=source.table))
    said = refused(open_owner(source), {"phase": "begin"}, "CDC-008")
    assert problem in said.message
    assert "CREATE PUBLICATION" in said.hint


def test_a_table_that_cannot_be_read(make_source, open_owner):
    missing = make_source()
    missing.do(f"DROP TABLE {missing.table}")
    assert isinstance(refused(open_owner(missing), {"phase": "begin"}, "CDC-008"), InvalidStep)
    view = make_source()
    view.do(f"DROP TABLE {view.table}", f"CREATE VIEW {view.table} AS SELECT 1 AS id")
    assert "is no table" in refused(open_owner(view), {"phase": "begin"}, "CDC-008").message
    view.do(f"DROP VIEW {view.table}")
    keyless = make_source()
    keyless.do(f"ALTER TABLE {keyless.table} DROP CONSTRAINT {keyless.table}_pkey")
    refused(open_owner(keyless), {"phase": "begin"}, "CDC-010")
    keyless.do(f"ALTER TABLE {keyless.table} REPLICA IDENTITY FULL")
    assert "unique index" in refused(open_owner(keyless, token=2), {"phase": "begin"}, "CDC-008").message


def test_a_server_without_logical_decoding(postgres, make_source, open_owner):
    source = make_source(server=postgres)
    said = refused(open_owner(source), {"phase": "begin"}, "CDC-004")
    assert "wal_level" in said.found


def test_a_password_is_never_shown(make_source, open_owner, logical_postgres):
    source = make_source()
    url = logical_postgres.url.replace("postgres@", "nobody:hunter2@")
    source.spec = postgres_cdc(url, table=source.table, keys=["id"], slot=source.slot)
    said = refused(open_owner(source), {"phase": "begin"}, "CDC-004")
    assert "hunter2" not in str(said) + repr(source.spec)


# Moved


def test_a_slot_moves_behind_what_is_published_when_the_next_epoch_is_decided(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    position = begun(opened)
    first = source.confirmed()
    source.add(1)
    end, _ = changes(opened, position, 1)
    opened.advance(end, 10)
    assert source.confirmed() == first, "nothing is published"
    opened.enumerator.acknowledge(end)
    assert source.confirmed() == first, "the epoch may be read once more, to rebuild state"
    assert [row["id"] for row in open_owner(source, token=2).read(position, end)] == [0]
    until = time.monotonic() + 20
    while source.confirmed() != end["lsn"] and time.monotonic() < until:
        opened.advance(end, 10)
    assert source.confirmed() == end["lsn"]


def test_a_restart_between_publishing_and_acknowledging(make_source, open_owner):
    source = make_source(count=2)
    opened = open_owner(source)
    path, _ = walked(opened, opened.initial(), 10, until=2)
    source.add(3)
    end, _ = changes(opened, path[-1], 3)
    opened.close()  # published, and not acknowledged
    later = open_owner(source, token=2)
    later.enumerator.acknowledge(end)
    assert [row["id"] for row in later.read(path[-1], end)] == [2, 3, 4], "it is run again where its state was lost"
    source.add(1)
    assert changes(later, end, 1)[1] == [("insert", 5)], "and goes on behind it"


def test_the_copy_goes_when_it_is_not_needed_any_more(make_source, open_owner):
    source = make_source(count=4)
    opened = open_owner(source)
    path, _ = walked(opened, opened.initial(), 3, until=4)
    assert list(source.folder.glob("copy-*.arrow"))
    source.add(1)
    end, _ = changes(opened, path[-1], 1)
    opened.enumerator.acknowledge(end)
    until = time.monotonic() + 20
    while list(source.folder.glob("copy-*.arrow")) and time.monotonic() < until:
        opened.advance(end, 10)
    assert not list(source.folder.glob("copy-*.arrow"))
    with pytest.raises(CheckpointRefused) as problem:
        opened.read(path[0], path[1])
    assert problem.value.code == "CDC-013"


def test_a_quiet_table_lets_the_log_of_others_go(make_source, open_owner):
    source = make_source(idle="200ms")
    opened = open_owner(source)
    position = begun(opened)
    source.do("CREATE TABLE IF NOT EXISTS others (a int)")
    source.do("INSERT INTO others SELECT generate_series(1, 20000)")
    told = opened.advance(position, 10)
    until = time.monotonic() + 20
    while (told := opened.advance(position, 10)).position == position and time.monotonic() < until:
        kept = told.retained
    end = told.position
    assert end["quiet_from"] == position["lsn"]
    assert opened.splits(position, end) == [], "nobody reads what is known to be nothing"
    assert kept[source.table] > 1_000_000
    opened.enumerator.acknowledge(end)
    while source.confirmed() != end["lsn"] and time.monotonic() < until:
        told = opened.advance(end, 10)
    assert source.confirmed() == end["lsn"]
    source.add(1)
    assert changes(opened, end, 1)[1] == [("insert", 0)]


def test_a_table_that_is_quiet_for_a_moment_stands_still(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    position = begun(opened)
    source.do("CREATE TABLE IF NOT EXISTS others (a int)", "INSERT INTO others VALUES (1)")
    until = time.monotonic() + 1
    while time.monotonic() < until:
        told = opened.advance(position, 10)
        assert told.position == position
    assert told.drained == [source.table]


# Lost


def test_a_slot_that_is_gone(make_source, open_owner):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"SELECT pg_drop_replication_slot('{source.slot}')")
    source.add(1)
    said = refused(opened, position, "CDC-007")
    assert "does not exist" in said.message
    assert "new checkpoint" in said.hint


def test_a_slot_that_somebody_else_moved(make_source, open_owner):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    source.add(2)
    end = moved(opened, position)
    source.do(f"SELECT pg_replication_slot_advance('{source.slot}', pg_current_wal_lsn())")
    assert "moved on by somebody else" in refused(open_owner(source, token=2), position, "CDC-007").message
    with pytest.raises(StepFailed) as problem:
        opened.read(position, end)
    assert problem.value.code == "CDC-007", "a reader notices that something is missing"


def test_a_slot_whose_log_was_removed(tmp_path):
    settings = {"wal_level": "logical", "max_slot_wal_keep_size": "1MB", "max_wal_size": "32MB", "min_wal_size": "32MB"}
    server = PostgresServer(settings=settings).start()
    (tmp_path / "source").mkdir()
    source = CdcUnderTest(server, tmp_path / "source", count=1)
    opened = Opened(source)
    try:
        position = begun(opened)
        source.do("CREATE TABLE noise (a text)")
        for _ in range(4):
            source.do("INSERT INTO noise SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
            source.connection.execute("CHECKPOINT")
        assert "has lost the log" in refused(opened, position, "CDC-007").message
    finally:
        opened.close()
        source.dispose()
        server.stop()


# Read by two


class Holder:
    """Somebody who reads a slot for a while: over the protocol of replication, which holds it until the end."""

    def __init__(self, url, slot, publication):
        self._connection = pq.PGconn.connect(f"{url}?replication=database".encode())
        options = f"\"proto_version\" '1', \"publication_names\" '{publication}'"
        begun = self._connection.exec_(f"START_REPLICATION SLOT {slot} LOGICAL 0/0 ({options})".encode())
        assert begun.status == pq.ExecStatus.COPY_BOTH, self._connection.error_message

    def close(self):
        self._connection.finish()


def test_a_slot_that_an_older_owner_reads_is_waited_for(make_source, open_owner):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    source.add(1)
    holder = Holder(source.server.url, source.slot, source.slot)
    try:
        for _ in range(3):
            told = opened.advance(position, 10)
            assert (told.position, told.drained) == (position, ())
    finally:
        holder.close()
    assert changes(opened, position, 1)[1] == [("insert", 1)]


def test_a_slot_that_somebody_keeps_reading(make_source, open_owner, monkeypatch):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    source.add(1)
    end = moved(opened, position)
    for module in ("server", "reading"):
        monkeypatch.setattr(f"millstream.connectors.postgres_cdc.{module}.PATIENCE", 0.3)
    later = open_owner(source, token=2)
    holder = Holder(source.server.url, source.slot, source.slot)
    try:
        assert isinstance(refused(later, position, "CDC-006"), ExternalFailure)
        with pytest.raises(ExternalFailure) as problem:
            later.read(position, end)
        assert problem.value.code == "CDC-006"
    finally:
        holder.close()


def test_closing_while_a_copy_waits_for_others(make_source, open_owner):
    source = make_source(count=1)
    with psycopg.connect(source.server.url) as other:
        other.execute(f"INSERT INTO {source.table} VALUES (70)")
        opened = open_owner(source)
        told = opened.advance(opened.initial(), 10)
        assert told.position == {"phase": "begin"}
        assert told.blocked, "somebody will ask why"
        began = time.monotonic()
        opened.close()
        assert time.monotonic() - began < 8
        other.rollback()
