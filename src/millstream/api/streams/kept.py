"""Which rows of each key stay: the methods of keyed streams that choose rows and change none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

from millstream.api.streams.rankings import deduplicate_operation, top_n_operation
from millstream.graph.operation import Operation
from millstream.graph.operations.rank import RankEmit
from millstream.graph.operations.sample import Sample
from millstream.model.time import DurationLike
from millstream.tracebacks import public

if TYPE_CHECKING:
    # What these methods give; built by the stream they belong to.
    from millstream.api.streams.stream import DataStream


class _AddsSteps(Protocol):
    def _then(self, operation: Operation, given_id: str | None, uid: str | None) -> DataStream: ...


@public
class KeptRows:
    """Rows that stay, of each key."""

    def deduplicate(
        self: _AddsSteps,
        *,
        keep: Literal["first", "last"] = "first",
        by: str | None = None,
        ttl: DurationLike | None = None,
        emit: RankEmit = "epoch",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Keep one row of each key.

        Args:
            keep: `first` or `last`, to come or in the order `by`.
            by: an order, as in `event_time, sequence`; of equal rows the first, or last, to come stays.
            ttl: for the first to come: forget a key that long after its row, by the epoch's clock; its next row is then first.
            emit: `epoch`: the row that stays, once per epoch in which it is another one than before, so that the last row
                per key counts; the first row to come is emitted once. `end`: once per key, when the input ends.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        return self._then(deduplicate_operation(keep, by, ttl, emit), id, uid)

    def top_n(
        self: _AddsSteps,
        n: int,
        *,
        by: str,
        rank: str = "rank_number",
        ties: bool = False,
        emit: RankEmit = "epoch",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """The first N rows of each key in an order, with their rank from 1 on.

        Args:
            n: how many rows of each key stay.
            by: an order, as in `price desc, event_id`; of equal rows the first to come comes first. Null is the smallest
                value, as in Spark.
            rank: the name of the column with the rank.
            ties: equal rows share a rank, and all rows with a rank up to `n` stay; needs `emit='end'`.
            emit: `epoch`: once per epoch, the rows whose rank is another one than before; the last row per key and rank
                counts, and a rank once given is never vacated. `end`: once, when the input ends.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        return self._then(top_n_operation(n, by, rank, emit, ties=ties), id, uid)

    def sample(self: _AddsSteps, rate: float, *, id: str | None = None, uid: str | None = None) -> DataStream:
        """Keep the same share of the rows of each key, spread evenly, the first row of a key among them.

        Which rows stay follows from their number in the key: the same input gives the same sample, wherever a run was cut or
        restored. A rare key is not lost, as it would be by chance.

        Args:
            rate: the share, above 0 and up to 1, exact to a millionth.
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        return self._then(Sample(rate=rate), id, uid)
