"""Hand-written Structured Streaming over Kafka: Spark's own source and sink, with the settings an expert would choose."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from scripts import kafka_server

from benchmarks import rival
from benchmarks.connectors.topics import SCHEMA
from benchmarks.measure import Epoch

_JARS = Path(__file__).with_name("spark_kafka_jars.txt")


def installed() -> Path:
    """The folder of the jars, fetched if they are not there."""
    return kafka_server.fetched(_JARS, Path(sys.prefix) / "servers" / "spark-kafka-4.2.0")


def session() -> SparkSession:
    """A session that can reach Kafka."""
    return rival.session({"spark.driver.extraClassPath": f"{installed()}/*"})


def orders(spark: SparkSession, facts: dict[str, Any]) -> DataFrame:
    """The orders of a topic as a stream, decoded, an epoch's worth in each batch."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", facts["servers"])
    reader = reader.option("subscribe", facts["topic"]).option("startingOffsets", facts.get("start", "earliest"))
    if "epoch_rows" in facts:
        reader = reader.option("maxOffsetsPerTrigger", facts["epoch_rows"])
    value = f.from_json(f.col("value").cast("string"), SCHEMA)
    return reader.load().select(value.alias("row")).select("row.*")


def to_topic(rows: DataFrame, facts: dict[str, Any], *, mode: str) -> Any:
    """A query that writes rows as json; their first column is the key."""
    key = f.col(rows.columns[0]).cast("string").alias("key")
    writer = rows.select(key, f.to_json(f.struct("*")).alias("value")).writeStream.format("kafka").outputMode(mode)
    return writer.option("kafka.bootstrap.servers", facts["servers"]).option("topic", facts["out"])


def measured(query: Any, work: Path) -> dict[str, Any]:
    """Run until the topic is read."""
    query = query.option("checkpointLocation", str(work / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()
    epochs: list[Epoch] = [rival.epoch_of(each) for each in query.recentProgress if each["numInputRows"]]
    return {"epochs": epochs}
