import collections
import datetime as dt
import json

import pyarrow as pa
import pytest

from millstream.connectors.datagen.source import DatagenEnumerator, DatagenReader
from millstream.connectors.datagen.spec import DECLARATION, datagen
from millstream.contract.source import SourceContext
from millstream.errors import InvalidSchema, InvalidStep
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of

FIELDS = {
    "id": {"kind": "sequence", "start": 5, "step": 2},
    "n": {"kind": "int", "low": -3, "high": 4},
    "price": {"kind": "float", "low": 1, "high": 2, "decimals": 2},
    "color": {"kind": "choice", "values": ["red", "green", "blue"], "weights": [8, 2, 0]},
    "user": {"kind": "string", "prefix": "u", "cardinality": 100},
    "at": {"kind": "timestamp", "start": "2024-05-01T00:00:00Z", "step": 10, "jitter": "1s"},
    "hot": {"kind": "zipf", "cardinality": 1000, "exponent": 1.2},
    "maybe": {"kind": "int", "high": 10, "nulls": 0.25},
}


def opened(schema=None, parallelism=2, clock=lambda: 1000.0, **options):
    spec = json.loads(json.dumps(datagen(**{"fields": FIELDS, "rows": 30_000, **options}).options))
    checked = checked_options(DECLARATION.source.options, spec, step="g", name="datagen")
    schema = schema or DECLARATION.source.schema(checked)
    context = SourceContext(step="g", schema=schema, log_dir=None, parallelism=parallelism)
    return DatagenEnumerator(checked, context, clock=clock), DatagenReader(checked, schema)


def read(enumerator, reader, credit=10**9):
    position, batches = enumerator.initial(), []
    while True:
        advance = enumerator.advance(position, credit)
        for split in enumerator.splits(position, advance.position):
            batches += reader.read(json.loads(json.dumps(split.body)))
        if advance.finished:
            return pa.Table.from_batches(batches).combine_chunks()
        position = advance.position


@pytest.fixture(scope="module")
def table():
    return read(*opened())


def test_the_schema_follows_from_the_fields(table):
    checked = checked_options(DECLARATION.source.options, datagen(fields=FIELDS).options, step=None, name="datagen")
    assert DECLARATION.source.schema(checked) == schema_of(
        "id long not null, n long not null, price double not null, color string not null, user string not null, "
        "at timestamp not null, hot long not null, maybe long"
    )
    assert DECLARATION.source.is_bounded(checked) is False
    assert table.num_rows == 30_000


@pytest.mark.parametrize(("credit", "parallelism"), [(977, 1), (8192, 3), (12_345, 7)])
def test_rows_do_not_depend_on_cuts(table, credit, parallelism):
    assert read(*opened(parallelism=parallelism), credit).equals(table)


def test_seed_and_field_name_choose_the_values(table):
    other = read(*opened(seed=1))
    assert not other.column("n").equals(table.column("n"))
    assert other.column("id").equals(table.column("id"))
    alone = read(*opened(fields={"n": FIELDS["n"]}))
    assert alone.column("n").equals(table.column("n"))


def test_values_are_of_their_kind(table):
    assert table.column("id")[:3].to_pylist() == [5, 7, 9]
    assert set(table.column("n").to_pylist()) == set(range(-3, 4))
    prices = table.column("price").to_pylist()
    assert min(prices) >= 1
    assert max(prices) <= 2
    assert all(round(price, 2) == price for price in prices)
    colors = collections.Counter(table.column("color").to_pylist())
    assert set(colors) == {"red", "green"}
    assert 0.75 < colors["red"] / 30_000 < 0.85
    assert set(table.column("user").to_pylist()) == {f"u{n}" for n in range(100)}
    assert 0.2 < table.column("maybe").null_count / 30_000 < 0.3


def test_times_come_late_by_at_most_the_jitter(table):
    start = dt.datetime(2024, 5, 1, tzinfo=dt.UTC)
    late = [start + dt.timedelta(milliseconds=10 * n) - at for n, at in enumerate(table.column("at").to_pylist())]
    assert min(late) >= dt.timedelta(0)
    assert dt.timedelta(milliseconds=900) < max(late) <= dt.timedelta(seconds=1)


def test_zipf_prefers_low_ranks(table):
    counts = collections.Counter(table.column("hot").to_pylist())
    assert counts[0] > 3 * counts[4] > 0
    assert max(counts) <= 999
    named = read(*opened(fields={"hot": {"kind": "zipf", "cardinality": 3, "prefix": "k"}}, rows=100))
    assert set(named.column("hot").to_pylist()) == {"k0", "k1", "k2"}


def test_splits_spread_over_parallel_readers():
    enumerator, _ = opened(parallelism=4, rows=None)
    splits = enumerator.splits({"row": 0}, {"row": 80_000})
    assert [split.body["first"] % 8192 for split in splits] == [0, 0, 0, 0]
    assert sum(split.rows for split in splits) == 80_000
    assert max(split.rows for split in splits) - min(split.rows for split in splits) < 2 * 8192
    assert enumerator.splits({"row": 5}, {"row": 5}) == []


def test_a_paced_source_gives_rows_as_they_come_due():
    now = [1000.0]
    enumerator, _ = opened(rows=50, rate=10, clock=lambda: now[0])
    start = enumerator.initial()
    assert enumerator.advance(start, 100).position == start
    now[0] += 2.0
    advance = enumerator.advance(start, 15)
    assert (advance.position["row"], advance.lag, advance.finished) == (15, 5, False)
    now[0] += 60
    advance = enumerator.advance(advance.position, 1000)
    assert (advance.position["row"], advance.finished) == (50, True)


def test_a_schema_of_the_user_chooses_columns_and_types():
    found = read(*opened(schema_of("n int, id double")))
    assert found.schema.names == ["n", "id"]
    assert found.schema.types == [pa.int32(), pa.float64()]
    with pytest.raises(InvalidSchema, match="other"):
        opened(schema_of("other long"))


@pytest.mark.parametrize(
    "field",
    [
        {"kind": "integer"},
        {"kind": "int"},
        {"kind": "int", "high": 5, "hi": 1},
        {"kind": "int", "low": 5, "high": 5},
        {"kind": "int", "high": "5"},
        {"kind": "choice", "values": []},
        {"kind": "choice", "values": ["a", 1]},
        {"kind": "choice", "values": ["a"], "weights": [0]},
        {"kind": "choice", "values": ["a"], "weights": [1, 2]},
        {"kind": "string", "cardinality": 0},
        {"kind": "timestamp", "start": "yesterday"},
        {"kind": "timestamp", "step": "soon"},
        {"kind": "sequence", "nulls": 2},
    ],
)
def test_a_wrong_field_is_refused_and_named(field):
    with pytest.raises(InvalidStep, match="'bad'"):
        opened(fields={"bad": field})
