"""The period of an epoch with next to nothing to do: ours against a raw query of the same shape.

The raw query has a Python data source, mapInArrow, one transformWithState by slot and a collecting foreachBatch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from typing import Any

import millstream as ms
from benchmarks import ours, rival
from benchmarks.measure import Epoch, Line, Measured, Setting, Sides

EPOCHS = {"full": 60, "small": 4}
WARM = {"full": 20, "small": 2}


def _ours(setting: Setting) -> Measured:
    job = ms.Job("bench", rows_per_epoch=1)
    fields = {"k": {"kind": "sequence"}, "x": {"kind": "float"}}
    rows = job.source("rows", ms.datagen(fields=fields, rows=EPOCHS[setting.scale]))
    rows.key_by("k").aggregate(n=ms.count(), id="totals").sink("out", ms.collect("out"))
    epochs = ours.epochs_of(job, setting)
    return Measured(epochs=epochs, rows=len(epochs))


def _raw(setting: Setting) -> Measured:
    from pyspark.sql import Row
    from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
    from pyspark.sql.streaming import StatefulProcessor
    from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

    last = EPOCHS[setting.scale]
    page = StructType([StructField("page", IntegerType())])
    content = StructType([StructField("content", BinaryType())])

    class Ticks(DataSourceStreamReader):
        def initialOffset(self) -> dict[str, int]:
            return {"epoch": 0}

        def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:
            return {"epoch": min(start["epoch"] + 1, last)}

        def partitions(self, start: Any, end: Any) -> list[InputPartition]:
            return [InputPartition(end["epoch"])]

        def read(self, partition: Any) -> Iterator[tuple[int]]:
            yield (partition.value,)

    class TickSource(DataSource):
        @classmethod
        def name(cls) -> str:
            return "ticks"

        def schema(self) -> str:
            return "tick int"

        def streamReader(self, schema: Any) -> DataSourceStreamReader:
            return Ticks()

    class Subtask(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.pages = handle.getMapState("pages", page, content)

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
            for row in rows:
                self.pages.getValue((0,))
                self.pages.updateValue((0,), (bytes(row.body),))
            yield Row(slot=key[0], body=b"done")

        def close(self) -> None:
            pass

    spark = rival.session()
    spark.dataSource.register(TickSource)
    ends = [time.time()]

    def collect(batch: Any, number: int) -> None:
        assert batch.collect(), f"epoch {number} must report"
        ends.append(time.time())

    cells = spark.readStream.format("ticks").load().mapInArrow(_cells, "slot int, body binary")
    made = cells.groupBy("slot").transformWithState(Subtask(), "slot int, body binary", "Update", "None")
    checkpoint = str(setting.work / "checkpoint")
    writer = made.writeStream.outputMode("update").option("checkpointLocation", checkpoint)
    query = writer.trigger(processingTime="0 seconds").foreachBatch(collect).start()
    while len(ends) <= last and query.isActive:
        time.sleep(0.05)
    query.stop()
    return Measured(epochs=[Epoch(1, end - start, end) for start, end in itertools.pairwise(ends)], rows=len(ends) - 1)


def _cells(batches: Any) -> Iterator[Any]:
    import pyarrow as pa

    for _ in batches:
        # Labels 0 and 1 lie in different shuffle partitions of two, as our slots do.
        yield pa.record_batch({"slot": pa.array([0, 1], pa.int32()), "body": pa.array([b"tick"] * 2, pa.binary())})


SIDES = {"ours": _ours, "raw": _raw}
USES = tuple(("empty_epoch", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """One line; smaller is better."""
    mine, theirs = sides["ours"].period(WARM[scale]), sides["raw"].period(WARM[scale])
    return [
        Line(
            what="period of an empty epoch",
            unit="s",
            ours=mine,
            rival=theirs,
            rival_name="raw query of the same shape",
            ratio=mine / theirs,
            at_most=1.5,
        )
    ]
