"""Five Python functions one behind the other: ours in one fused loop against five mapInArrow steps and five UDF columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import millstream as ms
from benchmarks import ours, rival
from benchmarks.data import SCHEMA, Shape
from benchmarks.measure import Line, Measured, Setting, Sides, compared, with_output

SHAPES = {
    "full": Shape(epoch_rows=2_000_000, epochs=3, keys=1_000, warm=1),
    "small": Shape(epoch_rows=5_000, epochs=2, keys=50, files_per_epoch=2, warm=1),
}


def doubled(x: float) -> float:
    return x * 2


def raised(x: float) -> float:
    return x + 1


def capped(x: float) -> float:
    return min(x, 1500.0)


def folded(x: float) -> float:
    return x if x > 10 else 10 - x


def halved(x: float) -> float:
    return x / 2


FUNCTIONS = (doubled, raised, capped, folded, halved)


def of_row(function: Callable[[float], float]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The function over the x of a row."""
    return lambda row: {"k": row["k"], "x": function(row["x"])}


def _ours(setting: Setting) -> Measured:
    job, rows = ours.job_over(setting, SHAPES[setting.scale])
    for function in FUNCTIONS:
        rows = rows.map(of_row(function), schema=SCHEMA)
    rows.sink("out", ms.files(setting.output))
    return with_output(ours.epochs_of(job, setting), setting.output)


def _unfused(setting: Setting) -> Measured:
    import pyarrow as pa

    def step(function: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Any], Iterator[Any]]:
        def run(batches: Any) -> Iterator[Any]:
            for batch in batches:
                yield pa.RecordBatch.from_pylist([function(row) for row in batch.to_pylist()], schema=batch.schema)

        return run

    rows = rival.rows_of(rival.session(), setting, SHAPES[setting.scale])
    for function in FUNCTIONS:
        rows = rows.mapInArrow(step(of_row(function)), SCHEMA)
    return _run(rows, setting)


def _columns(setting: Setting) -> Measured:
    from pyspark.sql.functions import udf

    rows = rival.rows_of(rival.session(), setting, SHAPES[setting.scale])
    for function in FUNCTIONS:
        rows = rows.withColumn("x", udf(function, "double")("x"))
    return _run(rows, setting)


def _run(rows: Any, setting: Setting) -> Measured:
    query = rows.writeStream.foreachBatch(rival.to_parquet(setting))
    return with_output(rival.epochs_of(query, setting), setting.output)


SIDES = {"ours": _ours, "unfused": _unfused, "columns": _columns}
USES = tuple(("fused_maps", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Rows as dicts in both; UDF columns see a bare number, and Spark fuses them itself."""
    warm = SHAPES[scale].warm
    return [
        compared(
            "five Python maps", sides, "ours", "unfused", warm=warm, name="five mapInArrow, row by row", at_least=4
        ),
        compared("five Python maps", sides, "ours", "columns", warm=warm, name="five Python UDF columns"),
    ]
