"""Queries that join streams: q3, q4, q6, q9 and q20."""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from examples.nexmark.queries.events import Events

import millstream as ms

_DETAILS = ("itemName", "description", "initialBid", "reserve", "expires", "seller", "category")
_AUCTION = ("id", *_DETAILS, "dateTime", "extra")
_IN_TIME = "bid_dateTime BETWEEN dateTime AND expires"


def q3(events: Events) -> ms.DataStream:
    """Who sells in one category, in three states."""
    auctions = events.auctions("id", "seller", "category").filter("category = 10").select("id", "seller")
    persons = events.persons("id", "name", "city", "state").filter("state IN ('OR', 'ID', 'CA')")
    people = persons.select("name", "city", "state", person="id")
    sales = auctions.key_by("seller").join(people.key_by("person"), id="sales")
    return sales.select("name", "city", "state", "id")


def q20(events: Events) -> ms.DataStream:
    """Bids with the auction they are for, of one category."""
    bids = events.bids("auction", "bidder", "price", "channel", "url", "extra")
    auctions = events.auctions(*_AUCTION).filter("category = 10")
    both = bids.key_by("auction").join(auctions.key_by("id"), prefix="auction_", id="both")
    bid = ("auction", "bidder", "price", "channel", "url")
    named = {"bid_dateTime": "dateTime", "bid_extra": "extra"}
    return both.select(*bid, named, *_DETAILS, "auction_dateTime", "auction_extra")


def _bids_in_time(events: Events, auction: Sequence[str], bid: Sequence[str]) -> ms.DataStream:
    """Each auction with each bid that came while it was open; columns of a bid that an auction has too begin with `bid_`."""
    auctions = events.auctions("id", "expires", *auction)
    bids = events.bids("auction", "price", *bid)
    return auctions.key_by("id").join(bids.key_by("auction"), where=_IN_TIME, prefix="bid_", id="bids-in-time")


class Rise(ms.ProcessFunction):
    """By how much the winning price of an auction rose, and whether it is the first one."""

    final: ms.ValueState[int] = ms.ValueState(int)

    def process(self, row: Mapping[str, Any], ctx: ms.Context) -> Iterator[dict[str, Any]]:
        before = self.final.value()
        self.final.update(row["final"])
        yield {"category": row["category"], "rise": row["final"] - (before or 0), "sold": int(before is None)}


def q4(events: Events) -> ms.DataStream:
    """The average winning price of each category, as it changes."""
    offers = _bids_in_time(events, ["category"], [])
    finals = offers.key_by("id", "category").aggregate(final=ms.max("price"), id="finals")
    rises = finals.key_by("id").process(Rise, schema="category long, rise long, sold long", id="rises")
    totals = rises.key_by("category").aggregate(total=ms.sum("rise"), sold=ms.sum("sold"), id="totals")
    return totals.select("category", final="total div sold")


def q9(events: Events) -> ms.DataStream:
    """Each auction with its winning bid, as it changes."""
    offers = _bids_in_time(events, _AUCTION, ["bidder", "extra", "event_id"])
    best = offers.key_by("id").top_n(1, by="price desc, bid_dateTime, event_id", id="winners")
    return best.select(*_AUCTION, "auction", "bidder", "price", "bid_dateTime", "bid_extra")


class LastTen(ms.ProcessFunction):
    """The average price of the ten auctions of a seller that were won last; a winning bid may yet be outbid."""

    won: ms.MapState[int, tuple[int, int, int]] = ms.MapState(int, tuple[int, int, int])

    def process(self, row: Mapping[str, Any], ctx: ms.Context) -> Iterator[dict[str, Any]]:
        self.won.put(row["id"], (row["won_at"], row["price"], row["event_id"]))
        prices = [price for _, price, _ in heapq.nlargest(10, (won for _, won in self.won.items()))]
        yield {"seller": row["seller"], "avg": sum(prices) // len(prices)}


def q6(events: Events) -> ms.DataStream:
    """The average winning price over the last ten auctions of each seller, as it changes."""
    offers = _bids_in_time(events, ["seller"], ["event_id"])
    best = offers.key_by("id").top_n(1, by="price desc, bid_dateTime, event_id", id="winners")
    won = best.select("seller", "price", "event_id", {"id": "id", "won_at": "unix_millis(bid_dateTime)"})
    return won.key_by("seller").process(LastTen, schema="seller long, avg long", id="last-ten")
