"""Rankings: the order of every type, what an epoch says, and what it keeps."""

import datetime as dt
import decimal

import pyarrow as pa
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.runtime.operators.rank.order import places

NAN = float("nan")


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [None, -(2**63), -1, 0, 2**63 - 1]),
        (pa.int64(), [-(2**63), -1, 0, 2**63 - 1]),
        (pa.float64(), [float("-inf"), -1.5, 0.0, 2.5, float("inf"), NAN]),
        (pa.float64(), [None, -1.5, 0.0, 2.5]),
        (pa.float32(), [None, float("-inf"), -1.5, 0.0, 2.5, float("inf"), NAN]),
        (pa.string(), [None, "", "A", "a", "ä", "\U0001f600"]),
        (pa.bool_(), [None, False, True]),
        (pa.date32(), [None, dt.date(1969, 1, 1), dt.date(2020, 1, 1)]),
        (
            pa.timestamp("us", tz="UTC"),
            [dt.datetime(1960, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1, tzinfo=dt.UTC)],
        ),
        (pa.decimal128(10, 2), [None, decimal.Decimal("-1.50"), decimal.Decimal("0.25")]),
        (pa.binary(), [b"", b"\x00", b"\xff"]),
    ],
)
def test_the_order_of_values(kind, values):
    column = pa.chunked_array([values, values[::-1]], kind)
    up, down = places(column, descending=False), places(column, descending=True)
    count = len(values)
    assert up[:count].tolist() == sorted(up[:count].tolist())
    assert len(set(up[:count].tolist())) == count
    assert down[:count].tolist() == sorted(down[:count].tolist(), reverse=True)
    assert up[:count].tolist() == up[count:].tolist()[::-1]


@pytest.mark.parametrize("values", [[0.0, -0.0], [0.0, None, -0.0], [-0.0, None, 0.0]])
def test_both_zeros_are_one_value(values):
    up = places(pa.chunked_array([values]), descending=False)
    assert up[0] == up[-1]
    assert len(set(up.tolist())) == len({0.0, *values})


def ranks(emit="epoch", **options):
    job = ms.Job("ranks", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema="k string, n long, at long").event_time("at")
    rows.key_by("k").top_n(2, by="n desc", id="r", emit=emit, **options).sink("out", ms.collect("x"))
    return Epochs(job, parallelism=2)


def said(made):
    return sorted((row["k"], row["rank_number"], row["n"]) for row in made["out"])


def row(k, n, at=0):
    return {"k": k, "n": n, "at": at}


def test_an_epoch_says_only_what_changed():
    epochs = ranks()
    assert said(epochs.run([row("a", 5), row("b", 1), row("a", 3), row("a", 1)])) == [
        ("a", 1, 5),
        ("a", 2, 3),
        ("b", 1, 1),
    ]
    assert said(epochs.run([row("a", 2)])) == []
    assert said(epochs.run([row("a", 4), row("b", 1)])) == [("a", 2, 4), ("b", 2, 1)]
    assert said(epochs.run([row("a", 9)])) == [("a", 1, 9), ("a", 2, 5)]


def test_nothing_is_said_before_the_end():
    epochs = ranks(emit="end")
    assert said(epochs.run([row("a", 5), row("b", 1)])) == []
    assert said(epochs.run([row("a", 7), row("a", 6)])) == []
    assert said(epochs.run(terminal=True)) == [("a", 1, 7), ("a", 2, 6), ("b", 1, 1)]


def test_what_is_kept_is_bounded_by_the_ranks():
    epochs = ranks()
    sizes = []
    for number in range(30):
        epochs.run([row(key, number) for key in "abc"])
        sizes.append(sum(map(len, (page for store in epochs.stores.values() for page in store.values()))))
    assert max(sizes[2:]) <= sizes[1] * 1.2


def test_a_change_carries_the_newest_time_of_its_key():
    job = ms.Job("ranks")
    rows = job.source("in", ms.memory([]), schema="k string, n long, at long").event_time("at")
    best = rows.key_by("k").top_n(1, by="n", id="r")
    counts = best.key_by("k").window(ms.tumbling("1s")).aggregate(c=ms.count(), id="w")
    counts.sink("out", ms.collect("x"))
    counts.late.sink("late", ms.collect("y"))
    epochs = Epochs(job)
    epochs.run([row("a", 5, 100)])
    epochs.run(watermark=5000)
    epochs.run([row("a", 1, 5500)])
    made = epochs.run(terminal=True)
    assert made["late"] == []
    assert [r["c"] for r in made["out"]] == [1]


def test_rows_that_were_replaced_do_not_add_up():
    epochs = ranks()
    for number in range(80):
        made = epochs.run([row(f"k{key}", 100 * number + key) for key in range(200)])
        assert len(made["out"]) == (200 if number == 0 else 400)
    assert sum(map(len, epochs.stores[1, 0].values())) + sum(map(len, epochs.stores[1, 1].values())) < 400_000
    assert said(epochs.run([row("k7", 1)])) == []
    assert said(epochs.run([row("k7", 7950)])) == [("k7", 1, 7950), ("k7", 2, 7907)]


def test_rows_of_keys_that_nothing_came_for_are_not_read():
    epochs = ranks()
    for number in range(10):
        epochs.run([row(f"{number}-{key}", key) for key in range(3000)])
    for store in epochs.stores.values():
        store.reads.clear()
    assert len(epochs.run([row(f"new-{key}", key) for key in range(100)])["out"]) == 100
    read = [name for store in epochs.stores.values() for name in store.reads]
    assert any("index" in name for name in read)
    assert [name for name in read if "index" not in name and not name.endswith("directory")] == []
