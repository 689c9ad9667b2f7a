"""Options and columns of the `nexmark` source."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.errors import InvalidSchema
from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import Field, Schema, schema_of

BASE = 1_767_225_600_000
"""2026-01-01T00:00Z."""
_SHUFFLE = 953
KINDS = ("all", "person", "auction", "bid")
_ROW = {
    "person": "id long, name string, emailAddress string, creditCard string, city string, state string, "
    "dateTime timestamp, extra string",
    "auction": "id long, itemName string, description string, initialBid long, reserve long, dateTime timestamp, "
    "expires timestamp, seller long, category long, extra string",
    "bid": "auction long, bidder long, price long, channel string, url string, dateTime timestamp, extra string",
}


def nexmark(
    events: int | None = None,
    *,
    seed: int = 42,
    rate: float = 10_000,
    base: int | str | dt.datetime = BASE,
    group: int = 1,
    first: int = 0,
    kinds: str = "all",
    columns: Sequence[str] | None = None,
    partitions: int | None = None,
    paced: bool = False,
) -> ConnectorSpec:
    """Generate the events of the Nexmark benchmark: 1 person, 3 auctions and 46 bids in every 50.

    Event `n` depends on the options and `n` alone, however a run is cut into epochs and splits. Sources of different
    `kinds` with equal options show the same events, so a job reads only what it needs.

    Args:
        events: how many; without it the source never ends.
        seed: other seeds give other values.
        rate: events per second of event time.
        base: event time before the first event: milliseconds since 1970, ISO text or a datetime; UTC without a zone.
        group: events are shuffled within groups of this size; 1 keeps them in the order of time.
        first: number of the first event.
        kinds: `all` for an envelope (`event_type` 0, 1 or 2; `person`, `auction` and `bid`, of which one is filled;
            `dateTime`; `event_id`), or `person`, `auction` or `bid` for its plain columns and `event_id`.
        columns: which columns; what is left out is not generated.
        partitions: into how many ranges an epoch is cut; as many as parallel readers without it.
        paced: give each event when it is due by the wall clock, at `rate` from the start; otherwise as fast as read.
    """
    options = {"events": events, "seed": seed, "rate": rate, "base": _plain(base), "group": group, "first": first}
    shape = {"kinds": kinds, "columns": None if columns is None else list(columns)}
    return ConnectorSpec("nexmark", {**options, **shape, "partitions": partitions, "paced": paced})


def _plain(base: int | str | dt.datetime) -> int | str:
    return base.isoformat() if isinstance(base, dt.datetime) else base


def columns_of(kind: str) -> Schema:
    """All columns of a kind."""
    if kind != "all":
        return schema_of(", ".join(f"{column} not null" for column in (*_ROW[kind].split(", "), "event_id long")))
    structs = [Field(name, pa.struct(list(schema_of(row).arrow))) for name, row in _ROW.items()]
    envelope = schema_of("event_type int not null, dateTime timestamp not null, event_id long not null").fields
    return Schema((envelope[0], *structs, *envelope[1:]))


def schema_from(options: Mapping[str, Any]) -> Schema:
    """The columns that the options ask for."""
    columns, wanted = columns_of(options["kinds"]), options["columns"]
    return columns if wanted is None else refuse_unknown(columns, wanted).select(wanted)


def refuse_unknown(known: Schema, wanted: Sequence[str], *, step: str | None = None) -> Schema:
    """The known columns, or an error that names the ones that are not generated."""
    unknown = [name for name in wanted if name not in known]
    if not unknown:
        return known
    msg = "columns that are not generated"
    raise InvalidSchema(
        msg,
        code="GEN-001",
        step=step,
        found=", ".join(unknown),
        known=known.names,
        hint="use known columns or another kinds=",
    )


def base_ms(value: int | str) -> int:
    """An instant in milliseconds since 1970."""
    if isinstance(value, int):
        return value
    instant = dt.datetime.fromisoformat(value)
    instant = instant if instant.tzinfo else instant.replace(tzinfo=dt.UTC)
    return (instant - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(milliseconds=1)


def _not_negative(value: int | None) -> int | None:
    if value is not None and value < 0:
        msg = "a number not below zero"
        raise ValueError(msg)
    return value


def _above_zero(value: float | None) -> float | None:
    if value is not None and value <= 0:
        msg = "a number above zero"
        raise ValueError(msg)
    return value


def _group(value: int) -> int:
    if value <= 0 or value % _SHUFFLE == 0:
        msg = f"a number above zero that {_SHUFFLE} does not divide, or events would come twice"
        raise ValueError(msg)
    return value


def _columns(value: list[Any] | None) -> list[Any] | None:
    if value is not None and (not value or len(set(map(str, value))) < len(value)):
        msg = "at least one column, none twice"
        raise ValueError(msg)
    return value


def _is_bounded(options: Mapping[str, Any]) -> bool:
    return options["events"] is not None


_COUNT = (int, type(None))
DECLARATION = ConnectorDeclaration(
    name="nexmark",
    source=SourceDeclaration(
        options={
            "events": Option(kind=_COUNT, default=None, doc="how many; without it, no end", check=_not_negative),
            "seed": Option(kind=(int,), default=42, doc="other seeds give other values", check=_not_negative),
            "rate": Option(kind=(int, float), default=10_000, doc="events per second of event time", check=_above_zero),
            "base": Option(
                kind=(int, str), default=BASE, doc="event time before the first event: ms or ISO text", check=base_ms
            ),
            "group": Option(kind=(int,), default=1, doc="events are shuffled within groups of this size", check=_group),
            "first": Option(kind=(int,), default=0, doc="number of the first event", check=_not_negative),
            "kinds": Option(kind=(str,), default="all", doc="envelope, or the columns of one kind", choices=KINDS),
            "columns": Option(
                kind=(list, type(None)), default=None, doc="columns to generate; all without it", check=_columns
            ),
            "partitions": Option(
                kind=_COUNT,
                default=None,
                doc="ranges that an epoch is cut into; one per parallel reader without it",
                check=_above_zero,
            ),
            "paced": Option(kind=(bool,), default=False, doc="give each event when it is due by the wall clock"),
        },
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.nexmark.source:NexmarkEnumerator",
        reader="millstream.connectors.nexmark.source:NexmarkReader",
        is_bounded=_is_bounded,
        schema=schema_from,
    ),
)
