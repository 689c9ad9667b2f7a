"""What a query reads: bids, auctions and persons of one data set, each with its event time."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import millstream as ms
from millstream.connectors.nexmark.spec import columns_of

MAX_DELAY = "4s"
_OF_FIFTY = {"person": 1, "auction": 3, "bid": 46}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Events:
    """The events as sources of one job; a query names the columns it needs, and no others are made or read."""

    job: ms.Job
    count: int
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Further options of `ms.nexmark`, such as `seed`."""
    folder: Path | None = None
    """Parquet files in the order of time, in a folder for each kind; without it events are generated."""
    epoch_events: int | None = None
    """How many events an epoch covers, of all kinds together: sources then go forward side by side."""

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
        if self.folder is None:
            generated = ms.nexmark(self.count, kinds=kind, columns=wanted, **self.options)
            rows = self.job.source(f"{kind}s", generated, credit=self.epoch_events)
        else:
            files = ms.files(self.folder / kind, format="parquet", pattern="part-*.parquet")
            rows = self.job.source(
                f"{kind}s", files, schema=columns_of(kind).select(wanted), credit=self._file_credit(kind)
            )
        return rows.event_time("dateTime", max_delay=MAX_DELAY)

    def _file_credit(self, kind: str) -> int | None:
        """A source of files counts rows of its kind, where the generator counts events."""
        return None if self.epoch_events is None else max(1, self.epoch_events * _OF_FIFTY[kind] // 50)
