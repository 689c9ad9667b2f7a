"""Steps of a job file that take rows one by one."""

from __future__ import annotations

from typing import Any

from millstream.api.jobfile import watermarks
from millstream.api.jobfile.forms import column_names, mapping, without, wrong_form
from millstream.api.jobfile.written_step import WrittenStep
from millstream.api.streams.stream import DataStream
from millstream.graph.function import function_ref


def event_time(stream: DataStream, step: WrittenStep) -> DataStream:
    """`event_time: column`."""
    options = watermarks.event_time_options(step)
    return stream.event_time(step.text(), **options, **step.on_error(), **step.given("id", "uid"))


def filter(stream: DataStream, step: WrittenStep) -> DataStream:
    """`filter: expression`, or `{function: 'module:function'}`."""
    where = step.value
    if isinstance(where, dict) and where.keys() == {"function"}:
        where = function_ref(str(where["function"])).target
    elif not isinstance(where, str):
        raise wrong_form(where, "filter:", "an expression, or {function: 'module:function'}")
    return stream.filter(where, **step.on_error(), **step.given("id"))


def select(stream: DataStream, step: WrittenStep) -> DataStream:
    """Names come first and expressions by name after them; a name behind an expression is one too, to keep the order."""
    parts = step.value if isinstance(step.value, list) else [step.value]
    columns: list[str] = []
    named: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, dict):
            named |= without(part, ("id",), "select:")
        elif not isinstance(part, str):
            raise wrong_form(part, "select:", "names of columns, and {name: expression}")
        elif named:
            named |= without({part: f"`{part}`"}, ("id",), "select:")
        else:
            columns.append(part)
    return stream.select(*columns, **step.given("id"), **named)


def with_columns(stream: DataStream, step: WrittenStep) -> DataStream:
    """`with_columns: {name: expression}`."""
    named = without(mapping(step.value, "with_columns:", "{name: expression}"), ("id",), "with_columns:")
    return stream.with_columns(**step.given("id"), **named)


def map(stream: DataStream, step: WrittenStep) -> DataStream:
    """`map: module:function`."""
    return stream.map(step.text(), **step.given("schema", "id"), **step.on_error())


def flat_map(stream: DataStream, step: WrittenStep) -> DataStream:
    """`flat_map: module:function`."""
    return stream.flat_map(step.text(), **step.given("schema", "id"), **step.on_error())


def map_batches(stream: DataStream, step: WrittenStep) -> DataStream:
    """`map_batches: module:function`."""
    return stream.map_batches(step.text(), **step.given("schema", "id"))


def lookup(stream: DataStream, step: WrittenStep) -> DataStream:
    """`lookup: path`, or a list of rows."""
    if not isinstance(step.value, (str, list)):
        raise wrong_form(step.value, "lookup:", "a path, or a list of rows")
    # YAML reads a bare `on` as true.
    on = mapping(step.needed("match"), "match:", "{column of the stream: column of the table}")
    return stream.lookup(step.value, on=on, **step.given("how", "schema", "format", "prefix", "refresh", "id"))


def async_map(stream: DataStream, step: WrittenStep) -> DataStream:
    """`async_map: module:function`."""
    given = step.given("schema", "concurrency", "timeout", "retries", "backoff", "ordered", "id")
    return stream.async_map(step.text(), **given, **step.on_error())


def as_changelog(stream: DataStream, step: WrittenStep) -> DataStream:
    """`as_changelog: column`, or a list of the columns that identify a row; empty, where rows come and go whole."""
    keys = [] if step.value is None else column_names(step.value, "as_changelog:")
    return stream.as_changelog(keys=keys, **step.given("op", "images", "id"))


def as_rows(stream: DataStream, step: WrittenStep) -> DataStream:
    """`as_rows:`, without a value."""
    _refuse_value(step)
    return stream.as_rows(**step.given("id"))


def normalize(stream: DataStream, step: WrittenStep) -> DataStream:
    """`normalize:`, without a value."""
    _refuse_value(step)
    return stream.normalize(**step.given("id", "uid"))


def _refuse_value(step: WrittenStep) -> None:
    if step.value is not None:
        raise wrong_form(step.value, f"{step.kind}:", "nothing")
