"""Keeps the newest row of each key of a split: what a source does whose job does not keep up and cares for the present only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from millstream.contract.source import BadRecord, LostRows

_HELD = 100_000
"""Rows that are held before they are looked through; twice as many as there are keys, where those are more."""
_PLACE = "__place"

Part: TypeAlias = pa.RecordBatch | BadRecord | LostRows


def newest_rows(parts: Iterable[Part], key: Sequence[str], dropped: Callable[[int], None]) -> Iterator[Part]:
    """What is no row, as it comes, and then the newest row of each key, or the newest at all; `dropped` is told of the others."""
    held: list[pa.RecordBatch] = []
    rows, enough = 0, _HELD
    for part in parts:
        if isinstance(part, (BadRecord, LostRows)):
            yield part
            continue
        held.append(part)
        rows += part.num_rows
        if rows >= enough:
            held = [_newest(held, key, dropped)]
            rows = held[0].num_rows
            enough = max(_HELD, 2 * rows)
    if held:
        yield _newest(held, key, dropped)


def _newest(held: list[pa.RecordBatch], key: Sequence[str], dropped: Callable[[int], None]) -> pa.RecordBatch:
    table = pa.Table.from_batches(held)
    if key:
        places = table.select(list(key)).append_column(_PLACE, pa.array(np.arange(table.num_rows)))
        last = places.group_by(list(key), use_threads=False).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
        kept = table.take(pa.array(np.sort(last.to_numpy())))
    else:
        kept = table.slice(max(0, table.num_rows - 1))
    dropped(table.num_rows - kept.num_rows)
    return kept.combine_chunks().to_batches()[0] if kept.num_rows else held[-1].slice(0, 0)
