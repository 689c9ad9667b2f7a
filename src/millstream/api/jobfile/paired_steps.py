"""Steps of a job file that read two streams: the value beside their kind, or `with:`, names the right one."""

from __future__ import annotations

from typing import Any

from millstream.api.jobfile.forms import column_names, flag, mapping
from millstream.api.jobfile.windows import window
from millstream.api.jobfile.written_step import WrittenStep, keys, refuse_together
from millstream.api.streams.keyed import KeyedStream
from millstream.api.streams.stream import DataStream


def join(stream: DataStream, other: DataStream, step: WrittenStep) -> DataStream:
    """`join: right step`, for ever, within bounds, or by window."""
    left, right = _keyed(stream, other, step)
    given = step.given("id", "uid", "how", "where", "prefix")
    if "window" not in step.options:
        refuse_together(step, ("allowed_lateness",), "without window:")
        return left.join(right, **given, **step.given("within", "keep"))
    refuse_together(step, ("within", "keep"), "with window:")
    return left.window(window(step), **step.given("allowed_lateness")).join(right, **given)


def temporal_join(stream: DataStream, other: DataStream, step: WrittenStep) -> DataStream:
    """`temporal_join: step of versions`."""
    left, right = _keyed(stream, other, step)
    return left.temporal_join(right, **step.given("id", "uid", "how", "prefix"))


def connect(stream: DataStream, other: DataStream, step: WrittenStep) -> DataStream:
    """`connect: module:Class` with another step, keyed or broadcast."""
    if flag(step.options, "broadcast"):
        refuse_together(step, ("right_key_by",), "with broadcast:")
        left: Any = stream.key_by(*keys(step)) if "key_by" in step.options else stream
        connected = left.connect(other.broadcast())
    else:
        left, right = _keyed(stream, other, step)
        connected = left.connect(right)
    if "outputs" in step.options:
        mapping(step.options["outputs"], "outputs:", "{name: schema}")
    given = step.given("schema", "outputs", "id", "uid")
    made: DataStream = connected.process(step.text(), **given, **step.on_error())
    return made


def patterns(stream: DataStream, other: DataStream, step: WrittenStep) -> DataStream:
    """`patterns: step of definitions`, all of which reach every subtask."""
    given = step.given("on_update", "order_by", "id", "uid")
    rows = stream.key_by(*keys(step)) if "key_by" in step.options else stream
    return rows.patterns(other.broadcast(), **given)


def _keyed(stream: DataStream, other: DataStream, step: WrittenStep) -> tuple[KeyedStream, KeyedStream]:
    """Both sides; the right one is keyed by the same columns unless `right_key_by` says otherwise."""
    mine = keys(step)
    theirs = column_names(step.options["right_key_by"], "right_key_by:") if "right_key_by" in step.options else mine
    return stream.key_by(*mine), other.key_by(*theirs)
