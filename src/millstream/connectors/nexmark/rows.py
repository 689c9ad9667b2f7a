"""Rows of one kind, column by column: what nobody asks for is not computed.

The numbers given to `Draws` are the fields of the benchmark's random part; golden results depend on them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.connectors.nexmark.draws import Draws, Numbers
from millstream.connectors.nexmark.text import (
    CHANNELS,
    HOT_CHANNELS,
    POOL,
    card_groups,
    channels,
    lengths,
    letters,
    looked_up,
    urls,
    words,
)
from millstream.connectors.nexmark.timeline import AUCTIONS, CYCLE, Timeline, last_auction, last_person

_FIRST_ID = 1000
_FIRST_CATEGORY = 10
_CATEGORIES = 5
_HOT_GROUP = 100
_IN_FLIGHT = 100
_ACTIVE_PEOPLE = 1000
_LEAD = 10
_FIRST_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter")
_LAST_NAMES = ("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")
_CITIES = (
    *("Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland"),
    *("Bend", "Redmond", "Seattle", "Kent", "Cheyenne"),
)
_STATES = ("AZ", "CA", "ID", "OR", "WA", "WY")


class EventRows:
    """The ids of events of one kind, and what all kinds have in common."""

    def __init__(self, seed: int, timeline: Timeline, ids: Numbers) -> None:
        self._seed, self._timeline, self._ids = seed, timeline, ids
        self._draws = Draws(seed, ids)

    @functools.cached_property
    def _times(self) -> Numbers:
        return self._timeline.times(self._ids)

    @functools.cached_property
    def _last_person(self) -> Numbers:
        return last_person(self._ids)

    @functools.cached_property
    def _last_auction(self) -> Numbers:
        return last_auction(self._ids)

    def event_id(self) -> pa.Array:
        """The id of the event, from 2 on."""
        return pa.array(self._ids)

    def date_time(self) -> pa.Array:
        """When it happened."""
        return _instants(self._times)

    def _cold_person(self, field: int) -> Numbers:
        people = self._last_person + 1
        active = np.minimum(people, _ACTIVE_PEOPLE)
        picked: Numbers = people - active + self._draws.below(field, active + _LEAD)
        return picked

    def _one_of(self, values: tuple[str, ...], field: int) -> pa.Array:
        return looked_up(pa.array(values), self._draws.below(field, len(values)))

    def _string(self, field: int, longest: int) -> pa.Array:
        """Words of 3 characters or more; `field` draws the length, the next one the place in the pool."""
        length = 3 + self._draws.below(field, longest - 3)
        pool = words(self._seed)
        return pool.cut(*pool.trimmed(self._draws.below(field + 1, POOL - length), length))

    def _extra(self, field: int, size: Numbers, average: int) -> pa.Array:
        """Letters that bring a row to about its average size."""
        missing = np.maximum(average - size, 0)
        spread = np.rint(0.2 * missing).astype(np.int64)
        length = missing - spread + self._draws.below(field, 2 * spread)
        return letters(self._seed).cut(self._draws.below(field + 1, POOL - length), length)


class Persons(EventRows):
    """New people."""

    def id(self) -> pa.Array:
        """From 1001 on."""
        return pa.array(self._last_person + _FIRST_ID)

    @functools.cached_property
    def _name(self) -> pa.Array:
        first = self._one_of(_FIRST_NAMES, 32)
        last = self._one_of(_LAST_NAMES, 33)
        return pc.binary_join_element_wise(first, last, " ")

    @functools.cached_property
    def _email(self) -> pa.Array:
        return pc.binary_join_element_wise(self._string(34, 7), "@", self._string(36, 5), ".com", "")

    @functools.cached_property
    def _card(self) -> pa.Array:
        groups = [looked_up(card_groups(), self._draws.below(field, 10_000)) for field in (38, 39, 40, 41)]
        return pc.binary_join_element_wise(*groups, " ")

    @functools.cached_property
    def _city(self) -> pa.Array:
        return self._one_of(_CITIES, 42)

    @functools.cached_property
    def _state(self) -> pa.Array:
        return self._one_of(_STATES, 43)

    def extra(self) -> pa.Array:
        """Filler up to about 200 bytes."""
        texts = (self._name, self._email, self._card, self._city, self._state)
        return self._extra(44, 8 + sum(map(lengths, texts), np.zeros(len(self._ids), np.int64)), 200)

    COLUMNS: dict[str, Callable[[Any], pa.Array]] = {
        "id": id,
        "name": lambda rows: rows._name,
        "emailAddress": lambda rows: rows._email,
        "creditCard": lambda rows: rows._card,
        "city": lambda rows: rows._city,
        "state": lambda rows: rows._state,
        "dateTime": EventRows.date_time,
        "extra": extra,
        "event_id": EventRows.event_id,
    }


class Auctions(EventRows):
    """Things for sale."""

    def id(self) -> pa.Array:
        """From 1001 on."""
        return pa.array(self._last_auction + _FIRST_ID)

    @functools.cached_property
    def _item(self) -> pa.Array:
        return self._string(22, 20)

    @functools.cached_property
    def _description(self) -> pa.Array:
        return self._string(24, 100)

    @functools.cached_property
    def _initial(self) -> Numbers:
        return self._draws.price(19)

    def reserve(self) -> pa.Array:
        """What the seller hopes for at least."""
        return pa.array(self._initial + self._draws.price(20))

    def expires(self) -> pa.Array:
        """Later than the start by up to twice the time in which as many auctions begin as may be open."""
        horizon = self._timeline.times(self._ids, _IN_FLIGHT * CYCLE // AUCTIONS) - self._times
        return _instants(self._times + 1 + self._draws.below(21, np.maximum(2 * horizon, 1)))

    def seller(self) -> pa.Array:
        """Three of four auctions belong to the hot seller."""
        hot = self._last_person // _HOT_GROUP * _HOT_GROUP
        return pa.array(np.where(self._draws.below(16, 4) > 0, hot, self._cold_person(17)) + _FIRST_ID)

    def category(self) -> pa.Array:
        """From 10 to 14."""
        return pa.array(self._draws.below(18, _CATEGORIES) + _FIRST_CATEGORY)

    def extra(self) -> pa.Array:
        """Filler up to about 500 bytes."""
        return self._extra(26, 48 + lengths(self._item) + lengths(self._description), 500)

    COLUMNS: dict[str, Callable[[Any], pa.Array]] = {
        "id": id,
        "itemName": lambda rows: rows._item,
        "description": lambda rows: rows._description,
        "initialBid": lambda rows: pa.array(rows._initial),
        "reserve": reserve,
        "dateTime": EventRows.date_time,
        "expires": expires,
        "seller": seller,
        "category": category,
        "extra": extra,
        "event_id": EventRows.event_id,
    }


class Bids(EventRows):
    """Offers for things on sale."""

    def auction(self) -> pa.Array:
        """Half of the bids are for the hot auction; some are for auctions that do not exist yet."""
        hot = self._last_auction // _HOT_GROUP * _HOT_GROUP
        lowest = np.maximum(self._last_auction - _IN_FLIGHT, 0)
        cold = lowest + self._draws.below(1, self._last_auction - lowest + 1 + _LEAD)
        return pa.array(np.where(self._draws.below(0, 2) > 0, hot, cold) + _FIRST_ID)

    def bidder(self) -> pa.Array:
        """Three of four bids are by the hot bidder; the benchmark adds the first id twice."""
        hot = self._last_person // _HOT_GROUP * _HOT_GROUP + 1
        return pa.array(np.where(self._draws.below(2, 4) > 0, hot, self._cold_person(3)) + 2 * _FIRST_ID)

    def price(self) -> pa.Array:
        """From 100 to 10^8."""
        return pa.array(self._draws.price(4))

    @functools.cached_property
    def _channel(self) -> Numbers:
        is_hot = self._draws.below(5, 2) > 0
        hot = CHANNELS + self._draws.below(6, len(HOT_CHANNELS))
        return np.where(is_hot, hot, self._draws.below(6, CHANNELS))

    def extra(self) -> pa.Array:
        """Filler up to about 100 bytes."""
        return self._extra(7, np.full(len(self._ids), 32, np.int64), 100)

    COLUMNS: dict[str, Callable[[Any], pa.Array]] = {
        "auction": auction,
        "bidder": bidder,
        "price": price,
        "channel": lambda rows: looked_up(channels(), rows._channel),
        "url": lambda rows: looked_up(urls(rows._seed), rows._channel),
        "dateTime": EventRows.date_time,
        "extra": extra,
        "event_id": EventRows.event_id,
    }


def _instants(milliseconds: Numbers) -> pa.Array:
    return pa.array(milliseconds * 1000).view(pa.timestamp("us", tz="UTC"))
