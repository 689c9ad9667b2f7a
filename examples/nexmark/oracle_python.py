"""The Nexmark answers that SQL cannot give: the last ten auctions of a seller (q6) and the patterns c0 to c3."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import pyarrow as pa

Tables = Mapping[str, pa.Table]
_LOW = 10_000
_DROP = 50
_WITHIN = 5_000_000
_TIME = pa.timestamp("us")


class Bid(NamedTuple):
    """A bid of one auction and bidder; times are microseconds."""

    time: int
    price: int


class Match(NamedTuple):
    """A match found: what it gives, and the row at which the search goes on."""

    row: tuple[int, ...]
    resume: int


OPEN = "open"
"""The rows end before it is known whether the candidate matches."""
Candidate = Callable[[Sequence[Bid], int], Match | str | None]


def q6(tables: Tables) -> pa.Table:
    """Per seller the average price of the last ten auctions that somebody won, cut to a whole number."""
    won: dict[int, list[tuple[int, int, int]]] = {}
    for seller, time, price, event in _winners(tables):
        won.setdefault(seller, []).append((time, price, event))
    averages = {seller: [price for _, price, _ in sorted(found)[-10:]] for seller, found in won.items()}
    rows = [(seller, sum(prices) // len(prices)) for seller, prices in averages.items()]
    return pa.table([pa.array(column, pa.int64()) for column in zip(*rows, strict=True)], names=["seller", "avg"])


def _winners(tables: Tables) -> Iterator[tuple[int, int, int, int]]:
    """Seller of each auction with time, price and id of its best bid: the highest price, then the earliest."""
    offers: dict[int, list[tuple[int, int, int]]] = {}
    bids = tables["bid"]
    for auction, price, time, event in zip(*_lists(bids, "auction", "price", "dateTime", "event_id"), strict=True):
        offers.setdefault(auction, []).append((-price, time, event))
    auctions = _lists(tables["auction"], "id", "seller", "dateTime", "expires")
    for auction, seller, begin, end in zip(*auctions, strict=True):
        best = min((offer for offer in offers.get(auction, ()) if begin <= offer[1] <= end), default=None)
        if best is not None:
            yield seller, best[1], -best[0], best[2]


def _lists(table: pa.Table, *names: str) -> list[list[int]]:
    """Columns as lists of whole numbers."""
    return [table.column(name).cast(pa.int64()).to_pylist() for name in names]


def _falling(rows: Sequence[Bid], start: int) -> Match | str | None:
    """c0: prices fall at least twice; the next price is above the one before the lowest."""
    bottom = start
    for place in range(start + 1, len(rows)):
        price = rows[place].price
        if price < rows[bottom].price:
            bottom = place
        elif bottom - start >= 2 and price > rows[bottom - 1].price:
            return Match((rows[start].time, rows[bottom].time, rows[place].time), place)
        else:
            return None
    return OPEN


def _cheap(rows: Sequence[Bid], start: int) -> Match | str | None:
    """c1: bids as long as their average stays low, and the bid that ends it."""
    total = 0
    for place in range(start, len(rows)):
        price = rows[place].price
        if total + price >= _LOW * (place - start + 1):
            if place == start:
                return None
            average = total // (place - start)
            return Match((rows[start].time, rows[place - 1].time, average), place + 1)
        total += price
    return OPEN


def _cheap_from_each(rows: Sequence[Bid], start: int) -> Match | str | None:
    """c2: as c1, but each row may begin a match."""
    found = _cheap(rows, start)
    return found._replace(resume=start + 1) if isinstance(found, Match) else found


def _dropped(rows: Sequence[Bid], start: int) -> Match | str | None:
    """c3: within five seconds a price falls by more than fifty; what is still open at the end has run out of time."""
    limit = rows[start].price - _DROP
    for place in range(start + 1, len(rows)):
        time, price = rows[place]
        if time - rows[start].time >= _WITHIN or price == limit:
            return None
        if price < limit:
            return Match((time, rows[start].price - price), place + 1)
    return None


def _matches(rows: Sequence[Bid], candidate: Candidate) -> Iterator[tuple[int, ...]]:
    """Every match in turn; behind a candidate that stays open nothing is given any more."""
    start = 0
    while start < len(rows):
        found = candidate(rows, start)
        if isinstance(found, str):
            return
        if found is not None:
            yield found.row
        start = start + 1 if found is None else found.resume


def _pattern(candidate: Candidate, measures: dict[str, pa.DataType]) -> Callable[[Tables], pa.Table]:
    names = {"auction": pa.int64(), "bidder": pa.int64(), **measures}

    def answer(tables: Tables) -> pa.Table:
        found = [(*key, *row) for key, rows in _partitions(tables["bid"]) for row in _matches(rows, candidate)]
        columns = list(zip(*found, strict=True)) or [()] * len(names)
        arrays = [pa.array(column, pa.int64()).cast(kind) for column, kind in zip(columns, names.values(), strict=True)]
        return pa.table(arrays, names=list(names))

    return answer


def _partitions(bids: pa.Table) -> Iterator[tuple[tuple[int, int], list[Bid]]]:
    """The bids of each auction and bidder, in the order of their times and ids."""
    order = ("auction", "bidder", "dateTime", "event_id")
    rows = sorted(zip(*_lists(bids, *order, "price"), strict=True))
    for key, group in itertools.groupby(rows, lambda row: (row[0], row[1])):
        yield key, [Bid(time, price) for _, _, time, _, price in group]


_SPAN = {"start_time": _TIME, "end_time": _TIME, "avg_price": pa.int64()}
PYTHON: dict[str, Callable[[Tables], pa.Table]] = {
    "q6": q6,
    "c0": _pattern(_falling, {"start_time": _TIME, "bottom_time": _TIME, "end_time": _TIME}),
    "c1": _pattern(_cheap, _SPAN),
    "c2": _pattern(_cheap_from_each, _SPAN),
    "c3": _pattern(_dropped, {"drop_time": _TIME, "drop_diff": pa.int64()}),
}
