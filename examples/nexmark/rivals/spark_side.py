"""The process of the hand-written Spark queries, and what it wrote."""

from __future__ import annotations

import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
from benchmarks.rival import session
from examples.nexmark.rivals.setting import Answer, Setting
from examples.nexmark.rivals.spark_queries import QUERIES, SparkQuery
from pyspark.sql import DataFrame, SparkSession


def run(setting: Setting) -> Answer:
    """Run a query until its files are read; time counts from the first batch to the end of the last."""
    spark = session()
    _ran(spark, setting.ready)
    times = _ran(spark, setting)
    spark.stop()
    return Answer(began=times[0][0], ended=times[-1][1])


def _ran(spark: SparkSession, setting: Setting) -> list[tuple[float, float]]:
    """When each batch began and ended."""
    query = QUERIES[setting.query]
    result = query.build(lambda kind: _stream(spark, setting, kind, with_end=query.is_timed))
    times: list[tuple[float, float]] = []

    def write(batch: DataFrame, number: int) -> None:
        began = time.time()
        _write(batch, setting.output / f"{number:05d}", query)
        times.append((began, time.time()))

    writer = result.writeStream.outputMode(query.mode).option("checkpointLocation", str(setting.checkpoint))
    writer.trigger(availableNow=True).foreachBatch(write).start().awaitTermination()
    return times


def _stream(spark: SparkSession, setting: Setting, kind: str, *, with_end: bool) -> DataFrame:
    """The files of a kind, as many in each batch as an epoch of ours covers."""
    schema = spark.read.parquet(str(setting.kind(kind))).schema
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", setting.files_per_epoch)
    # Beside the folder of a kind lies that of the row which ends its time.
    folder = f"{kind}*" if with_end else kind
    return reader.parquet(str(Path(setting.data) / folder / "part-*.parquet"))


def _write(batch: DataFrame, folder: Path, query: SparkQuery) -> None:
    """Each batch in a folder of its own, so that a repeated batch replaces itself."""
    writer = batch.write.mode("overwrite")
    if query.csv_by:
        writer.partitionBy(*query.csv_by).option("header", "true").csv(str(folder))
    else:
        writer.parquet(str(folder))


def result(setting: Setting) -> pa.Table:
    """The table that the rows come to."""
    query = QUERIES[setting.query]
    tables = [
        _table(path)
        for folder in sorted(setting.output.iterdir())
        for path in sorted(folder.rglob("part-*"))
        if path.stat().st_size
    ]
    rows = pa.concat_tables(tables, promote_options="permissive")
    return rows if query.settled is None else query.settled(rows)


def _table(path: Path) -> pa.Table:
    return pacsv.read_csv(path) if path.suffix == ".csv" else pq.ParquetFile(path).read()
