"""The publication between the slot and the job: changes that it did not hold are never given, and that must not go unnoticed."""

import pytest
from tests.unit.connectors.postgres_cdc.test_cdc_stories import begun, changes
from tests.unit.connectors.postgres_cdc.test_slot_life import refused
from tests.unit.connectors.sources.cdc_under_test import COLUMNS
from tests.unit.connectors.sources.source_contract import walked

import millstream as ms
from millstream.errors import InvalidStep, StepFailed


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["DROP PUBLICATION {slot}"], "does not hold the table any more"),
        (["ALTER PUBLICATION {slot} DROP TABLE {table}"], "does not hold the table any more"),
        (["ALTER PUBLICATION {slot} SET (publish = 'insert')"], "does not hold the table any more"),
        (["DROP PUBLICATION {slot}", "{insert}", "CREATE PUBLICATION {slot} FOR TABLE {table}"], "made anew"),
        (
            ["ALTER PUBLICATION {slot} DROP TABLE {table}", "{insert}", "ALTER PUBLICATION {slot} ADD TABLE {table}"],
            "made anew",
        ),
        (["ALTER PUBLICATION {slot} SET TABLE {table} WHERE (id > 5)"], "was altered"),
        (["DROP TABLE {table}", "CREATE TABLE {table} (id bigint)"], "does not hold the table any more"),
    ],
)
@pytest.mark.parametrize("is_running", [True, False])
def test_a_publication_that_lost_changes(make_source, open_owner, statements, said, is_running):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    insert = f"INSERT INTO {source.table} VALUES (70)"
    for statement in statements:
        source.do(statement.format(slot=source.slot, table=source.table, insert=insert))
    problem = refused(opened if is_running else open_owner(source, token=2), position, "CDC-007")
    assert said in problem.message
    assert source.slot in problem.hint
    assert "new checkpoint" in problem.hint


def test_a_publication_may_hold_other_tables_too(make_source, open_owner):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"CREATE TABLE {source.table}_b (id bigint PRIMARY KEY)")
    source.do(f"ALTER PUBLICATION {source.slot} ADD TABLE {source.table}_b")
    source.do(f"ALTER TABLE {source.table} ALTER COLUMN customer SET DEFAULT 'nobody'")
    source.add(1)
    assert changes(opened, position, 1)[1] == [("insert", 1)]
    source.do(f"DROP TABLE {source.table}_b")


@pytest.mark.parametrize("identity", ["NOTHING", "DEFAULT"])
def test_a_replica_identity_of_nothing_is_refused_before_anything_is_made(make_source, open_owner, identity):
    """With a publication of it, the server would refuse every update and delete of the table."""
    source = make_source(count=1)
    if identity == "DEFAULT":
        source.do(f"ALTER TABLE {source.table} DROP CONSTRAINT {source.table}_pkey")
        source.do(f"ALTER TABLE {source.table} ADD PRIMARY KEY (id) DEFERRABLE")
    source.do(f"ALTER TABLE {source.table} REPLICA IDENTITY {identity}")
    assert "by nothing" in str(refused(open_owner(source), {"phase": "begin"}, "CDC-010").found)
    assert source.do(f"SELECT FROM pg_publication WHERE pubname = '{source.slot}'") == []
    source.do(f"UPDATE {source.table} SET amount = 1")


def test_a_key_that_two_rows_may_share_for_a_while(make_source, open_owner):
    """`SET id = id + 1` gives 2 to a row, and takes it from the other one afterwards: by key, the last change would win."""
    source = make_source(count=1)
    source.do(f"ALTER TABLE {source.table} DROP CONSTRAINT {source.table}_pkey")
    source.do(f"ALTER TABLE {source.table} ADD PRIMARY KEY (id) DEFERRABLE INITIALLY DEFERRED")
    source.do(f"ALTER TABLE {source.table} REPLICA IDENTITY FULL")
    assert "not deferrable" in refused(open_owner(source), {"phase": "begin"}, "CDC-008").message


GENERATED = ", twice bigint GENERATED ALWAYS AS (id * 2) STORED"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"extra": ", note text"}, "'note', which is not declared"),
        ({"schema": COLUMNS + ", note string, op string"}, "no column 'note'"),
        (
            {"schema": COLUMNS + ", twice long, op string", "extra": GENERATED},
            "no column 'twice', or does not publish it",
        ),
        ({"schema": "id long, customer long, amount decimal(10,2), op string"}, "a type that long cannot hold"),
    ],
)
def test_columns_that_no_change_could_bring_are_refused_before_the_copy(make_source, open_owner, options, said):
    source = make_source(**options)
    problem = refused(open_owner(source), {"phase": "begin"}, "CDC-009")
    assert said in problem.message
    assert source.do(f"SELECT FROM pg_replication_slots WHERE slot_name = '{source.slot}'") == []


@pytest.mark.parametrize("extra", ["", GENERATED])
def test_a_column_that_no_change_brings_is_null_in_the_copy_too(make_source, open_owner, extra):
    source = make_source(schema=COLUMNS + ", twice long, op string", extra=extra, on_ddl="null_missing")
    source.do(f"INSERT INTO {source.table} VALUES (7)")
    opened = open_owner(source)
    path, rows = walked(opened, opened.initial(), 10, until=1)
    assert [(row["id"], row["twice"]) for row in rows] == [(7, None)]
    source.do(f"INSERT INTO {source.table} VALUES (8)")
    assert changes(opened, path[-1], 1)[1] == [("insert", 8)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"keys": 5}, "CONN-005.*'keys'.*found 5"),
        ({"keys": "di"}, "CDC-001.*key 'di'"),
        ({"keys": "id", "placeholder": "-"}, "CDC-001.*placeholder="),
        (
            {"keys": "id", "url": "mysql://me@db/shop"},
            "CONN-005.*'mysql.*known: postgresql://user@host:port/database; correct",
        ),
    ],
)
def test_options_that_are_refused_by_name(options, said):
    with pytest.raises(InvalidStep, match=said):
        spec = ms.postgres_cdc(**{"url": "postgresql://me@db/shop", "table": "t", "slot": "s", **options})
        ms.Job("j").source("in", spec, schema="id long, op string")


def test_a_change_that_cannot_be_read_names_the_step_of_the_job(make_source, tmp_path):
    source = make_source(slot_first=True)
    source.do(f"TRUNCATE {source.table}")
    job = ms.Job("orders")
    job.source("the-orders", source.spec, schema=source.schema).sink("out", ms.files(tmp_path / "out"))
    with pytest.raises(StepFailed, match=r"CDC-011.*step 'the-orders'"):
        job.run(local=True, checkpoint=tmp_path / "checkpoint")


def test_a_publication_of_another_table_is_told_how_to_be_mended(make_source, open_owner):
    source = make_source()
    source.do(f"CREATE PUBLICATION {source.slot}")
    assert refused(open_owner(source), {"phase": "begin"}, "CDC-008").hint.startswith("DROP PUBLICATION")
