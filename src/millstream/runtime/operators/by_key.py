"""Rows one after the other, key by key: what operators share that decide about each row from what its key holds."""

from __future__ import annotations

from collections.abc import Callable

from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch
from millstream.runtime.exchange.cells import AFTER, BEFORE
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.grouping import KeyRows, key_rows
from millstream.runtime.operators.output import RowOutput
from millstream.state.entries import Entries
from millstream.state.pages import Due

Take = Callable[[Batch, list[KeyRows], RowOutput], None]


def run_by_key(work: EpochWork, node: StreamNode, entries: Entries, take: Take) -> Due:
    """Rows before the watermark, then rows after it; there is nothing to fire. `take` gets the rows of a few keys at a time."""
    counts = work.ledger.count(node.id)
    bad = work.ledger.bad_records(node.id, None)
    out = RowOutput(MAIN, node.outputs[MAIN], bad, counts, work.emit)
    for phase, tables in ((BEFORE, work.before), (AFTER, work.after)):
        out.phase = phase
        for batch, pieces in key_rows(tables, node.keys, entries):
            counts.rows_in += batch.num_rows
            counts.passed += batch.num_rows
            take(batch, pieces, out)
        out.flush()
    return entries.flush()
