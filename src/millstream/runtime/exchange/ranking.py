"""The sending half of rankings: rows that cannot stay are not sent."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from millstream.model.counts import StepCounts
from millstream.records.batch import Batch
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.exchange.senders import RowSender, joined_rows
from millstream.runtime.operators.rank.order import NEWEST, KeyRanking, newest_times

_WORTHWHILE = 0.7
"""Sorting out is given up in a task where more than this share of the rows stays."""


class RankingSender:
    """Sends the rows that are among the first of their key here, in the order they came.

    A row that is not among the first N of some rows is not among the first N of more of them.
    """

    def __init__(self, rows: RowSender, ranking: KeyRanking, counts: StepCounts, limit: int) -> None:
        self._rows, self._ranking, self._counts, self._limit = rows, ranking, counts, limit
        self._held: list[list[Batch]] = [[], []]
        self._bytes = 0
        self._is_worthwhile = True

    def send(self, batch: Batch, phase: int) -> None:
        """Accept rows."""
        self._counts.rows_in += batch.num_rows
        self._counts.passed += batch.num_rows
        if batch.num_rows == 0:
            return
        if not self._is_worthwhile:
            self._rows.send(batch, phase)
            return
        self._held[phase].append(batch)
        self._bytes += batch.rows.nbytes
        if self._bytes >= self._limit:
            self._sort_out()

    def _sort_out(self) -> None:
        """Keep what may stay; when that is much, send it."""
        came = stay = self._bytes = 0
        for phase in (BEFORE, AFTER):
            for batch in joined_rows(self._held[phase]):
                kept = self._best(batch)
                came, stay = came + batch.num_rows, stay + kept.num_rows
                self._held[phase] = [kept]
                self._bytes += kept.rows.nbytes
        self._is_worthwhile = stay <= _WORTHWHILE * came
        if self._bytes >= self._limit // 2 or not self._is_worthwhile:
            self._send_held()

    def _best(self, batch: Batch) -> Batch:
        table = pa.Table.from_batches([batch.with_time_column()])
        ranked = self._ranking.of(table)
        newest = np.empty(batch.num_rows, np.int64)
        newest[ranked.order] = ranked.highest(newest_times([table]))
        stays = np.sort(ranked.order[ranked.ranks <= self._ranking.n])
        kept = batch.take(stays)
        rows = kept.rows.drop_columns([NEWEST]) if NEWEST in kept.rows.schema.names else kept.rows
        return Batch(rows.append_column(NEWEST, pa.array(newest[stays])), kept.times)

    def _send_held(self) -> None:
        for phase in (BEFORE, AFTER):
            for batch in self._held[phase]:
                self._rows.send(batch, phase)
            self._held[phase] = []
        self._bytes = 0

    def close(self) -> None:
        """Put everything still held into the outbox."""
        if self._bytes:
            self._sort_out()
        self._send_held()
        self._rows.close()
