"""What hand-written queries share: a session with the settings an expert would choose, and their epochs."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.readwriter import DataStreamWriter

from benchmarks.data import Shape, generated
from benchmarks.measure import Epoch, Setting

_STATE = "spark.sql.streaming.stateStore."
_CONFS = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1024m",
    "spark.driver.extraJavaOptions": "-Xss16m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    _STATE + "providerClass": "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    _STATE + "rocksdb.changelogCheckpointing.enabled": "true",
    _STATE + "rocksdb.trackTotalNumberOfRows": "false",
}


def session(more: Mapping[str, str] | None = None) -> SparkSession:
    """A session on `local[2]` with RocksDB state, and with further settings."""
    builder = SparkSession.Builder().master("local[2]").appName("rival")
    for name, value in {**_CONFS, **(more or {})}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def rows_of(spark: SparkSession, setting: Setting, shape: Shape) -> DataFrame:
    """The files of a shape as a stream, one epoch's worth in each batch."""
    reader = spark.readStream.schema(shape.schema).option("maxFilesPerTrigger", shape.files_per_epoch)
    return reader.parquet(str(generated(setting.data, shape)))


def to_parquet(setting: Setting) -> Callable[[DataFrame, int], None]:
    """A `foreachBatch` body that writes each batch to a folder of its own, so that a repeated batch replaces itself."""

    def write(batch: DataFrame, number: int) -> None:
        batch.write.mode("overwrite").parquet(str(setting.output / str(number)))

    return write


def epochs_of(query: DataStreamWriter, setting: Setting) -> list[Epoch]:
    """Run until the files are read; the batches that read rows."""
    checkpoint = str(setting.work / "checkpoint")
    running = query.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    running.awaitTermination()
    return [epoch_of(progress) for progress in running.recentProgress if progress["numInputRows"]]


def epoch_of(progress: Any) -> Epoch:
    """A batch that a query reported."""
    seconds = progress["durationMs"]["triggerExecution"] / 1000
    began = dt.datetime.fromisoformat(progress["timestamp"]).timestamp()
    return Epoch(progress["numInputRows"], seconds, began + seconds)
