"""Queries over windows of time: q5, q7, q8, q11 and q12."""

from __future__ import annotations

from examples.nexmark.queries.events import Events

import millstream as ms

_SLIDE = ms.tumbling("2s")
_TEN_SECONDS = ms.tumbling("10s")


def q5(events: Events) -> ms.DataStream:
    """The auctions with most bids in each sliding window."""
    counted = (
        events.bids("auction").key_by("auction").window(ms.sliding("10s", "2s")).aggregate(num=ms.count(), id="counted")
    )
    counts = counted.select("auction", "num", start="window_start", ends="window_end")
    # All counts of a window carry its last instant, so they meet again in a window as long as the slide.
    most = counts.key_by("ends").window(_SLIDE).aggregate(most=ms.max("num"), id="most")
    hot = counts.key_by("num").window(_SLIDE).join(most.select("most").key_by("most"), id="hot")
    return hot.select("auction", "num", window_start="start", window_end="ends")


def q7(events: Events) -> ms.DataStream:
    """The bids with the highest price of each ten seconds; a bid at the very end of a window counts for it too."""
    bids = events.bids("auction", "bidder", "price", "extra")
    priced = bids.select("price", everything="0")
    highest = priced.key_by("everything").window(_TEN_SECONDS).aggregate(highest=ms.max("price"), id="highest")
    # A window's result has its last instant as event time, one millisecond before its end.
    best = bids.key_by("price").join(
        highest.select("highest").key_by("highest"), within=("-1ms", "9999ms"), id="best-bids"
    )
    return best.select("auction", "bidder", "price", "dateTime", "extra")


def q8(events: Events) -> ms.DataStream:
    """Persons who came and opened an auction in the same ten seconds."""
    persons = events.persons("id", "name").key_by("id", "name").window(_TEN_SECONDS).aggregate(n=ms.count(), id="new")
    sellers = events.auctions("seller").key_by("seller").window(_TEN_SECONDS).aggregate(n=ms.count(), id="selling")
    joined = (
        persons.select("id", "name").key_by("id").window(_TEN_SECONDS)
        .join(sellers.select("seller").key_by("seller"), id="both")
    )  # fmt: skip
    return joined.select("id", "name", starttime="window_start")


def q11(events: Events) -> ms.DataStream:
    """The sessions of each bidder: bids with no more than ten seconds between them."""
    sessions = events.bids("bidder").key_by("bidder").window(ms.session("10s"))
    counts = sessions.aggregate(bid_count=ms.count(), id="sessions")
    return counts.select("bidder", "bid_count", starttime="window_start", endtime="window_end")


def q12(events: Events) -> ms.DataStream:
    """The bids of each bidder in each ten seconds of the clock."""
    windows = events.bids("bidder").key_by("bidder").window(ms.tumbling("10s", time="processing"))
    counts = windows.aggregate(bid_count=ms.count(), id="clock-windows")
    return counts.select("bidder", "bid_count", starttime="window_start", endtime="window_end")
