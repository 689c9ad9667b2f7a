import random

import numpy as np
import pyarrow as pa
from tests.unit.state.test_pages import CountingStore

from millstream.state.columns import ColumnPages
from millstream.state.pages import Due, StepPages

SCHEMA = pa.schema([("k", pa.int64()), ("at", pa.int64()), ("n", pa.int64())])


def rows(*items):
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, item, strict=True)) for item in items], SCHEMA)


def opened(store, *, groups=4, limit=1 << 20):
    return ColumnPages(StepPages(store, "s"), SCHEMA, ("k",), key_groups=groups, page_bytes=limit)


def by_time(table):
    return np.asarray(table.column("at").combine_chunks())


def content(store, **options):
    pages = opened(store, **options)
    return {(row["k"], row["at"]): row["n"] for row in pages.load(pages.everything()).to_pylist()}


def test_rows_survive_divisions_and_replacement():
    store, expected, chance = CountingStore(), {}, random.Random(3)
    for _ in range(25):
        pages = opened(store, limit=300)
        came = {(chance.randrange(300), chance.randrange(3)): chance.randrange(99) for _ in range(30)}
        table = rows(*((k, at, n) for (k, at), n in came.items()))
        known = pages.load(pages.touched(table)).to_pylist()
        for row in known:
            assert expected[row["k"], row["at"]] == row["n"]
        kept = {(row["k"], row["at"]): row["n"] for row in known} | came
        expected |= came
        due = pages.store(rows(*((k, at, n) for (k, at), n in kept.items())), by_time)
        assert due == Due(event=min(at for _, at in expected))
    assert content(store, limit=300) == expected
    assert len(store) > 20


def test_a_key_with_very_many_rows_does_not_divide_for_ever():
    store = CountingStore()
    for epoch in range(40):
        pages = opened(store, groups=1, limit=200)
        new = rows(*((1, 10 * epoch + i, i) for i in range(10)), (2 + epoch % 3, 0, epoch))
        known = pages.load(pages.touched(new))
        kept = {(row["k"], row["at"]): row["n"] for row in [*known.to_pylist(), *new.to_pylist()]}
        pages.store(rows(*((k, at, n) for (k, at), n in kept.items())), by_time)
    assert len(content(store, groups=1)) == 403
    assert StepPages(store, "s").division(0) <= 16


def test_only_due_and_touched_pages_are_read():
    store = CountingStore()
    pages = opened(store, groups=64)
    pages.store(rows(*((k, k, 0) for k in range(300))), by_time)
    store.reads.clear()
    pages = opened(store, groups=64)
    assert pages.load(pages.due(-1)).num_rows == 0
    assert len(store.reads) == 1
    found = pages.load(pages.due(0))
    assert 0 in found.column("k").to_pylist()
    assert len(store.reads) == 2
    assert pages.load(pages.due(0)).num_rows == 0
    pages.load(pages.touched(rows((5, 0, 0), (5, 1, 0))))
    assert len(store.reads) <= 3


def test_pages_whose_rows_are_gone_are_removed():
    store = CountingStore()
    opened(store, limit=100).store(rows(*((k, 0, 0) for k in range(200))), by_time)
    pages = opened(store, limit=100)
    pages.load(pages.everything())
    assert pages.store(SCHEMA.empty_table(), by_time) == Due()
    assert dict(store) == {}


def test_without_dues_nothing_is_ever_due():
    store = CountingStore()
    assert opened(store).store(rows((1, 5, 1))) == Due()
    assert opened(store).due(2**62) == set()
