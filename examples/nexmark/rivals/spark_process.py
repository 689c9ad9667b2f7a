"""A Python function with state on Spark, by its own `transformWithState`: a running count of each bidder's bids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

_STATE = StructType([StructField("n", LongType())])


class CountBids(StatefulProcessor):
    """Called with all bids of a bidder in a batch; the state is read and written once for them."""

    def init(self, handle: Any) -> None:
        """Declare the state."""
        self.count = handle.getValueState("count", _STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:
        """Count the bids."""
        held = self.count.get()
        n = 0 if held is None else held[0]
        for row in rows:
            n += 1
            yield Row(bidder=row.bidder, n=n)
        self.count.update((n,))

    def close(self) -> None:
        """Nothing is held."""


def counted(bids: DataFrame) -> DataFrame:
    """The counts as a stream."""
    return bids.select("bidder").groupBy("bidder").transformWithState(
        CountBids(), "bidder long, n long", "Update", "None"
    )  # fmt: skip
