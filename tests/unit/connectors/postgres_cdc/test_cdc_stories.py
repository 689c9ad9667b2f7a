"""What happens to a table, as its source tells it: transactions, keys, long values, columns, on a real server."""

import threading

import psycopg
import pytest
from tests.unit.connectors.sources.cdc_under_test import COLUMNS
from tests.unit.connectors.sources.source_contract import walked

from millstream.contract.source import BadRecord
from millstream.errors import StepFailed

LONG = "(SELECT string_agg(md5(g::text), '') FROM generate_series(1, 200) g)"
"""Too long to be compressed into a row."""


def changes(opened, start, count, credit=1000):
    path, rows = walked(opened, start, credit, until=count)
    return path[-1], [(row["op"], row["id"]) for row in rows]


def begun(opened, credit=1000):
    """The position behind the copy."""
    start = position = opened.initial()
    while position == start or position["phase"] != "stream":
        position = opened.advance(position, credit).position
    return position


def test_the_copy_and_the_changes_fit_each_other(make_source, open_owner):
    source = make_source(count=3)
    opened = open_owner(source)
    _, rows = walked(opened, opened.initial(), 2, until=3)
    assert [(row["op"], row["id"]) for row in rows] == [("read", 0), ("read", 1), ("read", 2)]
    source.do(f"UPDATE {source.table} SET amount = 1 WHERE id = 1")
    position = begun(opened)
    position, found = changes(opened, position, 1)
    assert found == [("update", 1)]


def test_an_empty_table(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    position = begun(opened)
    source.add(2)
    assert changes(opened, position, 2)[1] == [("insert", 0), ("insert", 1)]


def test_a_transaction_that_is_rolled_back_does_not_appear(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    position = begun(opened)
    with psycopg.connect(source.server.url) as other:
        other.execute(f"INSERT INTO {source.table} VALUES (50)")
        other.rollback()
    source.add(1)
    assert changes(opened, position, 1)[1] == [("insert", 0)]


def test_a_transaction_that_is_open_across_the_end_stays_out(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    start = begun(opened)
    with psycopg.connect(source.server.url) as other:
        other.execute(f"INSERT INTO {source.table} VALUES (50)")
        source.add(1)
        end, found = changes(opened, start, 1)
        assert found == [("insert", 0)]
        other.commit()
    assert [row["id"] for row in opened.read(start, end)] == [0], "and stays out when it has committed"
    assert changes(opened, end, 1)[1] == [("insert", 50)]


def test_transactions_come_whole_and_in_the_order_of_commits(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    start = begun(opened)
    with psycopg.connect(source.server.url) as first, psycopg.connect(source.server.url) as second:
        first.execute(f"INSERT INTO {source.table} VALUES (1)")
        second.execute(f"INSERT INTO {source.table} VALUES (2)")
        first.execute(f"INSERT INTO {source.table} VALUES (3)")
        second.commit()
        first.commit()
    assert changes(opened, start, 3)[1] == [("insert", 2), ("insert", 1), ("insert", 3)]


def test_a_huge_transaction_is_one_epoch(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    start = begun(opened)
    source.do(f"INSERT INTO {source.table} SELECT g, 'many', 1 FROM generate_series(1, 120000) g")
    source.add(1)
    path, rows = walked(opened, start, 100, until=120_000)
    assert len(rows) == 120_000, "not cut, whatever the credit is"
    assert len(path) == 2
    assert changes(opened, path[-1], 1)[1] == [("insert", 0)]


def test_a_key_that_changes(make_source, open_owner):
    source = make_source(count=2)
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"UPDATE {source.table} SET id = id + 10")
    assert changes(opened, position, 4)[1] == [("delete", 0), ("insert", 10), ("delete", 1), ("insert", 11)]


def test_whole_rows(make_source, open_owner):
    source = make_source(count=2, images="both")
    source.do(f"ALTER TABLE {source.table} REPLICA IDENTITY FULL")
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"UPDATE {source.table} SET amount = 9 WHERE id = 1", f"DELETE FROM {source.table} WHERE id = 0")
    _, rows = walked(opened, position, 10, until=3)
    assert [(row["op"], row["id"], row["customer"], str(row["amount"])) for row in rows] == [
        ("delete", 1, "c1", "1.50"),
        ("insert", 1, "c1", "9.00"),
        ("delete", 0, "c0", "0.50"),
    ]


# Long values


@pytest.fixture
def long_values(make_source):
    def make(**options):
        schema = f"{COLUMNS}, note string, op string, kept array<string>"
        metadata = {"op": "op", "kept": "unchanged"}
        return make_source(count=0, extra=", note text", schema=schema, metadata=metadata, **options)

    return make


def updated(source, opened):
    position = begun(opened)
    source.do(f"INSERT INTO {source.table} VALUES (1, 'ada', 1, {LONG})")
    position = walked(opened, position, 100, until=1)[0][-1]
    source.do(f"UPDATE {source.table} SET amount = 2")
    return position


def test_a_long_value_that_an_update_leaves_alone_fails(long_values, open_owner):
    source = long_values()
    opened = open_owner(source)
    position = updated(source, opened)
    (split,) = opened.splits(position, moved(opened, position))
    (bad,) = opened._reader().read(split.body)
    assert isinstance(bad, BadRecord)
    assert "left note as it was" in bad.error
    assert bad.origin.startswith(f"{source.table}@0/")


def moved(opened, position):
    while (end := opened.advance(position, 100).position) == position:
        pass
    return end


def test_a_long_value_that_an_update_leaves_alone_is_a_placeholder(long_values, open_owner):
    source = long_values(unchanged="placeholder", placeholder="(long)")
    opened = open_owner(source)
    (row,) = walked(opened, updated(source, opened), 100, until=1)[1]
    assert (row["note"], row["kept"], str(row["amount"])) == ("(long)", ["note"], "2.00")


def test_a_long_value_that_an_update_leaves_alone_is_looked_up(long_values, open_owner):
    source = long_values(unchanged="lookup")
    opened = open_owner(source)
    position = updated(source, opened)
    (row,) = walked(opened, position, 100, until=1)[1]
    assert (len(row["note"]), row["kept"]) == (6400, ["note"])
    source.do(f"DELETE FROM {source.table}")
    (row,) = opened.read(position, moved(opened, position))[:1]
    assert row["note"] is None, "the row is gone, and a delete will say so"


def test_a_long_value_that_an_update_leaves_alone_stands_in_the_full_row(long_values, open_owner):
    source = long_values()
    source.do(f"ALTER TABLE {source.table} REPLICA IDENTITY FULL")
    opened = open_owner(source)
    (row,) = walked(opened, updated(source, opened), 100, until=1)[1]
    assert (len(row["note"]), row["kept"]) == (6400, [])


# Other tables, and other columns


def test_other_tables_of_the_publication_are_passed_over(make_source, open_owner):
    source = make_source(create=False)
    source.do(f"CREATE TABLE {source.table}_more (a int PRIMARY KEY)")
    source.do(f"CREATE PUBLICATION {source.slot} FOR TABLE {source.table}, {source.table}_more")
    source.do(f"SELECT pg_create_logical_replication_slot('{source.slot}', 'pgoutput')")
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"INSERT INTO {source.table}_more VALUES (1)", f"INSERT INTO {source.table} VALUES (7)")
    assert changes(opened, position, 1)[1] == [("insert", 7)]
    source.do(f"DROP TABLE {source.table}_more")


def test_a_new_column_stops_the_source(make_source, open_owner):
    source = make_source(count=1)
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"ALTER TABLE {source.table} ADD COLUMN extra int")
    source.add(1)
    with pytest.raises(StepFailed) as refused:
        changes(opened, position, 1)
    assert refused.value.code == "CDC-009"
    assert "'extra'" in refused.value.message


def test_a_new_column_is_passed_over_where_that_is_said(make_source, open_owner):
    source = make_source(count=1, on_ddl="ignore_new")
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"ALTER TABLE {source.table} ADD COLUMN extra int")
    source.do(f"INSERT INTO {source.table} VALUES (5, 'x', 1, 2)")
    position, found = changes(opened, position, 1)
    assert found == [("insert", 5)]
    source.do(f"ALTER TABLE {source.table} DROP COLUMN customer")
    source.do(f"INSERT INTO {source.table} VALUES (6, 1, 2)")
    with pytest.raises(StepFailed) as refused:
        changes(opened, position, 1)
    assert (refused.value.code, "'customer'" in refused.value.message) == ("CDC-009", True)


def test_a_column_that_is_gone_is_null_where_that_is_said(make_source, open_owner):
    source = make_source(count=1, on_ddl="null_missing")
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"ALTER TABLE {source.table} DROP COLUMN customer")
    source.do(f"INSERT INTO {source.table} VALUES (6, 1)")
    (row,) = walked(opened, position, 100, until=1)[1]
    assert (row["id"], row["customer"]) == (6, None)


def test_a_table_with_another_name(make_source, open_owner):
    source = make_source()
    opened = open_owner(source)
    position = begun(opened)
    source.do(f"ALTER TABLE {source.table} RENAME TO {source.table}_now")
    source.do(f"INSERT INTO {source.table}_now VALUES (1)")
    with pytest.raises(StepFailed) as refused:
        changes(opened, position, 1)
    assert (refused.value.code, refused.value.found) == ("CDC-009", f"public.{source.table}_now")
    source.do(f"DROP TABLE {source.table}_now")


def test_a_truncated_table(make_source, open_owner):
    for policy in ("fail", "ignore"):
        source = make_source(count=2, on_truncate=policy)
        opened = open_owner(source)
        position = begun(opened)
        source.do(f"TRUNCATE {source.table}")
        source.do(f"INSERT INTO {source.table} VALUES (9)")
        if policy == "ignore":
            assert changes(opened, position, 1)[1] == [("insert", 9)]
            continue
        with pytest.raises(StepFailed) as refused:
            changes(opened, position, 1)
        assert refused.value.code == "CDC-011"


def test_a_partitioned_table(make_source, open_owner):
    source = make_source()
    source.do(f"DROP TABLE {source.table}")
    columns = "id bigint PRIMARY KEY, customer text, amount numeric(10,2)"
    source.do(f"CREATE TABLE {source.table} ({columns}) PARTITION BY RANGE (id)")
    source.do(f"CREATE TABLE {source.table}_a PARTITION OF {source.table} FOR VALUES FROM (0) TO (10)")
    source.do(f"CREATE TABLE {source.table}_b PARTITION OF {source.table} FOR VALUES FROM (10) TO (20)")
    source.do(f"INSERT INTO {source.table} VALUES (1), (11)")
    opened = open_owner(source)
    path, rows = walked(opened, opened.initial(), 10, until=2)
    assert sorted(row["id"] for row in rows) == [1, 11]
    source.do(f"UPDATE {source.table} SET id = 12 WHERE id = 1")
    assert changes(opened, path[-1], 2)[1] == [("delete", 1), ("insert", 12)]


def test_only_published_rows_are_read(make_source, open_owner):
    source = make_source(count=6, create=False)
    source.do(f"CREATE PUBLICATION {source.slot} FOR TABLE {source.table} WHERE (id > 3)")
    source.do(f"SELECT pg_create_logical_replication_slot('{source.slot}', 'pgoutput')")
    opened = open_owner(source)
    path, rows = walked(opened, opened.initial(), 10, until=2)
    assert [row["id"] for row in rows] == [4, 5]
    source.do(f"UPDATE {source.table} SET id = 7 WHERE id = 0")
    assert changes(opened, path[-1], 1)[1] == [("insert", 7)]


# While others write


def test_a_copy_that_is_made_while_others_write(make_source, open_owner):
    """However a transaction lies to the slot and the snapshot: it is in the copy or in the changes, once."""
    source = make_source(count=5)
    stop, numbers = threading.Event(), iter(range(1000, 10**9))

    def write(slow):
        with psycopg.connect(source.server.url, autocommit=True) as other:
            while not stop.is_set():
                with other.transaction():
                    other.execute(f"INSERT INTO {source.table} VALUES ({next(numbers)}, 'w', 1)")
                    other.execute(f"UPDATE {source.table} SET amount = amount + 1 WHERE id < 5 AND id % 2 = {slow}")
                    if slow:
                        stop.wait(0.03)

    writers = [threading.Thread(target=write, args=(slow,)) for slow in (0, 1)]
    for writer in writers:
        writer.start()
    opened = open_owner(source)
    path, rows = walked(opened, opened.initial(), 50, until=100)
    stop.set()
    for writer in writers:
        writer.join()
    expected = source.content()
    table = {}
    while True:
        apply(table, rows)
        if table.keys() == expected.keys() and all(table[id] == expected[id] for id in expected):
            break
        path, rows = walked(opened, path[-1], 500, until=1)
    inserted = [row["id"] for row in rows if row["op"] == "insert"]
    assert len(inserted) == len(set(inserted))


def apply(table, rows):
    for row in rows:
        if row["op"] == "delete":
            del table[row["id"]]
            continue
        assert (row["op"] == "update") == (row["id"] in table), "nothing comes twice"
        table[row["id"]] = (row["customer"], row["amount"])
