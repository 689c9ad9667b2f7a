"""One more query, which no benchmark defines: a Python function with state, called for each bid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from examples.nexmark.golden import Golden
from examples.nexmark.queries.catalog import QUERIES, Query
from examples.nexmark.queries.events import Events

import millstream as ms

NAME = "process"


class CountBids(ms.ProcessFunction):
    """How many bids of a bidder there were so far, with each bid."""

    count: ms.ValueState[int] = ms.ValueState(int)

    def process(self, row: Mapping[str, Any], ctx: ms.Context) -> Iterator[dict[str, Any]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield {"bidder": row["bidder"], "n": count}


def count_bids(events: Events) -> ms.DataStream:
    """A running count of each bidder's bids."""
    return events.bids("bidder").key_by("bidder").process(CountBids, schema="bidder long, n long", id="count-bids")


ALL: dict[str, Query] = {**QUERIES, NAME: Query(name=NAME, build=count_bids)}
CHECK = Golden("sum(n)", ("92000 0", "920000 0"))
ORACLE_SQL = "SELECT bidder, row_number() OVER (PARTITION BY bidder) AS n FROM bid"
