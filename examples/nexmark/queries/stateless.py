"""Queries that look at one bid at a time: q0 to q2, q10, q13, q14, q21 and q22."""

from __future__ import annotations

from typing import Any

from examples.nexmark.queries.events import Events

import millstream as ms

BID = ("auction", "bidder", "price", "dateTime", "extra")
_EUROS = "CAST(0.908 * price AS DECIMAL(23, 3))"


def q0(events: Events) -> ms.DataStream:
    """Every bid as it is: the cost of moving rows."""
    return events.bids(*BID).select(*BID)


def q1(events: Events) -> ms.DataStream:
    """Prices in another currency."""
    return events.bids(*BID).with_columns(price=_EUROS)


def q2(events: Events) -> ms.DataStream:
    """Bids for some auctions."""
    return events.bids("auction", "price").filter("auction % 123 = 0").select("auction", "price")


def q10(events: Events) -> ms.DataStream:
    """Every bid with the day and the minute by which its file is named."""
    bids = events.bids(*BID)
    return bids.with_columns(dt="date_format(dateTime, 'yyyy-MM-dd')", hm="date_format(dateTime, 'HH:mm')")


def _side_input() -> list[dict[str, Any]]:
    return [{"key": key, "value": str(key)} for key in range(10_000)]


def q13(events: Events) -> ms.DataStream:
    """Bids joined with a table that does not change."""
    bids = events.bids("auction", "bidder", "price").with_columns(remainder="auction % 10000")
    found = bids.lookup(_side_input(), schema="key long, value string", on={"remainder": "key"})
    return found.select("auction", "bidder", "price", "dateTime", "value")


def q14(events: Events) -> ms.DataStream:
    """A filter over a computed price, a choice by the hour, and a count of letters."""
    bids = events.bids(*BID).with_columns(price=_EUROS)
    return bids.filter("price > 1000000 AND price < 50000000").select(
        "auction",
        "bidder",
        "price",
        "dateTime",
        "extra",
        bidTimeType="""CASE WHEN hour(dateTime) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN hour(dateTime) <= 6 OR hour(dateTime) >= 20 THEN 'nightTime' ELSE 'otherTime' END""",
        c_counts="length(extra) - length(replace(extra, 'c', ''))",
    )


def q21(events: Events) -> ms.DataStream:
    """The id of the channel: known ones by name, others from the url."""
    bids = events.bids("auction", "bidder", "price", "channel", "url").with_columns(
        channel_id="""CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
            WHEN 'baidu' THEN '3' ELSE nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '') END"""
    )
    return bids.filter("channel_id IS NOT NULL").select("auction", "bidder", "price", "channel", "channel_id")


def q22(events: Events) -> ms.DataStream:
    """The folders that a url names."""
    bids = events.bids("auction", "bidder", "price", "channel", "url")
    folders = {f"dir{n}": f"regexp_extract(url, '^([^/]*/){{{n + 2}}}([^/]*)', 2)" for n in (1, 2, 3)}
    return bids.select("auction", "bidder", "price", "channel", folders)
