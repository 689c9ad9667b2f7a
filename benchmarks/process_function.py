"""A keyed Python function with state, called for every row and emitting for every row: ours against transformWithState.

x depends on the key alone: Spark does not keep the order of a key's rows, and running sums must be equal all the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import millstream as ms
from benchmarks import ours, rival
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Sides, compared, with_output

FEW = {
    "full": Shape(epoch_rows=2_000_000, epochs=3, keys=1_000, warm=1, constant=True),
    "small": Shape(epoch_rows=5_000, epochs=2, keys=50, files_per_epoch=2, warm=1, constant=True),
}
MANY = {
    "full": Shape(epoch_rows=500_000, epochs=3, keys=20_000, warm=1, constant=True),
    "small": Shape(epoch_rows=5_000, epochs=2, keys=500, files_per_epoch=2, warm=1, constant=True),
}
OUTPUT = "k long, n long, s double"


class CountAndSum(ms.ProcessFunction):
    """The function under test."""

    held = ms.ValueState(tuple[int, float])

    def process(self, row: Any, ctx: ms.Context) -> Iterator[dict[str, Any]]:
        n, s = self.held.value() or (0, 0.0)
        n, s = n + 1, s + row["x"]
        self.held.update((n, s))
        yield {"k": row["k"], "n": n, "s": s}


def _ours(setting: Setting, shape: Shape) -> Measured:
    job, rows = ours.job_over(setting, shape)
    made = rows.key_by("k").process(CountAndSum, schema=OUTPUT, id="running")
    made.sink("out", ms.files(setting.output))
    return with_output(ours.epochs_of(job, setting), setting.output)


def _rows(setting: Setting, shape: Shape) -> Measured:
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    held = _held()

    class RowByRow(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.held = handle.getValueState("held", held)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            n, s = self.held.get() or (0, 0.0)
            for row in rows:
                n, s = n + 1, s + row.x
                yield Row(k=row.k, n=n, s=s)
            self.held.update((n, s))

        def close(self) -> None:
            pass

    grouped = rival.rows_of(rival.session(), setting, shape).groupBy("k")
    return _run(grouped.transformWithState(RowByRow(), OUTPUT, "Update", "None"), setting)


def _pandas(setting: Setting, shape: Shape) -> Measured:
    import numpy as np
    import pandas as pd
    from pyspark.sql.streaming import StatefulProcessor

    held = _held()

    class Frames(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.held = handle.getValueState("held", held)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            n, s = self.held.get() or (0, 0.0)
            for frame in rows:
                counts, sums = n + 1 + np.arange(len(frame)), s + frame["x"].cumsum()
                n, s = int(counts[-1]), float(sums.iloc[-1])
                yield pd.DataFrame({"k": key[0], "n": counts, "s": sums})
            self.held.update((n, s))

        def close(self) -> None:
            pass

    grouped = rival.rows_of(rival.session(), setting, shape).groupBy("k")
    return _run(grouped.transformWithStateInPandas(Frames(), OUTPUT, "Update", "None"), setting)


def _held() -> Any:
    from pyspark.sql.types import DoubleType, LongType, StructField, StructType

    return StructType([StructField("n", LongType()), StructField("s", DoubleType())])


def _run(made: Any, setting: Setting) -> Measured:
    query = made.writeStream.outputMode("update").foreachBatch(rival.to_parquet(setting))
    return with_output(rival.epochs_of(query, setting), setting.output)


SIDES = {
    "ours": lambda setting: _ours(setting, FEW[setting.scale]),
    "rows": lambda setting: _rows(setting, FEW[setting.scale]),
    "pandas": lambda setting: _pandas(setting, FEW[setting.scale]),
    "ours_many_keys": lambda setting: _ours(setting, MANY[setting.scale]),
    "rows_many_keys": lambda setting: _rows(setting, MANY[setting.scale]),
}
USES = tuple(("process_function", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """The same code row by row; a version that an expert vectorised per key; and more keys, each of which costs calls."""
    few, many = FEW[scale], MANY[scale]
    name = "transformWithState per key"
    what = f"Python process function, {few.keys:,} keys"
    return [
        compared(what, sides, "ours", "rows", warm=few.warm, name=name, at_least=10),
        compared(what, sides, "ours", "pandas", warm=few.warm, name="transformWithStateInPandas, vectorised per key"),
        compared(
            f"Python process function, {many.keys:,} keys",
            sides,
            "ours_many_keys",
            "rows_many_keys",
            warm=many.warm,
            name=name,
        ),
    ]
