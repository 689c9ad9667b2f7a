"""What a query reads: bids, auctions and persons of one data set, each with its event time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import millstream as ms

MAX_DELAY = "4s"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The generated events as sources of one job; a query names the columns it needs, and no others are made."""

    job: ms.Job
    count: int
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further options of `ms.nexmark`, such as `seed`."""

    def bids(self, *columns: str) -> ms.DataStream:
        """Bids with these columns and `dateTime`."""
        return self._source("bid", columns)

    def auctions(self, *columns: str) -> ms.DataStream:
        """Auctions with these columns and `dateTime`."""
        return self._source("auction", columns)

    def persons(self, *columns: str) -> ms.DataStream:
        """Persons with these columns and `dateTime`."""
        return self._source("person", columns)

    def _source(self, kind: str, columns: tuple[str, ...]) -> ms.DataStream:
        wanted = list(dict.fromkeys([*columns, "dateTime"]))
        rows = self.job.source(f"{kind}s", ms.nexmark(self.count, kinds=kind, columns=wanted, **self.options))
        return rows.event_time("dateTime", max_delay=MAX_DELAY)
