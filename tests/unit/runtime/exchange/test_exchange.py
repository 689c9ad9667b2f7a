import random

import numpy as np
import pyarrow as pa
import pytest

from millstream.records.batch import Batch, event_times, from_table
from millstream.records.key_groups import key_group, owner, stable_hash
from millstream.runtime.exchange.cells import AFTER, BEFORE, Outbox
from millstream.runtime.exchange.gate import InputGate
from millstream.runtime.exchange.senders import RowSender, Target, by_key, round_robin, same_subtask, split_by


def batch(values, times=None):
    rows = pa.RecordBatch.from_pydict({"k": pa.array(values, pa.int64())})
    return Batch(rows, None if times is None else pa.array(times, pa.int64()))


def values(found):
    return found.rows.column("k").to_pylist()


def target(parallelism, port=3):
    return Target(port, 1, parallelism, 16)


def sent(chooser, batches, *, parallelism, task=0, limit=1 << 20):
    outbox = Outbox(task)
    sender = RowSender(target(parallelism), outbox, chooser, limit)
    for each, phase in batches:
        sender.send(each, phase)
    sender.close()
    return list(outbox.drain())


def test_the_gate_orders_cells_whatever_the_shuffle_did():
    cells = []
    for task in (0, 1, 2):
        batches = [(batch([10 * task + i]), AFTER if i else BEFORE) for i in range(5)]
        cells += sent(by_key(("k",), target(1)), batches, parallelism=1, task=task, limit=1)
    straight = InputGate(cells)
    assert [v for each in straight.batches(3, BEFORE) for v in values(each)] == [0, 10, 20]
    expected = [v for each in straight.batches(3, AFTER) for v in values(each)]
    assert expected == [1, 2, 3, 4, 11, 12, 13, 14, 21, 22, 23, 24]
    for seed in range(10):
        shuffled = list(cells)
        random.Random(seed).shuffle(shuffled)
        assert [v for each in InputGate(shuffled).batches(3, AFTER) for v in values(each)] == expected
    assert list(straight.batches(4, AFTER)) == []


def test_rows_of_a_key_reach_the_owner_of_its_group_in_order():
    rows = [random.Random(1).randrange(50) for _ in range(500)]
    cells = sent(by_key(("k",), target(3)), [(batch(rows, range(500)), AFTER)], parallelism=3)
    got = {cell.slot: next(InputGate([cell]).batches(3, AFTER)) for cell in cells}
    assert sorted(v for each in got.values() for v in values(each)) == sorted(rows)
    for slot, each in got.items():
        groups = key_group(stable_hash([each.rows.column("k")]), 16)
        assert (owner(groups, 16, 3) == slot).all()
        times = each.times.to_pylist()
        assert times == sorted(times)
        assert [rows[time] for time in times] == values(each)


def test_round_robin_goes_on_over_batches_and_payloads():
    cells = sent(round_robin(target(3), 1), [(batch([0, 1]), AFTER), (batch([2, 3, 4]), AFTER)], parallelism=3, limit=1)
    got = {slot: [] for slot in range(3)}
    for cell in cells:
        got[cell.slot] += [v for each in InputGate([cell]).batches(3, AFTER) for v in values(each)]
    assert got == {1: [0, 3], 2: [1, 4], 0: [2]}


def test_forward_keeps_a_partition_together():
    for task in range(5):
        cells = sent(same_subtask(target(2), task), [(batch([1, 2, 3]), AFTER)], parallelism=2, task=task)
        assert [cell.slot for cell in cells] == [task % 2]


@pytest.mark.parametrize("slots", [[0, 2, 0, 2, 2], [1, 1, 1, 1, 1], [2, 1, 0, 1, 2]])
def test_split_by_loses_nothing_and_keeps_order(slots):
    rows, found = list(range(5)), {}
    for slot, part in split_by(batch(rows, [10 * row for row in rows]), np.array(slots), 4):
        found[slot] = values(part)
        assert part.times.to_pylist() == [10 * row for row in values(part)]
    assert found == {slot: [row for row in rows if slots[row] == slot] for slot in sorted(set(slots))}


def test_one_subtask_gets_the_batch_as_it_is():
    whole = batch([3, 1, 2])
    assert list(split_by(whole, 0, 1)) == [(0, whole)]
    assert by_key(("k",), target(1))(whole) == 0


def test_empty_batches_send_nothing_and_a_drained_outbox_is_empty():
    outbox = Outbox(0)
    sender = RowSender(target(2), outbox, by_key(("k",), target(2)), 100)
    sender.send(batch([]), AFTER)
    sender.close()
    assert list(outbox.drain()) == []
    sender.send(batch([1]), AFTER)
    sender.close()
    sender.close()
    assert len(list(outbox.drain())) == 1
    assert list(outbox.drain()) == []


def test_rows_with_and_without_event_time_travel_together():
    cells = sent(same_subtask(target(1), 0), [(batch([1]), AFTER), (batch([2], [7]), AFTER)], parallelism=1)
    (got,) = InputGate(cells).batches(3, AFTER)
    assert (values(got), got.times.to_pylist()) == ([1, 2], [None, 7])


def test_the_time_column_round_trips_also_for_no_rows():
    for times in (None, []):
        made = from_table(pa.Table.from_batches([batch([], times).with_time_column()]))
        assert made.rows.schema.names == ["k"]
        assert (made.times is None) == (times is None)


def test_event_times_are_floored():
    micros = pa.array([-1, 0, 1999, None], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
    assert event_times(micros).to_pylist() == [-1, 0, 1, None]
    assert event_times(pa.array([5], pa.int64())).to_pylist() == [5]
