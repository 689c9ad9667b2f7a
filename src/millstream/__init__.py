"""Millstream: Flink's programming model on Spark, in Python."""

from typing import TYPE_CHECKING, Any

from millstream.api import pattern
from millstream.api.functions.broadcast import BroadcastFunction, BroadcastState
from millstream.api.functions.combining_state import AggregatingState, ReducingState
from millstream.api.functions.context import Counter, FunctionContext, Gauge, Histogram
from millstream.api.functions.nondeterministic import nondeterministic
from millstream.api.functions.process import Context, CoProcessFunction, ProcessFunction, Row, Rows, TimeWindow
from millstream.api.functions.state import ListState, MapState, ValueState
from millstream.api.functions.window import (
    GlobalWindow,
    PaneInfo,
    PaneTiming,
    WindowContext,
    WindowFunction,
    window_state,
)
from millstream.api.job import Job
from millstream.api.running.job import RunningJob
from millstream.api.running.result import EpochSummary, PartitionWatermark, RunResult
from millstream.api.streams.keyed import KeyedStream
from millstream.api.streams.stream import DataStream
from millstream.api.streams.windowed import WindowedStream
from millstream.api.values import evictor, trigger, watermark
from millstream.api.values.aggregates import avg, count, count_distinct, first, last, max, min, sum
from millstream.api.values.error_policy import dead_letter
from millstream.api.values.trigger import Trigger, TriggerContext, TriggerResult
from millstream.api.values.watermark import WatermarkGenerator
from millstream.api.values.windows import count_window, cumulative, global_window, session, sliding, tumbling
from millstream.errors import MillstreamError
from millstream.model.flow import FlowControl
from millstream.plan.deployment import EpochPolicy, MemoryBudget
from millstream.registry import load
from millstream.tracebacks import publish

__version__ = "0.1.0"

if TYPE_CHECKING:
    from millstream.api.jobfile.load import load_job
    from millstream.connectors.collect.spec import collect
    from millstream.connectors.consumer.spec import consumer
    from millstream.connectors.datagen.spec import datagen
    from millstream.connectors.files.reader import read_files
    from millstream.connectors.files.spec import files
    from millstream.connectors.http.spec import http
    from millstream.connectors.jdbc.reading.spec import jdbc_query, jdbc_table
    from millstream.connectors.jdbc.spec import jdbc
    from millstream.connectors.kafka.spec import kafka
    from millstream.connectors.loader.spec import loader
    from millstream.connectors.memory.spec import memory
    from millstream.connectors.nats.spec import nats
    from millstream.connectors.nexmark.spec import nexmark
    from millstream.connectors.postgres_cdc.spec import postgres_cdc
    from millstream.connectors.print.spec import print_rows as print
    from millstream.connectors.rabbitmq.spec import rabbitmq
    from millstream.connectors.rate.spec import rate
    from millstream.inspect.state.stored import read_state


_LATER = {
    "collect": "millstream.connectors.collect.spec:collect",
    "datagen": "millstream.connectors.datagen.spec:datagen",
    "files": "millstream.connectors.files.spec:files",
    "jdbc": "millstream.connectors.jdbc.spec:jdbc",
    "jdbc_query": "millstream.connectors.jdbc.reading.spec:jdbc_query",
    "jdbc_table": "millstream.connectors.jdbc.reading.spec:jdbc_table",
    "kafka": "millstream.connectors.kafka.spec:kafka",
    "load_job": "millstream.api.jobfile.load:load_job",
    "consumer": "millstream.connectors.consumer.spec:consumer",
    "loader": "millstream.connectors.loader.spec:loader",
    "http": "millstream.connectors.http.spec:http",
    "memory": "millstream.connectors.memory.spec:memory",
    "nats": "millstream.connectors.nats.spec:nats",
    "nexmark": "millstream.connectors.nexmark.spec:nexmark",
    "postgres_cdc": "millstream.connectors.postgres_cdc.spec:postgres_cdc",
    "print": "millstream.connectors.print.spec:print_rows",
    "rabbitmq": "millstream.connectors.rabbitmq.spec:rabbitmq",
    "rate": "millstream.connectors.rate.spec:rate",
    "read_files": "millstream.connectors.files.reader:read_files",
    "read_state": "millstream.inspect.state.stored:read_state",
}


def __getattr__(name: str) -> Any:
    """Names that few scripts use, or that need heavier libraries, are loaded when they are first used."""
    if name not in _LATER:
        msg = f"module 'millstream' has no attribute {name!r}"
        raise AttributeError(msg)
    globals()[name] = load(_LATER[name])
    publish(globals(), [name])
    return globals()[name]


__all__ = [
    "AggregatingState",
    "BroadcastFunction",
    "BroadcastState",
    "CoProcessFunction",
    "Context",
    "Counter",
    "DataStream",
    "EpochPolicy",
    "EpochSummary",
    "FlowControl",
    "FunctionContext",
    "Gauge",
    "GlobalWindow",
    "Histogram",
    "Job",
    "KeyedStream",
    "ListState",
    "MapState",
    "MemoryBudget",
    "MillstreamError",
    "PaneInfo",
    "PaneTiming",
    "PartitionWatermark",
    "ProcessFunction",
    "ReducingState",
    "Row",
    "Rows",
    "RunResult",
    "RunningJob",
    "TimeWindow",
    "Trigger",
    "TriggerContext",
    "TriggerResult",
    "ValueState",
    "WatermarkGenerator",
    "WindowContext",
    "WindowFunction",
    "WindowedStream",
    "avg",
    "collect",
    "consumer",
    "count",
    "count_distinct",
    "count_window",
    "cumulative",
    "datagen",
    "dead_letter",
    "evictor",
    "files",
    "first",
    "global_window",
    "http",
    "jdbc",
    "jdbc_query",
    "jdbc_table",
    "kafka",
    "last",
    "load_job",
    "loader",
    "max",
    "memory",
    "min",
    "nats",
    "nexmark",
    "nondeterministic",
    "pattern",
    "postgres_cdc",
    "print",
    "rabbitmq",
    "rate",
    "read_files",
    "read_state",
    "session",
    "sliding",
    "sum",
    "trigger",
    "tumbling",
    "watermark",
    "window_state",
]

publish(globals(), __all__)
