"""Joins, lookups, rankings and asynchronous steps of a job file."""

from __future__ import annotations

from typing import Any

from millstream.api.jobfile.item import Item, column_names, keys, mapping, refuse_together, wrong_form
from millstream.api.jobfile.window_item import window, windowed
from millstream.api.streams.keyed import KeyedStream
from millstream.api.streams.stream import DataStream

_STEP = ("id", "input", "rebalance")
_PAIR = (*_STEP, "uid", "key_by", "right_key_by", "how", "prefix")
OPTIONS: dict[str, tuple[str, ...]] = {
    "join": (*_PAIR, "within", "where", "keep", "window", "allowed_lateness"),
    "temporal_join": _PAIR,
    "connect": (*_STEP, "uid", "with", "broadcast", "key_by", "right_key_by", "schema", "outputs", "on_error"),
    "patterns": (*_STEP, "uid", "key_by", "on_update", "order_by"),
    "lookup": (*_STEP, "match", "how", "schema", "format", "prefix", "refresh"),
    "deduplicate": (*_STEP, "uid", "key_by", "by", "ttl", "emit", "window", "allowed_lateness"),
    "top_n": (*_STEP, "uid", "key_by", "by", "rank", "ties", "emit", "window", "allowed_lateness"),
    "async_map": (*_STEP, "schema", "concurrency", "timeout", "retries", "backoff", "ordered", "on_error"),
}
"""The keys that each kind may have."""


def join(stream: DataStream, other: DataStream, item: Item) -> DataStream:
    """`join: right step`, for ever, within bounds, or by window."""
    left, right = _keyed(stream, other, item)
    given = item.given("id", "uid", "how", "where", "prefix")
    if "window" not in item.options:
        refuse_together(item, ("allowed_lateness",), "without window:")
        return left.join(right, **given, **item.given("within", "keep"))
    refuse_together(item, ("within", "keep"), "with window:")
    return left.window(window(item), **item.given("allowed_lateness")).join(right, **given)


def temporal_join(stream: DataStream, other: DataStream, item: Item) -> DataStream:
    """`temporal_join: step of versions`."""
    left, right = _keyed(stream, other, item)
    return left.temporal_join(right, **item.given("id", "uid", "how", "prefix"))


def connect(stream: DataStream, other: DataStream, item: Item) -> DataStream:
    """`connect: module:Class` with another step, keyed or broadcast."""
    is_broadcast = item.options.get("broadcast", False)
    if not isinstance(is_broadcast, bool):
        raise wrong_form(is_broadcast, "broadcast:", "true or false")
    if is_broadcast:
        refuse_together(item, ("right_key_by",), "with broadcast:")
        left: Any = stream.key_by(*keys(item)) if "key_by" in item.options else stream
        connected = left.connect(other.broadcast())
    else:
        left, right = _keyed(stream, other, item)
        connected = left.connect(right)
    if "outputs" in item.options:
        mapping(item.options["outputs"], "outputs:", "{name: schema}")
    given = item.given("schema", "outputs", "id", "uid")
    made: DataStream = connected.process(item.text(), **given, **item.on_error())
    return made


def patterns(stream: DataStream, other: DataStream, item: Item) -> DataStream:
    """`patterns: step of definitions`, all of which reach every subtask."""
    given = item.given("on_update", "order_by", "id", "uid")
    rows = stream.key_by(*keys(item)) if "key_by" in item.options else stream
    return rows.patterns(other.broadcast(), **given)


def _keyed(stream: DataStream, other: DataStream, item: Item) -> tuple[KeyedStream, KeyedStream]:
    """Both sides; the right one is keyed by the same columns unless `right_key_by` says otherwise."""
    mine = keys(item)
    theirs = column_names(item.options["right_key_by"], "right_key_by:") if "right_key_by" in item.options else mine
    return stream.key_by(*mine), other.key_by(*theirs)


def lookup(stream: DataStream, item: Item) -> DataStream:
    """`lookup: path`, or a list of rows."""
    if not isinstance(item.value, (str, list)):
        raise wrong_form(item.value, "lookup:", "a path, or a list of rows")
    # YAML reads a bare `on` as true.
    on = mapping(item.needed("match"), "match:", "{column of the stream: column of the table}")
    return stream.lookup(item.value, on=on, **item.given("how", "schema", "format", "prefix", "refresh", "id"))


def deduplicate(stream: DataStream, item: Item) -> DataStream:
    """`deduplicate: first`, or `last`; of each key, or of each key and window."""
    keyed = stream.key_by(*keys(item))
    if "window" in item.options:
        refuse_together(item, ("ttl", "emit"), "with window:")
        return windowed(keyed, item).deduplicate(keep=item.value, **item.given("by", "id", "uid"))
    refuse_together(item, ("allowed_lateness",), "without window:")
    return keyed.deduplicate(keep=item.value, **item.given("by", "ttl", "emit", "id", "uid"))


def top_n(stream: DataStream, item: Item) -> DataStream:
    """`top_n: 10`, of each key, or of each key and window."""
    keyed, given = stream.key_by(*keys(item)), item.given("rank", "ties", "id", "uid")
    if "window" in item.options:
        refuse_together(item, ("emit",), "with window:")
        return windowed(keyed, item).top_n(item.value, by=item.needed("by"), **given)
    refuse_together(item, ("allowed_lateness",), "without window:")
    return keyed.top_n(item.value, by=item.needed("by"), **given, **item.given("emit"))


def async_map(stream: DataStream, item: Item) -> DataStream:
    """`async_map: module:function`."""
    given = item.given("schema", "concurrency", "timeout", "retries", "backoff", "ordered", "id")
    return stream.async_map(item.text(), **given, **item.on_error())
