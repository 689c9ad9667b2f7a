"""Queries that look for a sequence of bids of one bidder for one auction: c0 to c3."""

from __future__ import annotations

from typing import Any

from examples.nexmark.queries.events import Events

import millstream as ms

_FALL_AND_RISE = (
    ms.pattern.begin("start")
    .next("down")
    .where("price < coalesce(last(down.price, 1), start.price)")
    .one_or_more()
    .greedy()
    .consecutive()
    .next("up")
    .where("price > last(down.price, 1)")
    .skip_to_last("up")
)
_CHEAP = ms.pattern.begin("a").where("avg(a.price) < 10000").one_or_more().greedy().consecutive().next("b")
_DROP = (
    ms.pattern.begin("a")
    .next("b")
    .where("price > a.price - 50")
    .one_or_more()
    .optional()
    .greedy()
    .consecutive()
    .next("c")
    .where("price < a.price - 50")
    .within("5s")
    .skip_past_last_event()
)
_SPAN: dict[str, Any] = {
    "start_time": "first(a.dateTime)",
    "end_time": "last(a.dateTime)",
    "avg_price": "sum(a.price) div count(a)",
}


def _found(events: Events, pattern: ms.pattern.Pattern) -> ms.pattern.PatternStream:
    bids = events.bids("auction", "bidder", "price", "event_id").key_by("auction", "bidder")
    return bids.pattern(pattern, order_by="event_id")


def c0(events: Events) -> ms.DataStream:
    """Prices fall at least twice, then one is above the last but one."""
    found = _found(events, _FALL_AND_RISE)
    return found.measures(
        id="falls", start_time="start.dateTime", bottom_time="last(down.dateTime)", end_time="up.dateTime"
    )


def c1(events: Events) -> ms.DataStream:
    """Bids as long as their average stays low."""
    return _found(events, _CHEAP.skip_past_last_event()).measures(id="cheap", **_SPAN)


def c2(events: Events) -> ms.DataStream:
    """As c1, beginning with each bid that is low itself."""
    return _found(events, _CHEAP.skip_to_next()).measures(id="cheap", **_SPAN)


def c3(events: Events) -> ms.DataStream:
    """A price falls by more than fifty within five seconds."""
    return _found(events, _DROP).measures(id="drops", drop_time="c.dateTime", drop_diff="a.price - c.price")
