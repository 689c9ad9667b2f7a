"""What sides wrote as Parquet, made comparable: the same columns in the same types, whoever wrote them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from benchmarks.connectors.bench import Ran
from benchmarks.measure import Line


def digest(folder: Path, schema: pa.Schema) -> tuple[int, str]:
    """Rows, and one text for all of them as a multiset. What dlt notes of itself is left out."""
    paths = [
        path for path in sorted(folder.rglob("*.parquet")) if not any(part.startswith("_dlt") for part in path.parts)
    ]
    tables = [ds.dataset(str(path), format="parquet").to_table(columns=schema.names).cast(schema) for path in paths]
    if not tables:
        return 0, ""
    rows = pa.concat_tables(tables).to_pandas()
    return len(rows), f"{int(pd.util.hash_pandas_object(rows, index=False).to_numpy().sum()):x}"


def line(what: str, ours: Ran, theirs: Ran, *, name: str, at_least: float, equal: bool) -> Line:
    """Rates of two bounded runs, each one epoch long."""
    mine, other = ours.measured.rate(0), theirs.measured.rate(0)
    return Line(
        what=what, unit="rows/s", ours=mine, rival=other, rival_name=name, ratio=mine / other, at_least=at_least,
        cpu_ratio=_cpu(theirs) / _cpu(ours), equal=equal,
    )  # fmt: skip


def _cpu(ran: Ran) -> float:
    """CPU seconds a row of the measured span."""
    [epoch] = ran.measured.epochs
    used = ran.watch.cpu_at(epoch.ended) - ran.watch.cpu_at(epoch.ended - epoch.seconds)
    return max(used, 0.01) / epoch.rows
