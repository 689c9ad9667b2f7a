"""Every query by its name: how it is built, what it writes, and which table its output comes to."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from examples.nexmark.queries import joins, patterns, ranking, stateless, windows
from examples.nexmark.queries.events import Events

import millstream as ms

OUTPUT = "result"
Settled = Callable[[pa.Table], pa.Table]
"""From all rows that were published to the table that they come to."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """A query and what is to know about its output."""

    name: str
    build: Callable[[Events], ms.DataStream]
    settled: Settled | None = None
    """What the rows come to, if they are not that table themselves."""
    files: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Options of the files it writes."""

    def job(
        self,
        events: int,
        out: Path,
        *,
        requirements: Mapping[str, Any] | None = None,
        folder: Path | None = None,
        epoch_events: int | None = None,
        **options: Any,
    ) -> ms.Job:
        """The job over so many events, generated or from the files of a folder.

        `options` are those of `ms.nexmark`, `requirements` those of `ms.Job`.
        """
        job = ms.Job(self.name, **(requirements or {}))
        stream = self.build(Events(job=job, count=events, options=options, folder=folder, epoch_events=epoch_events))
        stream.sink(OUTPUT, ms.files(out, **self.files))
        return job

    def result(self, out: Path) -> pa.Table:
        """The table that the published rows come to."""
        rows = ms.read_files(out)
        if not rows.num_columns:
            return self.build(Events(job=ms.Job(self.name), count=0)).schema.arrow.empty_table()
        return rows if self.settled is None else self.settled(rows)


def last_of(*key: str) -> Settled:
    """The table that a changelog ends in: the last row of each key."""

    def settled(changes: pa.Table) -> pa.Table:
        placed = changes.append_column("place", pa.array(np.arange(changes.num_rows)))
        return changes.take(placed.group_by(list(key)).aggregate([("place", "max")])["place_max"])

    return settled


def bids_per_bidder(windows: pa.Table) -> pa.Table:
    """Which windows of the clock there are depends on the run; what they add up to does not."""
    return windows.group_by("bidder").aggregate([("bid_count", "sum")]).rename_columns(["bidder", "bid_count"])


_MINUTES = {"format": "csv", "partition_by": ["dt", "hm"], "partition_commit": "1m"}
_QUERIES = (
    Query(name="q0", build=stateless.q0),
    Query(name="q1", build=stateless.q1),
    Query(name="q2", build=stateless.q2),
    Query(name="q3", build=joins.q3),
    Query(name="q4", build=joins.q4, settled=last_of("category")),
    Query(name="q5", build=windows.q5),
    Query(name="q6", build=joins.q6, settled=last_of("seller")),
    Query(name="q7", build=windows.q7),
    Query(name="q8", build=windows.q8),
    Query(name="q9", build=joins.q9, settled=last_of("id")),
    Query(name="q10", build=stateless.q10, files=_MINUTES),
    Query(name="q11", build=windows.q11),
    Query(name="q12", build=windows.q12, settled=bids_per_bidder),
    Query(name="q13", build=stateless.q13),
    Query(name="q14", build=stateless.q14),
    Query(name="q15", build=ranking.q15, settled=last_of("day")),
    Query(name="q16", build=ranking.q16, settled=last_of("channel", "day")),
    Query(name="q17", build=ranking.q17, settled=last_of("auction", "day")),
    Query(name="q18", build=ranking.q18, settled=last_of("bidder", "auction")),
    Query(name="q19", build=ranking.q19, settled=last_of("auction", "rank_number")),
    Query(name="q20", build=joins.q20),
    Query(name="q21", build=stateless.q21),
    Query(name="q22", build=stateless.q22),
    Query(name="c0", build=patterns.c0),
    Query(name="c1", build=patterns.c1),
    Query(name="c2", build=patterns.c2),
    Query(name="c3", build=patterns.c3),
)
QUERIES = {query.name: query for query in _QUERIES}
