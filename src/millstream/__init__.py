"""Millstream: Flink's programming model on Spark, in Python."""

import importlib
from typing import TYPE_CHECKING, Any

from millstream.api import evictor, pattern, trigger, watermark
from millstream.api.broadcast import BroadcastFunction, BroadcastState
from millstream.api.declarative import load_job
from millstream.api.functions import (
    avg,
    count,
    count_distinct,
    count_window,
    cumulative,
    dead_letter,
    first,
    global_window,
    last,
    max,
    min,
    nondeterministic,
    session,
    sliding,
    sum,
    tumbling,
)
from millstream.api.job import Job
from millstream.api.keyed import KeyedStream
from millstream.api.process import Context, CoProcessFunction, ProcessFunction, TimeWindow
from millstream.api.running import RunningJob
from millstream.api.state import AggregatingState, ListState, MapState, ReducingState, ValueState
from millstream.api.stream import DataStream
from millstream.api.trigger import Trigger, TriggerContext, TriggerResult
from millstream.api.watermark import WatermarkGenerator
from millstream.api.window_function import (
    GlobalWindow,
    PaneInfo,
    PaneTiming,
    WindowContext,
    WindowFunction,
    window_state,
)
from millstream.api.windowed import WindowedStream
from millstream.connectors.collect.spec import collect
from millstream.connectors.datagen.spec import datagen
from millstream.connectors.files.spec import files
from millstream.connectors.jdbc.spec import jdbc
from millstream.connectors.memory.spec import memory
from millstream.connectors.nexmark.spec import nexmark
from millstream.connectors.print.spec import print_rows as print
from millstream.connectors.rate.spec import rate
from millstream.errors import MillstreamError
from millstream.plan.deployment import EpochPolicy

__version__ = "0.1.0"

if TYPE_CHECKING:
    from millstream.connectors.files.reader import read_files
    from millstream.runtime.stored_state import read_state


def __getattr__(name: str) -> Any:
    """Names that need heavier libraries are loaded when they are first used."""
    if name == "read_files":
        return importlib.import_module("millstream.connectors.files.reader").read_files
    if name == "read_state":
        return importlib.import_module("millstream.runtime.stored_state").read_state
    msg = f"module 'millstream' has no attribute {name!r}"
    raise AttributeError(msg)


__all__ = [
    "AggregatingState",
    "BroadcastFunction",
    "BroadcastState",
    "CoProcessFunction",
    "Context",
    "DataStream",
    "EpochPolicy",
    "GlobalWindow",
    "Job",
    "KeyedStream",
    "ListState",
    "MapState",
    "MillstreamError",
    "PaneInfo",
    "PaneTiming",
    "ProcessFunction",
    "ReducingState",
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
    "jdbc",
    "last",
    "load_job",
    "max",
    "memory",
    "min",
    "nexmark",
    "nondeterministic",
    "pattern",
    "print",
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
