"""Options of the `rate` source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from millstream.model.connector import ConnectorDeclaration, ConnectorSpec, Option, SourceDeclaration
from millstream.model.guarantee import SourceCapability
from millstream.model.schema import Schema, schema_of


def rate(rows_per_second: float, *, rows: int | None = None) -> ConnectorSpec:
    """Numbered rows at a steady pace: `timestamp`, when the row was due, and `value`, its number from 0.

    Args:
        rows_per_second: the pace, kept on average: rows that were due while nothing read are there at once.
        rows: how many; without it the source never ends.
    """
    return ConnectorSpec("rate", {"rows_per_second": rows_per_second, "rows": rows})


def _schema(_: Mapping[str, Any]) -> Schema:
    return schema_of("timestamp timestamp not null, value long not null")


def _is_bounded(options: Mapping[str, Any]) -> bool:
    return options["rows"] is not None


def _above_zero(value: float) -> float:
    if value <= 0:
        msg = "a number above zero"
        raise ValueError(msg)
    return value


def _not_negative(value: int | None) -> int | None:
    if value is not None and value < 0:
        msg = "a number not below zero"
        raise ValueError(msg)
    return value


DECLARATION = ConnectorDeclaration(
    name="rate",
    source=SourceDeclaration(
        options={
            "rows_per_second": Option(kind=(int, float), doc="the pace", check=_above_zero),
            "rows": Option(
                kind=(int, type(None)), default=None, doc="how many; without it, no end", check=_not_negative
            ),
        },
        capability=SourceCapability.REPLAYABLE,
        enumerator="millstream.connectors.rate.source:RateEnumerator",
        reader="millstream.connectors.rate.source:RateReader",
        is_bounded=_is_bounded,
        schema=_schema,
    ),
)
