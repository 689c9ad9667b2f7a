"""The generator gives the values of the definition, however its rows are cut."""

import itertools

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.unit.connectors.nexmark_reference import GOLDEN, Event, h

from millstream.connectors.nexmark.dataset import event_table
from millstream.connectors.nexmark.draws import Draws, mix
from millstream.connectors.nexmark.spec import BASE, nexmark

EVENTS = 100_000


def rows(table):
    """Rows with times in milliseconds."""
    for place, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(place, field.name, pc.divide(table.column(place).cast(pa.int64()), 1000))
    return table.to_pylist()


@pytest.fixture(scope="module")
def tables():
    return {kind: event_table(nexmark(EVENTS, kinds=kind)) for kind in ("person", "auction", "bid")}


def share(column):
    return column.to_pylist().count(True) / len(column)


def test_draws_are_the_published_numbers():
    assert mix(GOLDEN) == 0xE220A8397B1DCDAF
    draws = Draws(42, np.array([2, 4]))
    assert int(draws.hashed(0)[0]) == h(2, 0) == 0x7C816738C12903B2
    assert int(draws.hashed(4)[1]) == h(4, 4) == 0x9436ED3F7203A038


def test_the_first_events_are_the_published_ones(tables):
    auction, bid, person = (rows(tables[kind].slice(0, 1))[0] for kind in ("auction", "bid", "person"))
    names = ("event_id", "id", "initialBid", "reserve", "seller", "category")
    assert [auction[name] for name in names] == [2, 1001, 190, 96321229, 1006, 13]
    assert (auction["dateTime"], auction["expires"] - auction["dateTime"]) == (BASE, 216)
    assert [bid[name] for name in ("event_id", "auction", "bidder", "price", "channel")] == [
        4, 1000, 2001, 297700, "channel-8394",
    ]  # fmt: skip
    names = ("event_id", "id", "name", "emailAddress", "city", "state")
    assert [person[name] for name in names] == [50, 1001, "Deiter Noris", "ilta@bmb.com", "Cheyenne", "WA"]
    assert person["dateTime"] == BASE + 4


@pytest.mark.parametrize(
    ("first", "options"),
    [
        (0, {}),
        (187_950, {"seed": 7}),
        (4_990, {"group": 1000}),
        (1_234_567, {"rate": 333.0, "base": 1_000}),
        (80_000_000, {"rate": 10_000_000, "seed": 2**63}),
    ],
)
def test_every_column_is_that_of_the_definition(first, options):
    expected = {"person": [], "auction": [], "bid": []}
    for n in range(first, first + 130):
        event = Event(n, **options)
        expected[event.kind].append(event.columns())
    for kind, wanted in expected.items():
        assert rows(event_table(nexmark(130, first=first, kinds=kind, **options))) == wanted


def test_all_channels_have_the_urls_of_the_definition(tables):
    pairs = dict(zip(tables["bid"]["channel"].to_pylist(), tables["bid"]["url"].to_pylist(), strict=True))
    for index in (0, 1, 2, 3, 9_999):
        assert pairs.get(f"channel-{index}", Event(0).url(index)) == Event(0).url(index)
    assert pairs["Apple"] == Event(0).url(10_003)
    assert "channel_id" not in "".join(pairs[name] for name in ("Google", "Facebook", "Baidu", "Apple"))
    assert Event(0).url(1).endswith(("query=1", "&channel_id=-2147483648"))


def test_the_envelope_holds_the_same_rows(tables):
    envelope = event_table(nexmark(EVENTS))
    assert envelope.column_names == ["event_type", "person", "auction", "bid", "dateTime", "event_id"]
    for number, kind in enumerate(("person", "auction", "bid")):
        mine = envelope.filter(pc.equal(envelope["event_type"], number))
        assert envelope[kind].null_count == EVENTS - mine.num_rows
        struct = mine[kind].combine_chunks()
        assert not struct.null_count
        found = pa.table(dict(zip(struct.type.names, struct.flatten(), strict=True)))
        found = found.append_column("event_id", mine["event_id"])
        assert found.equals(tables[kind])
        assert mine["dateTime"].equals(tables[kind]["dateTime"])
    assert envelope["event_id"].to_pylist() == list(range(2, EVENTS + 2))


@pytest.mark.parametrize("kind", ["all", "person", "auction", "bid"])
@pytest.mark.parametrize("group", [1, 1000])
def test_any_cut_gives_the_same_rows(kind, group):
    whole = event_table(nexmark(70_000, kinds=kind, group=group)).combine_chunks()
    cuts = [0, 1, 17, 3_000, 3_001, 65_535, 65_537, 70_000]
    parts = [
        event_table(nexmark(high - low, first=low, kinds=kind, group=group)) for low, high in itertools.pairwise(cuts)
    ]
    assert pa.concat_tables(parts).combine_chunks().equals(whole)


@pytest.mark.parametrize("kind", ["person", "auction", "bid"])
def test_a_column_is_the_same_alone(tables, kind):
    for name in tables[kind].column_names:
        assert event_table(nexmark(EVENTS, kinds=kind, columns=[name]))[name].equals(tables[kind][name])


def test_fifty_ids_hold_one_person_three_auctions_and_the_rest_bids(tables):
    assert [tables[kind].num_rows for kind in ("person", "auction", "bid")] == [2000, 6000, 92_000]
    kinds = event_table(nexmark(500, first=77, columns=["event_type"]))["event_type"].to_pylist()
    assert all(
        [kinds[low : low + 50].count(kind) for kind in (0, 1, 2)] == [1, 3, 46] for low in range(len(kinds) - 49)
    )


def test_groups_shuffle_ids_and_lose_none():
    table = event_table(nexmark(9_999, group=1000, columns=["event_id", "dateTime"]))
    ids = table["event_id"].to_pylist()
    assert sorted(ids) == list(range(2, 10_001))
    assert ids != sorted(ids)
    times = np.array(table["dateTime"].cast(pa.int64()))
    assert 50_000 < (np.maximum.accumulate(times) - times).max() < 100_000  # microseconds


def test_hot_shares(tables):
    bid, auction = tables["bid"], tables["auction"]
    hot_bidder = pc.equal(pc.subtract(bid["bidder"], 1), pc.multiply(pc.divide(bid["bidder"], 100), 100))
    hot_seller = pc.equal(auction["seller"], pc.multiply(pc.divide(auction["seller"], 100), 100))
    hot_auction = pc.equal(bid["auction"], pc.multiply(pc.divide(bid["auction"], 100), 100))
    hot_channel = pc.invert(pc.starts_with(bid["channel"], "channel-"))
    assert share(hot_channel) == pytest.approx(1 / 2, abs=0.01)
    assert share(hot_auction) == pytest.approx(1 / 2, abs=0.02)
    assert share(hot_bidder) == pytest.approx(3 / 4, abs=0.02)
    assert share(hot_seller) == pytest.approx(3 / 4, abs=0.02)


def test_shares_that_queries_rely_on(tables):
    bid, auction, person = tables["bid"], tables["auction"], tables["person"]
    price = bid["price"]
    for low, high in ((100, 10_000), (10_000, 1_000_000), (1_000_000, 10**8 + 1)):
        band = pc.and_(pc.greater_equal(price, low), pc.less(price, high))
        assert share(band) == pytest.approx(1 / 3, abs=0.01)
    assert share(pc.equal(auction["category"], 10)) == pytest.approx(0.2, abs=0.02)
    assert share(pc.is_in(person["state"], pa.array(["OR", "ID", "CA"]))) == pytest.approx(0.5, abs=0.03)
    known = pc.or_(pc.invert(pc.starts_with(bid["channel"], "channel-")), pc.match_substring(bid["url"], "channel_id="))
    assert share(known) == pytest.approx(0.95, abs=0.01)
    newest = np.array(bid["event_id"]) // 50 * 3 + 2 + 1000
    assert (np.array(bid["auction"]) > newest).mean() == pytest.approx(0.045, abs=0.005)


def test_lengths_and_lives_stay_within_bounds(tables):
    extra = pc.binary_length(tables["bid"]["extra"])
    assert pc.min_max(extra).as_py() == {"min": 54, "max": 81}
    auction = tables["auction"]
    life = np.array(auction["expires"].cast(pa.int64())) - np.array(auction["dateTime"].cast(pa.int64()))
    assert (life.min() // 1000, life.max() // 1000) == (1, 332)
    assert life.mean() / 1000 == pytest.approx(166.5, abs=3)
    for name, longest in (("itemName", 19), ("description", 99)):
        text = auction[name]
        assert pc.max(pc.binary_length(text)).as_py() == longest
        assert pc.ascii_trim_whitespace(text).equals(text)
