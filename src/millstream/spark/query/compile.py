"""From a deployment plan to one streaming query: the compiler in one readable method."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from millstream.plan.deployment import DeploymentPlan
from millstream.spark.query.level import CELL_SCHEMA, Shipped, Subtask
from millstream.spark.query.shipping import ship_by_value
from millstream.spark.query.slots import slot_labels
from millstream.spark.query.source import FORMAT, PLANNER, source_of

EpochBody = Callable[[DataFrame, int], None]


def start_query(
    session: SparkSession,
    deployment: DeploymentPlan,
    shipped: Shipped,
    *,
    planner: str,
    checkpoint: str,
    on_epoch: EpochBody,
) -> StreamingQuery:
    """Start the query of a plan; what comes out of its last level are reports, which end the epoch."""
    # An interval of zero cuts the next epoch as soon as the last one is published.
    interval = 0 if deployment.is_bounded else deployment.epoch_interval
    return (
        compile_levels(session, shipped, depth=deployment.plan.depth, planner=planner)
        .writeStream.outputMode("update")
        .queryName(f"millstream-{deployment.name}")
        .option("checkpointLocation", checkpoint)
        .trigger(processingTime=f"{interval} milliseconds")
        .foreachBatch(on_epoch)
        .start()
    )


def ship(deployment: DeploymentPlan, folder: str = "") -> Shipped:
    """A plan as its workers get it; `folder` is one of the run."""
    ship_by_value(deployment)
    return Shipped(deployment, slot_labels(deployment.plan.parallelism), folder)


def compile_levels(session: SparkSession, shipped: Shipped, *, depth: int, planner: str) -> DataFrame:
    """The levels of a plan as one stream: D keyed levels give D shuffles, whatever the shape of the graph."""
    session.dataSource.register(source_of(shipped))

    # Level 0: read splits, run chains, pack rows by subtask or stage them for a sink.
    stream = session.readStream.format(FORMAT).option(PLANNER, planner).load()
    # Each keyed level: one shuffle by slot, one call per subtask and epoch.
    for level in range(1, depth + 1):
        stream = stream.groupBy("slot").transformWithState(Subtask(shipped, level), CELL_SCHEMA, "Update", "None")
    return stream
