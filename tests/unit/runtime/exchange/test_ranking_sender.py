"""What rankings send: only rows that may stay, with the newest time of their key, in the order they came."""

import random

import pyarrow as pa
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.model.counts import StepCounts
from millstream.records.batch import TIME, Batch
from millstream.runtime.exchange.cells import AFTER, Outbox
from millstream.runtime.exchange.gate import InputGate
from millstream.runtime.exchange.ranking import RankingSender
from millstream.runtime.exchange.senders import RowSender, Target
from millstream.runtime.operators.rank.order import NEWEST, KeyRanking


def node_of(**options):
    job = ms.Job("ranks", max_parallelism=8)
    keyed = job.source("in", ms.memory([]), schema="k long, n long, at long").event_time("at").key_by("k")
    made = keyed.deduplicate(id="r", **options) if "keep" in options else keyed.top_n(id="r", **options)
    made.sink("out", ms.collect("x"))
    return next(node for node in job.compile().stream.nodes if node.id == "r")


def batch(*rows):
    columns = {name: [row[place] for row in rows] for place, name in enumerate(("k", "n", "at"))}
    return Batch(pa.RecordBatch.from_pydict(columns), pa.array(columns["at"], pa.int64()))


def sent(*batches, limit=1 << 20, **options):
    outbox, counts = Outbox(0), StepCounts()
    rows = RowSender(Target(0, 1, 1, 8), outbox, lambda _: 0, 1 << 20)
    sender = RankingSender(rows, KeyRanking(node_of(**options)), counts, limit)
    for each in batches:
        sender.send(each, AFTER)
    sender.close()
    tables = InputGate(outbox.drain()).tables(0, AFTER)
    return pa.concat_tables(tables, promote_options="default") if tables else None, counts


def test_rows_that_cannot_stay_are_not_sent():
    table, counts = sent(batch((1, 5, 10), (1, 3, 30), (2, 1, 5), (1, 4, 20)), n=2, by="n desc")
    assert list(zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True)) == [(1, 5), (2, 1), (1, 4)]
    assert table[TIME].to_pylist() == [10, 5, 20]
    assert table[NEWEST].to_pylist() == [30, 5, 30]
    assert (counts.rows_in, counts.passed) == (4, 4)


def test_of_equal_rows_the_last_or_the_first_stays():
    rows = batch((1, 7, 1), (1, 7, 2), (1, 7, 3))
    assert sent(rows, keep="last", by="n")[0]["at"].to_pylist() == [3]
    assert sent(rows, n=1, by="n")[0]["at"].to_pylist() == [1]
    assert sent(rows, n=1, by="n", ties=True, emit="end")[0]["at"].to_pylist() == [1, 2, 3]


def test_what_was_kept_meets_what_comes_later():
    batches = [batch((1, n, n), (1, n, n), (2, n, n), (2, n, n)) for n in range(50)]
    table, counts = sent(*batches, limit=300, n=1, by="n desc")
    best = {
        key: max(n for k, n in zip(table["k"].to_pylist(), table["n"].to_pylist(), strict=True) if k == key)
        for key in (1, 2)
    }
    assert best == {1: 49, 2: 49}
    assert table.num_rows < 30
    assert max(table[NEWEST].to_pylist()) == 49
    assert counts.rows_in == 200


def test_sorting_out_is_given_up_where_nearly_all_rows_stay():
    batches = [batch(*((100 * n + k, 1, 1) for k in range(100))) for n in range(4)]
    table, counts = sent(*batches, limit=1000, n=1, by="n")
    assert table.num_rows == 400
    assert table[NEWEST].null_count == 300
    assert counts.rows_in == 400


def test_nothing_comes_of_nothing():
    table, counts = sent(batch(), n=1, by="n")
    assert table is None
    assert counts.rows_in == 0


@pytest.mark.parametrize("seed", range(5))
def test_changes_have_the_time_of_the_newest_row_also_of_one_that_was_not_sent(seed):
    """Against plain Python: the rows of each rank and the times of changes, epoch by epoch."""
    draw = random.Random(seed)
    job = ms.Job("ranks", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema="k long, n long, at long").event_time("at", max_delay="1h")
    best = rows.key_by("k").top_n(2, by="n desc", id="r")
    # A window behind the ranking sees the time of each change.
    best.key_by("k").window(ms.tumbling("1ms")).aggregate(c=ms.count(), id="times").sink("out", ms.collect("x"))
    epochs, held, wanted = Epochs(job, parallelism=2), {}, []
    for _ in range(4):
        came = [{"k": draw.randrange(3), "n": draw.randrange(20), "at": draw.randrange(50)} for _ in range(30)]
        epochs.run(came)
        for key in sorted({row["k"] for row in came}):
            mine = [row for row in came if row["k"] == key]
            before = held.get(key, [])
            held[key] = sorted(before + mine, key=lambda row: -row["n"])[:2]
            newest = max(row["at"] for row in before + mine)
            changed = sum(place >= len(before) or row is not before[place] for place, row in enumerate(held[key]))
            wanted += [(key, newest)] * changed
    found = epochs.run(terminal=True)["out"]
    times = [(row["k"], int(row["window_start"].timestamp() * 1000)) for row in found for _ in range(row["c"])]
    assert sorted(times) == sorted(wanted)
