"""The job of ten rows written by hand in PySpark: a session, a source in Python, transformWithState and foreachBatch."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming import StatefulProcessor
from pyspark.sql.types import LongType, StructField, StructType

from benchmarks import rival


class TenRows(DataSourceStreamReader):
    def initialOffset(self) -> dict[str, int]:
        return {"rows": 0}

    def latestOffset(self, start: dict[str, int], limit: Any = None) -> dict[str, int]:
        return {"rows": 10}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition((start["rows"], end["rows"]))]

    def read(self, partition: Any) -> Iterator[tuple[str, int]]:
        for n in range(*partition.value):
            yield "ab"[n % 2], n


class TenSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ten"

    def schema(self) -> str:
        return "k string, v long"

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return TenRows()


class Sums(StatefulProcessor):
    def init(self, handle: Any) -> None:
        fields = [StructField("n", LongType()), StructField("s", LongType())]
        self.sums = handle.getValueState("sums", StructType(fields))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Any]:
        from pyspark.sql import Row

        n, s = self.sums.get() if self.sums.exists() else (0, 0)
        for row in rows:
            n, s = n + 1, s + row.v
        self.sums.update((n, s))
        yield Row(k=key[0], n=n, s=s)

    def close(self) -> None:
        pass


def main() -> None:
    spark = rival.session()
    spark.dataSource.register(TenSource)
    done = threading.Event()

    def show(batch: Any, number: int) -> None:
        for row in batch.collect():
            print(row)
        done.set()

    rows = spark.readStream.format("ten").load()
    sums = rows.groupBy("k").transformWithState(Sums(), "k string, n long, s long", "Update", "None")
    with tempfile.TemporaryDirectory() as folder:
        writer = sums.writeStream.outputMode("update").option("checkpointLocation", folder)
        query = writer.trigger(processingTime="0 seconds").foreachBatch(show).start()
        done.wait()
        query.stop()
        spark.stop()


if __name__ == "__main__":
    main()
