"""Steps of a job file that hold state for each key, or each key and window."""

from __future__ import annotations

from millstream.api.jobfile import patterns, windows
from millstream.api.jobfile.forms import mapping
from millstream.api.jobfile.written_step import WrittenStep, aggregates, keys, refuse_together
from millstream.api.streams.stream import DataStream


def aggregate(stream: DataStream, step: WrittenStep) -> DataStream:
    """`aggregate: {name: sum(column)}`, running or by window."""
    named = aggregates(step)
    keyed = stream.key_by(*keys(step))
    if "window" not in step.options:
        windows.refuse_without_window(step)
        return keyed.aggregate(**step.given("id", "emit", "uid"), **named)
    refuse_together(step, ("emit",), "with window:")
    return windows.windowed(keyed, step).aggregate(**step.given("id", "uid", "pane"), **named)


def reduce(stream: DataStream, step: WrittenStep) -> DataStream:
    """`reduce: module:function`, running or by window."""
    keyed = stream.key_by(*keys(step))
    if "window" not in step.options:
        windows.refuse_without_window(step)
        return keyed.reduce(step.text(), **step.given("id", "uid"))
    return windows.windowed(keyed, step).reduce(step.text(), **step.given("id", "uid"))


def process(stream: DataStream, step: WrittenStep) -> DataStream:
    """`process: module:Class`, or a function of a window's rows."""
    keyed = stream.key_by(*keys(step))
    if "outputs" in step.options:
        mapping(step.options["outputs"], "outputs:", "{name: schema}")
    if "window" not in step.options:
        windows.refuse_without_window(step)
        return keyed.process(step.text(), **step.given("schema", "outputs", "id", "uid"), **step.on_error())
    refuse_together(step, ("on_error",), "with window:")
    return windows.windowed(keyed, step).process(step.text(), **step.given("schema", "outputs", "id", "uid"))


def agent(stream: DataStream, step: WrittenStep) -> DataStream:
    """`agent: module:Class`."""
    given = {"schema": step.needed("schema"), **step.given("id", "uid"), **step.on_error()}
    return stream.key_by(*keys(step)).agent(step.text(), **given)


def pattern(stream: DataStream, step: WrittenStep) -> DataStream:
    """`pattern: [stages]`, by key or over all rows."""
    rows = stream.key_by(*keys(step)) if "key_by" in step.options else stream
    return patterns.closed(rows.pattern(patterns.pattern(step), order_by=patterns.order_by(step)), step)


def deduplicate(stream: DataStream, step: WrittenStep) -> DataStream:
    """`deduplicate: first`, or `last`; of each key, or of each key and window."""
    keyed = stream.key_by(*keys(step))
    if "window" in step.options:
        refuse_together(step, ("ttl", "emit"), "with window:")
        return windows.windowed(keyed, step).deduplicate(keep=step.value, **step.given("by", "id", "uid"))
    refuse_together(step, ("allowed_lateness",), "without window:")
    return keyed.deduplicate(keep=step.value, **step.given("by", "ttl", "emit", "id", "uid"))


def top_n(stream: DataStream, step: WrittenStep) -> DataStream:
    """`top_n: 10`, of each key, or of each key and window."""
    keyed, given = stream.key_by(*keys(step)), step.given("rank", "ties", "id", "uid")
    if "window" in step.options:
        refuse_together(step, ("emit",), "with window:")
        return windows.windowed(keyed, step).top_n(step.value, by=step.needed("by"), **given)
    refuse_together(step, ("allowed_lateness",), "without window:")
    return keyed.top_n(step.value, by=step.needed("by"), **given, **step.given("emit"))


def sample(stream: DataStream, step: WrittenStep) -> DataStream:
    """`sample: 0.1`, of the rows of each key."""
    return stream.key_by(*keys(step)).sample(step.value, **step.given("id", "uid"))
