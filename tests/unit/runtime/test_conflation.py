"""The newest row of each key stays, and keys that are many cost no more than their rows."""

import numpy as np
import pyarrow as pa

from millstream.runtime import conflation


def parts(rows, keys, size=1000):
    numbers = np.arange(rows)
    whole = pa.record_batch({"k": pa.array(numbers % keys), "n": pa.array(numbers)})
    return [whole.slice(start, size) for start in range(0, rows, size)]


def test_the_newest_row_of_each_key_stays():
    dropped = []
    (kept,) = conflation.newest_rows(parts(5_000, 700), ["k"], dropped.append)
    assert kept.column("n").to_pylist() == list(range(4_300, 5_000))
    assert sum(dropped) == 4_300


def test_many_keys_are_looked_through_a_few_times(monkeypatch):
    looked, newest = [], conflation._newest

    def watched(held, key, dropped):
        looked.append(sum(batch.num_rows for batch in held))
        return newest(held, key, dropped)

    monkeypatch.setattr(conflation, "_HELD", 10_000)
    monkeypatch.setattr(conflation, "_newest", watched)
    (kept,) = conflation.newest_rows(parts(100_000, 100_000), ["k"], lambda _: None)
    assert kept.num_rows == 100_000
    assert sum(looked) < 4 * 100_000
