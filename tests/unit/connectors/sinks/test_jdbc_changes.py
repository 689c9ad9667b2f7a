"""Changes that are applied to a table: what is inserted, updated and deleted elsewhere is so here, epoch by epoch."""

import contextlib
import random

import pytest
from tests.unit.connectors.sinks.databases import MODES

import millstream as ms
from millstream.errors import InvalidStep, MillstreamError
from millstream.testing import ADVANCE_CLOCK

SCHEMA = "op string, a long, b string, amount long"
KEYS = ["a", "b"]


def change(op, a, b="x", amount=None):
    return {"op": op, "a": a, "b": b, "amount": amount}


def story(seed, images):
    """Changes of a table with few keys, and what it holds at the end."""
    chosen, table, changes = random.Random(seed), {}, []
    for _ in range(120):
        key, amount = (chosen.randrange(5), chosen.choice("xy")), chosen.randrange(100)
        held = table.get(key)
        match chosen.choice("iudk"):
            case "d" if key in table:
                changes.append(change("delete", *key, held if images == "both" else None))
                del table[key]
            case "k" if table and key not in table:
                old = chosen.choice(sorted(table))
                value = table.pop(old)
                table[key] = value
                changes.append(change("delete", *old, value if images == "both" else None))
                changes.append(change("insert", *key, value))
            case _:
                if held is not None and images == "both":
                    changes.append(change("delete", *key, held))
                is_update = held is not None and images == "after"
                changes.append(change("update" if is_update else "insert", *key, amount))
                table[key] = amount
        if chosen.random() < 0.2:
            changes.append(dict(ADVANCE_CLOCK(0)))
    return changes, table


def job_of(sink, changes, images="after", **options):
    job = ms.Job("copy")
    rows = job.source("rows", ms.memory(changes), schema=SCHEMA).as_changelog(keys=KEYS, images=images)
    rows.sink("out", ms.jdbc(sink.url, table=sink.table, **({"mode": "upsert", "keys": KEYS} | options)))
    return job


def content(sink):
    return {(a, b): amount for a, b, amount in sink.execute("SELECT a, b, amount FROM target")}


@pytest.mark.parametrize("images", ["after", "both"])
@pytest.mark.parametrize("seed", range(3))
def test_the_table_is_what_the_changes_leave(open_sink, tmp_path, images, seed):
    sink = open_sink(mode="upsert")
    changes, table = story(seed, images)
    job_of(sink, changes, images).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert content(sink) == table
    assert all(len(row) == 3 for row in sink.execute("SELECT * FROM target")), "what happened is no column of the table"


@pytest.mark.parametrize("where", ["staged", "durable", "sink_transaction", "published"])
def test_a_crash_between_two_steps(open_sink, tmp_path, failpoints, where):
    sink = open_sink(mode="upsert")
    changes, table = story("crash", "after")
    failpoints(f"{where}:3:raise")
    with pytest.raises(BaseException, match=where):
        job_of(sink, changes).run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    job_of(sink, changes).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert content(sink) == table
    assert sink.staged() == 0


@pytest.mark.parametrize("where", ["", "durable:3:raise"])
def test_changes_that_replace_the_whole_table(open_sink, tmp_path, failpoints, where):
    sink = open_sink(mode="upsert")
    sink.execute("CREATE TABLE target (a bigint, b text, amount bigint, PRIMARY KEY (a, b))")
    sink.execute("INSERT INTO target VALUES (77, 'x', 1)")
    changes, table = story("replaced", "after")
    failpoints(where)
    with pytest.raises(MillstreamError) if where else contextlib.nullcontext():
        job_of(sink, changes, write="replace").run(local=True, checkpoint=tmp_path / "checkpoint")
    failpoints("")
    job_of(sink, changes, write="replace").run(local=True, checkpoint=tmp_path / "checkpoint")
    assert content(sink) == table


def test_of_several_changes_of_a_key_in_an_epoch_the_last_one_counts(open_sink):
    sink = open_sink(mode="upsert")
    changes = [change("insert", 1, amount=1), change("delete", 1), change("insert", 1, amount=2)]
    changes += [change("insert", 2, amount=3), change("update", 2, amount=4), change("delete", 2), change("delete", 3)]
    job_of(sink, changes).run(local=True)
    assert content(sink) == {(1, "x"): 2}


def test_a_deleted_result_is_deleted(open_sink, tmp_path):
    sink = open_sink(mode="upsert")
    changes = [change("insert", 1, "x", 5), change("insert", 2, "y", 7), dict(ADVANCE_CLOCK(0))]
    changes += [change("delete", 2, "y", 7), change("insert", 3, "x", 1)]
    job = ms.Job("totals")
    rows = job.source("rows", ms.memory(changes), schema=SCHEMA).as_changelog(images="both")
    totals = rows.key_by("b").aggregate(n=ms.count(), total=ms.sum("amount"), id="totals")
    totals.sink("out", ms.jdbc(sink.url, table="target", mode="upsert", keys=["b"]))
    job.run(local=True, checkpoint=tmp_path / "checkpoint")
    assert sink.execute("SELECT b, n, total FROM target") == [("x", 2, 6)]


@pytest.mark.parametrize("mode", [mode for mode in MODES if mode != "upsert"])
def test_a_table_that_only_grows_takes_no_changes(open_sink, mode):
    sink = open_sink(mode=mode)
    with pytest.raises(InvalidStep, match=r"CHANGE-008.*mode='upsert'"):
        job_of(sink, [], mode=mode, keys=[])


@pytest.mark.parametrize("keys", [["a"], ["a", "amount"]])
def test_other_keys_than_those_of_the_changes(open_sink, keys):
    with pytest.raises(InvalidStep, match=r"CHANGE-008.*keys=\['a', 'b'\]"):
        job_of(open_sink(mode="upsert"), [], keys=keys)


@pytest.mark.parametrize("left", ["select", "map", "union"])
def test_changes_whose_key_is_lost_are_not_applied_by_another(open_sink, left):
    """Two rows of one `b`: the delete of the first would take both."""
    sink = open_sink(mode="upsert")
    rows = ms.Job("lost").source("rows", ms.memory([]), schema=SCHEMA).as_changelog(keys=["a"], images="both")
    lost = {
        "select": lambda: rows.select("op", "b", "amount"),
        "map": lambda: rows.map(lambda row: row, schema=SCHEMA),
        "union": lambda: rows.union(rows),
    }[left]()
    target = ms.jdbc(sink.url, table="target", mode="upsert", keys=["b"])
    with pytest.raises(InvalidStep, match=r"CHANGE-008.*as_changelog\(keys=\[...\], op='op', images='both'\)"):
        lost.sink("out", target)
    lost.as_rows().as_changelog(keys=["b"], images="both").sink("said", target)


def test_changes_that_shall_be_rows_are_added(open_sink):
    sink = open_sink(mode="insert")
    job = ms.Job("log")
    rows = job.source("rows", ms.memory(story(1, "after")[0]), schema=SCHEMA).as_changelog(keys=KEYS)
    rows.as_rows().sink("out", ms.jdbc(sink.url, table="target"))
    job.run(local=True)
    wanted = sum("op" in row for row in story(1, "after")[0])
    assert sink.execute("SELECT count(*), count(op) FROM target") == [(wanted, wanted)]


@pytest.mark.parametrize("options", [{"op_field": "amount"}, {"op_field": "a"}, {"op_field": "z"}])
def test_a_column_that_cannot_tell_which_rows_delete(open_sink, options):
    sink = open_sink(mode="upsert")
    job = ms.Job("copy")
    rows = job.source("rows", ms.memory([]), schema=SCHEMA)
    with pytest.raises(InvalidStep, match=r"JDBC-001.*op_field="):
        rows.sink("out", ms.jdbc(sink.url, table="target", mode="upsert", keys=KEYS, **options))


def test_another_column_than_that_of_the_changelog_is_not_passed_over(open_sink):
    sink = open_sink(mode="upsert")
    rows = ms.Job("copy").source("rows", ms.memory([]), schema=f"{SCHEMA}, kind string").as_changelog(keys=KEYS)
    with pytest.raises(InvalidStep, match=r"CHANGE-008.*'op'.*found kind"):
        rows.sink("out", ms.jdbc(sink.url, table="target", mode="upsert", keys=KEYS, op_field="kind"))


@pytest.mark.parametrize(("keys", "code"), [(5, "CONN-005"), ("amount", "CHANGE-008")])
def test_keys_that_are_no_list(open_sink, keys, code):
    rows = ms.Job("copy").source("rows", ms.memory([]), schema=SCHEMA).as_changelog(keys=KEYS)
    with pytest.raises(InvalidStep, match=rf"{code}.*{keys}"):
        rows.sink("out", ms.jdbc(open_sink(mode="upsert").url, table="target", mode="upsert", keys=keys))


def test_rows_without_a_changelog_may_delete_too(open_sink):
    sink = open_sink(mode="upsert")
    job = ms.Job("copy")
    rows = job.source("rows", ms.memory([change("insert", 1, amount=1), change("delete", 1)]), schema=SCHEMA)
    rows.sink("out", ms.jdbc(sink.url, table="target", mode="upsert", keys=KEYS, op_field="op"))
    job.run(local=True)
    assert content(sink) == {}


def test_a_change_of_an_unknown_kind_ends_the_run(open_sink):
    with pytest.raises(MillstreamError, match=r"CHANGE-010.*'upsert'"):
        job_of(open_sink(mode="upsert"), [change("upsert", 1, amount=1)]).run(local=True)
