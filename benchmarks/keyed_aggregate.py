"""Count and sum per key: ours against Catalyst's `groupBy().agg()`, and against a handler called per user key.

Both sides read the same parquet files, keep RocksDB state and write the changed keys of each epoch as parquet.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import millstream as ms
from benchmarks import ours, rival
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Sides, compared, with_output

MANY = {
    "full": Shape(epoch_rows=2_000_000, epochs=6, keys=100_000, files_per_epoch=8),
    "small": Shape(epoch_rows=40_000, epochs=3, keys=1_000, files_per_epoch=2, warm=1),
}
FEW = {
    "full": Shape(epoch_rows=500_000, epochs=5, keys=1_000),
    "small": Shape(epoch_rows=5_000, epochs=2, keys=50, files_per_epoch=2, warm=1),
}


def ours_over(setting: Setting, shape: Shape) -> Measured:
    job, rows = ours.job_over(setting, shape)
    totals = rows.key_by("k").aggregate(n=ms.count(), s=ms.sum("x"), id="totals")
    totals.sink("out", ms.files(setting.output))
    return with_output(ours.epochs_of(job, setting), setting.output)


def _catalyst(setting: Setting) -> Measured:
    from pyspark.sql import functions as f

    totals = rival.rows_of(rival.session(), setting, MANY[setting.scale]).groupBy("k")
    counted = totals.agg(f.count("*").alias("n"), f.sum("x").alias("s"))
    query = counted.writeStream.outputMode("update").foreachBatch(rival.to_parquet(setting))
    return with_output(rival.epochs_of(query, setting), setting.output)


def _pandas(setting: Setting) -> Measured:
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType

    held = StructType([StructField("n", LongType()), StructField("s", DoubleType())])

    class CountAndSum(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.held = handle.getValueState("held", held)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            n, s = self.held.get() or (0, 0.0)
            for frame in rows:
                n, s = n + len(frame), s + float(frame["x"].sum())
            self.held.update((n, s))
            yield pd.DataFrame({"k": [key[0]], "n": [n], "s": [s]})

        def close(self) -> None:
            pass

    grouped = rival.rows_of(rival.session(), setting, FEW[setting.scale]).groupBy("k")
    made = grouped.transformWithStateInPandas(CountAndSum(), "k long, n long, s double", "Update", "None")
    query = made.writeStream.outputMode("update").foreachBatch(rival.to_parquet(setting))
    return with_output(rival.epochs_of(query, setting), setting.output)


SIDES = {
    "ours": lambda setting: ours_over(setting, MANY[setting.scale]),
    "catalyst": _catalyst,
    "ours_few_keys": lambda setting: ours_over(setting, FEW[setting.scale]),
    "pandas_per_key": _pandas,
}
USES = tuple(("keyed_aggregate", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Against Catalyst at many keys; against the handler per key at few."""
    many, few = MANY[scale], FEW[scale]
    return [
        compared(
            f"count + sum, {many.keys:,} keys",
            sides,
            "ours",
            "catalyst",
            warm=many.warm,
            name="Catalyst groupBy",
            at_least=0.95,
        ),
        compared(
            f"count + sum, {few.keys:,} keys",
            sides,
            "ours_few_keys",
            "pandas_per_key",
            warm=few.warm,
            name="transformWithStateInPandas per key",
        ),
    ]
