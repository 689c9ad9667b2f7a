"""The `nexmark` source: positions, splits, pace and options."""

import datetime as dt
import json

import pyarrow as pa
import pytest

from millstream.connectors.nexmark.dataset import event_table
from millstream.connectors.nexmark.source import NexmarkEnumerator, NexmarkReader
from millstream.connectors.nexmark.spec import BASE, DECLARATION, nexmark
from millstream.contract.source import SourceContext
from millstream.errors import InvalidSchema, InvalidStep
from millstream.model.connector import checked_options
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import schema_of


def checked(**options):
    spec = json.loads(json.dumps(nexmark(**options).options))
    return checked_options(DECLARATION.source.options, spec, step="n", name="nexmark")


def opened(schema=None, parallelism=2, clock=lambda: 1000.0, **options):
    found = checked(**options)
    schema = schema or DECLARATION.source.schema(found)
    context = SourceContext(step="n", schema=schema, log_dir=None, parallelism=parallelism)
    return NexmarkEnumerator(found, context, clock=clock), NexmarkReader(found, schema)


def read(enumerator, reader, credit=10**9):
    position, batches = enumerator.initial(), []
    while True:
        advance = enumerator.advance(position, credit)
        for split in enumerator.splits(position, advance.position):
            batches += reader.read(json.loads(json.dumps(split.body)))
        if advance.finished:
            return pa.Table.from_batches(batches).combine_chunks()
        position = advance.position


@pytest.mark.parametrize(("credit", "parallelism", "partitions"), [(977, 1, None), (8192, 3, 1), (12_345, 2, 5)])
@pytest.mark.parametrize("kinds", ["all", "auction"])
def test_rows_do_not_depend_on_epochs_and_partitions(kinds, credit, parallelism, partitions):
    source = opened(parallelism=parallelism, events=20_000, first=100, kinds=kinds, partitions=partitions)
    assert read(*source, credit).equals(event_table(nexmark(20_000, first=100, kinds=kinds)).combine_chunks())


def test_a_position_is_the_number_of_the_next_event():
    enumerator, _ = opened(events=100, first=1_000)
    assert enumerator.initial() == {"row": 1_000}
    advance = enumerator.advance({"row": 1_000}, 30)
    assert (advance.position, advance.finished, advance.lag) == ({"row": 1_030}, False, 70)
    assert enumerator.advance(advance.position, 500).position == {"row": 1_100}
    assert enumerator.advance(advance.position, 500).finished


def test_partitions_cut_the_range_of_an_epoch():
    enumerator, _ = opened(parallelism=2, partitions=4)
    splits = enumerator.splits({"row": 0}, {"row": 80_000})
    assert len(splits) == 4
    assert [split.body["first"] for split in splits[1:]] == [split.body["end"] for split in splits[:-1]]
    assert {split.partition for split in splits} == {"0"}
    assert len(opened(parallelism=2)[0].splits({"row": 0}, {"row": 80_000})) == 2


def test_a_source_without_a_number_of_events_never_ends():
    enumerator, _ = opened()
    advance = enumerator.advance({"row": 5}, 10)
    assert (advance.position, advance.finished) == ({"row": 15}, False)
    assert not DECLARATION.source.is_bounded(checked())
    assert DECLARATION.source.is_bounded(checked(events=1))
    assert DECLARATION.source.capability is SourceCapability.REPLAYABLE


def test_a_paced_source_gives_events_as_they_come_due():
    now = [1000.0]
    enumerator, _ = opened(events=500, first=300, rate=100, paced=True, clock=lambda: now[0])
    start = enumerator.initial()
    assert start["row"] == 300
    assert enumerator.advance(start, 100).position == start
    now[0] += 2.0
    advance = enumerator.advance(start, 150)
    assert (advance.position["row"], advance.lag, advance.finished) == (450, 50, False)
    now[0] += 60
    assert enumerator.advance(advance.position, 1000).position["row"] == 800


def test_the_schema_follows_the_kind_and_the_columns():
    assert DECLARATION.source.schema(checked(kinds="bid")) == schema_of(
        "auction long not null, bidder long not null, price long not null, channel string not null, "
        "url string not null, dateTime timestamp not null, extra string not null, event_id long not null"
    )
    chosen = DECLARATION.source.schema(checked(kinds="auction", columns=["seller", "id"]))
    assert chosen == schema_of("seller long not null, id long not null")
    envelope = DECLARATION.source.schema(checked())
    assert envelope.names == ("event_type", "person", "auction", "bid", "dateTime", "event_id")
    assert envelope["bid"].type.names == ["auction", "bidder", "price", "channel", "url", "dateTime", "extra"]


def test_a_schema_of_the_user_chooses_columns_and_types():
    schema = schema_of("dateTime timestamp_ntz, bid struct<price:double>, event_type long")
    found = read(*opened(schema, events=10))
    assert found.schema == schema.arrow
    assert found["event_type"].to_pylist()[:3] == [1, 1, 2]
    assert found["bid"].to_pylist()[1:3] == [None, {"price": 297700.0}]
    with pytest.raises(InvalidSchema, match="other"):
        opened(schema_of("other long"))
    with pytest.raises(InvalidSchema, match="price"):
        DECLARATION.source.schema(checked(kinds="auction", columns=["price"]))


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (5_000, 5_000),
        ("2026-01-01T00:00Z", BASE),
        ("2026-01-01", BASE),
        ("2026-01-01T01:00+01:00", BASE),
        (dt.datetime(2026, 1, 1), BASE),
    ],
)
def test_the_base_may_be_given_in_several_forms(base, expected):
    found = read(*opened(events=1, base=base, columns=["dateTime"]))
    assert found["dateTime"].cast(pa.int64()).to_pylist() == [expected * 1000]


@pytest.mark.parametrize(
    "options",
    [
        {"events": -1},
        {"rate": 0},
        {"base": "yesterday"},
        {"group": 0},
        {"group": 953 * 2},
        {"first": -1},
        {"kinds": "bids"},
        {"columns": []},
        {"columns": ["event_id", "event_id"]},
        {"partitions": 0},
        {"paced": 1},
    ],
)
def test_a_wrong_option_is_refused_and_named(options):
    with pytest.raises(InvalidStep, match=next(iter(options))):
        checked(**options)
