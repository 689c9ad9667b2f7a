"""Millstream: Flink's programming model on Spark, in Python."""

import importlib
from typing import TYPE_CHECKING, Any

from millstream.api.declarative import load_job
from millstream.api.functions import (
    avg,
    count,
    dead_letter,
    first,
    last,
    max,
    min,
    session,
    sliding,
    sum,
    tumbling,
)
from millstream.api.job import Job
from millstream.api.keyed import KeyedStream, WindowedStream
from millstream.api.process import Context, ProcessFunction, TimeWindow
from millstream.api.state import ListState, MapState, ValueState
from millstream.api.stream import DataStream
from millstream.connectors.collect.spec import collect
from millstream.connectors.datagen.spec import datagen
from millstream.connectors.files.spec import files
from millstream.connectors.memory.spec import memory
from millstream.connectors.print.spec import print_rows as print
from millstream.connectors.rate.spec import rate
from millstream.errors import MillstreamError

__version__ = "0.1.0"

if TYPE_CHECKING:
    from millstream.connectors.files.reader import read_files


def __getattr__(name: str) -> Any:
    """Names that need heavier libraries are loaded when they are first used."""
    if name == "read_files":
        return importlib.import_module("millstream.connectors.files.reader").read_files
    msg = f"module 'millstream' has no attribute {name!r}"
    raise AttributeError(msg)


__all__ = [
    "Context",
    "DataStream",
    "Job",
    "KeyedStream",
    "ListState",
    "MapState",
    "MillstreamError",
    "ProcessFunction",
    "TimeWindow",
    "ValueState",
    "WindowedStream",
    "avg",
    "collect",
    "count",
    "datagen",
    "dead_letter",
    "files",
    "first",
    "last",
    "load_job",
    "max",
    "memory",
    "min",
    "print",
    "rate",
    "read_files",
    "session",
    "sliding",
    "sum",
    "tumbling",
]
