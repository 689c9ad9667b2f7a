"""Queries that keep one table per key up to date: q15 to q19."""

from __future__ import annotations

from typing import Any

from examples.nexmark.queries.events import Events

import millstream as ms

BID = ("auction", "bidder", "price", "channel", "url", "dateTime", "extra")
_DAY = "date_format(dateTime, 'yyyy-MM-dd')"
_BANDS = {
    "total": None,
    "rank1": "price < 10000",
    "rank2": "price >= 10000 AND price < 1000000",
    "rank3": "price >= 1000000",
}


def _bids_per_band() -> dict[str, Any]:
    return {f"{band}_bids": ms.count(where=where) for band, where in _BANDS.items()}


def _statistics() -> dict[str, Any]:
    """Bids, bidders and auctions, all of them and those of each band of prices."""
    bidders = {f"{band}_bidders": ms.count_distinct("bidder", where=where) for band, where in _BANDS.items()}
    auctions = {f"{band}_auctions": ms.count_distinct("auction", where=where) for band, where in _BANDS.items()}
    return _bids_per_band() | bidders | auctions


def q15(events: Events) -> ms.DataStream:
    """Statistics of each day."""
    bids = events.bids("auction", "bidder", "price").with_columns(day=_DAY)
    return bids.key_by("day").aggregate(id="days", **_statistics())


def q16(events: Events) -> ms.DataStream:
    """Statistics of each channel and day."""
    bids = events.bids("auction", "bidder", "price", "channel")
    dated = bids.with_columns(day=_DAY, at="date_format(dateTime, 'HH:mm')")
    return dated.key_by("channel", "day").aggregate(id="channels", minute=ms.max("at"), **_statistics())


def q17(events: Events) -> ms.DataStream:
    """Number and prices of the bids for each auction and day."""
    bids = events.bids("auction", "price").with_columns(day=_DAY)
    prices: dict[str, Any] = {"min_price": ms.min("price"), "max_price": ms.max("price"), "sum_price": ms.sum("price")}
    totals = bids.key_by("auction", "day").aggregate(id="auctions", **_bids_per_band(), **prices)
    return totals.with_columns(avg_price="sum_price div total_bids")


def q18(events: Events) -> ms.DataStream:
    """The last bid of each bidder for each auction."""
    bids = events.bids(*BID, "event_id").key_by("bidder", "auction")
    return bids.deduplicate(keep="last", by="dateTime, event_id", id="last-bids").select(*BID)


def q19(events: Events) -> ms.DataStream:
    """The ten highest bids for each auction, with their rank."""
    bids = events.bids(*BID, "event_id").key_by("auction")
    return bids.top_n(10, by="price desc, event_id", id="best").select(*BID, "rank_number")
