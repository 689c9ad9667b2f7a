"""Segments: rows are found by key, marked, merged and forgotten; what is written stays linear in what is kept."""

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.state.test_pages import CountingStore

from millstream.state.pages import NEVER, StepPages
from millstream.state.segment import INDEX, Segment, codes_of, expanded
from millstream.state.segments import Segments

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])
GROUPS = 4


def segment(rows, ends=None):
    batch = pa.RecordBatch.from_pylist([{"k": k, "n": n} for k, n in rows], schema=SCHEMA)
    times = np.array([n for _, n in rows], np.int64)
    codes = codes_of([batch.column("k")], GROUPS)
    return Segment.arrived(batch, codes, times, times + NEVER - 10**6 if ends is None else np.array(ends, np.int64))


def opened(store):
    return Segments(store, "s:left", SCHEMA)


def flush(segments, clock=0, **options):
    return segments.flush(clock, attention=lambda _: NEVER, **options)


def found(store, keys):
    """The numbers kept for each key, by age."""
    asking = segment([(key, 0) for key in keys])
    pairs = {}
    for hit in opened(store).find(asking, 3):
        mine = asking.take(hit.asking).column("k").to_pylist()
        for key, row in zip(mine, hit.segment.take(hit.places).to_pylist(), strict=True):
            if key == row["k"]:
                pairs.setdefault(key, []).append(row["n"])
    return pairs


batches_ = st.lists(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 50)), max_size=12), max_size=12)


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches_, st.lists(st.integers(0, 12), unique=True, max_size=6))
def test_every_row_is_found_by_its_key_in_the_order_it_came(batches, keys):
    store, kept = CountingStore(), {}
    for rows in batches:
        segments = opened(store)
        if rows:
            segments.add(segment(rows))
        flush(segments)
        for key, n in rows:
            kept.setdefault(key, []).append(n)
    assert found(store, keys) == {key: kept[key] for key in keys if key in kept}


def test_segments_stay_few_and_a_row_is_rewritten_a_few_times():
    store, written = CountingStore(), 0
    for epoch in range(64):
        segments = opened(store)
        segments.add(segment([(key, epoch) for key in range(1200)]))
        before = set(store)
        flush(segments)
        written += sum(
            pa.ipc.read_record_batch(pa.py_buffer(store[name]), SCHEMA).num_rows
            for name in set(store) - before
            if name.startswith("s:left/") and not name.endswith("directory")
        )
    per_group = {}
    for place, _ in StepPages(store, "s:left"):
        per_group[place.group] = per_group.get(place.group, 0) + 1
    assert max(per_group.values()) <= 10
    assert written < 1200 * 64 * 5
    assert found(store, [7]) == {7: list(range(64))}


def test_small_segments_become_one_at_once():
    store = CountingStore()
    for epoch in range(50):
        segments = opened(store)
        segments.add(segment([(1, epoch)]))
        flush(segments)
    assert len(list(StepPages(store, "s:left"))) == 1
    assert found(store, [1]) == {1: list(range(50))}


def test_marks_are_kept_over_epochs_and_merges():
    store = CountingStore()
    for n in range(6):
        segments = opened(store)
        segments.add(segment([(1, n)]))
        flush(segments)
        if n == 2:
            segments = opened(store)
            for hit in segments.find(segment([(1, 0)]), 100):
                hit.segment.mark(hit.places[hit.segment.times[hit.places] == 1])
            flush(segments)
    asking = segment([(1, 0)])
    marks = {}
    for hit in opened(store).find(asking, 100):
        at = zip(hit.segment.times[hit.places], hit.segment.matched[hit.places], strict=True)
        marks |= {int(time): bool(mark) for time, mark in at}
    assert marks == {0: False, 1: True, 2: False, 3: False, 4: False, 5: False}


def test_rows_that_end_before_the_clock_are_dropped_whole_or_when_merged():
    store = CountingStore()
    segments = opened(store)
    segments.add(segment([(1, 0), (1, 1)], ends=[5, 9]))
    flush(segments)
    assert found(store, [1]) == {1: [0, 1]}
    flush(opened(store), clock=9)
    assert found(store, [1]) == {1: [0, 1]}, "a segment with a row that counts is left as it is"
    flush(opened(store), clock=10)
    assert not store
    segments = opened(store)
    segments.add(segment([(1, 0), (1, 1)], ends=[5, 9]))
    flush(segments, clock=6)
    assert found(store, [1]) == {1: [1]}


def test_the_index_has_a_line_for_each_row():
    store = CountingStore()
    segments = opened(store)
    segments.add(segment([(key, key) for key in range(30)]))
    flush(segments)
    rows = {place: StepPages(store, "s:left").read(place) for place, _ in StepPages(store, "s:left")}
    index = {place: StepPages(store, "s:left-index").read(place) for place, _ in StepPages(store, "s:left-index")}
    assert rows.keys() == index.keys()
    for place, content in rows.items():
        batch = pa.ipc.read_record_batch(pa.py_buffer(content), SCHEMA)
        lines = pa.ipc.read_record_batch(pa.py_buffer(index[place]), INDEX)
        assert np.array_equal(np.asarray(lines.column("code")), codes_of([batch.column("k")], GROUPS))


def test_pairs_are_made_a_bounded_number_at_a_time():
    low, counts = np.array([10, 0, 5]), np.array([2, 0, 3])
    pieces = list(expanded(low, counts, 2))
    assert [(places.tolist(), numbers.tolist()) for places, numbers in pieces] == [
        ([0, 0], [10, 11]),
        ([2, 2, 2], [5, 6, 7]),
    ]


def test_rows_beyond_the_budget_are_let_go_and_loaded_again():
    store = CountingStore()
    segments = opened(store)
    segments.add(segment([(key, key) for key in range(40)]))
    flush(segments)
    asking = segment([(key, 0) for key in range(40)])

    def held(**options):
        """The most segments whose rows were held at once, and the rows that were found."""
        segments, most, rows = Segments(store, "s:left", SCHEMA, **options), 0, []
        for hit in segments.find(asking, 3):
            rows += hit.segment.take(hit.places).to_pylist()
            most = max(most, sum(each._rows is not None for each in segments._opened.values()))
        return most, sorted(row["k"] for row in rows)

    assert held() == (GROUPS, list(range(40)))
    assert held(state_bytes=1) == (1, list(range(40)))
