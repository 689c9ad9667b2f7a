"""The kinds of steps that a job file may hold: what each becomes, and the keys it may have."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from millstream.api.jobfile import keyed_steps, paired_steps, patterns, row_steps, watermarks, windows
from millstream.api.jobfile.forms import connector, flow_control, mapping, without, wrong_form
from millstream.api.jobfile.loaded_steps import LoadedSteps
from millstream.api.jobfile.written_step import WrittenStep, refuse_together
from millstream.api.streams.stream import DataStream

Build = Callable[[LoadedSteps, WrittenStep], DataStream | None]


@dataclasses.dataclass(frozen=True, slots=True)
class StepKind:
    """What a step of this kind becomes, and the keys it may have beside its kind."""

    build: Build
    keys: tuple[str, ...]


def _source(loaded: LoadedSteps, step: WrittenStep) -> DataStream:
    origin = connector(step.needed("from"))
    given = step.given("schema", "credit", "uid")
    if "flow" in step.options:
        given["flow"] = flow_control(step.options["flow"])
    return loaded.job.source(step.value, origin, **given, **step.on_error())


def _sink(loaded: LoadedSteps, step: WrittenStep) -> None:
    loaded.input(step).sink(step.value, connector(step.needed("to")), **step.given("uid"))


def _union(loaded: LoadedSteps, step: WrittenStep) -> DataStream:
    names = step.options.get("inputs", step.value)
    if not isinstance(names, list) or len(names) < 2 or (step.value is not None and "inputs" in step.options):
        raise wrong_form(names, "union:", "a list of two or more steps, here or in inputs:")
    first, *others = [loaded.named(name) for name in names]
    return first.union(*others, **step.given("id"))


def _sql(loaded: LoadedSteps, step: WrittenStep) -> DataStream:
    """`FROM stream` is the input; with `streams: {name: step}` others are read, and it only if it is named there."""
    given = step.given("emit", "allowed_lateness", "id", "uid")
    if "streams" not in step.options:
        made = loaded.input(step).sql(step.text(), **given)
    else:
        refuse_together(step, ("input", "rebalance"), "with streams:")
        written = mapping(step.options["streams"], "streams:", "{name: step}")
        streams = {name: loaded.named(read) for name, read in written.items()}
        made = loaded.job.sql(step.text(), **given, **without(streams, _SQL, "streams:"))
    if "id" in step.options:
        loaded.call(step.options["id"], made)
    return made


def _single(build: Callable[[DataStream, WrittenStep], DataStream]) -> Build:
    """A step over one stream."""
    return lambda loaded, step: build(loaded.input(step), step)


def _paired(build: Callable[[DataStream, DataStream, WrittenStep], DataStream]) -> Build:
    """A step over two streams."""
    return lambda loaded, step: build(loaded.input(step), loaded.named(step.options.get("with", step.value)), step)


_ANY = ("id", "input", "rebalance")
_KEYED = ("id", "uid", "input", "key_by", *windows.OPTIONS)
_JOINED = (*_ANY, "uid", "key_by", "right_key_by", "how", "prefix")
_SQL = ("id", "uid", "emit", "allowed_lateness")
_CONNECTED = (*_ANY, "uid", "with", "broadcast", "key_by", "right_key_by", "schema", "outputs", "on_error")
_AWAITED = ("schema", "concurrency", "timeout", "retries", "backoff", "ordered", "on_error")
KINDS: dict[str, StepKind] = {
    "source": StepKind(_source, ("from", "schema", "on_error", "credit", "flow", "uid")),
    "event_time": StepKind(_single(row_steps.event_time), (*_ANY, "uid", "on_error", *watermarks.OPTIONS)),
    "filter": StepKind(_single(row_steps.filter), (*_ANY, "on_error")),
    "select": StepKind(_single(row_steps.select), _ANY),
    "with_columns": StepKind(_single(row_steps.with_columns), _ANY),
    "map": StepKind(_single(row_steps.map), (*_ANY, "schema", "on_error")),
    "flat_map": StepKind(_single(row_steps.flat_map), (*_ANY, "schema", "on_error")),
    "map_batches": StepKind(_single(row_steps.map_batches), (*_ANY, "schema")),
    "union": StepKind(_union, ("id", "inputs")),
    "aggregate": StepKind(_single(keyed_steps.aggregate), (*_KEYED, "emit", "pane")),
    "reduce": StepKind(_single(keyed_steps.reduce), _KEYED),
    "agent": StepKind(_single(keyed_steps.agent), (*_ANY, "uid", "key_by", "schema", "on_error")),
    "process": StepKind(_single(keyed_steps.process), (*_KEYED, "schema", "outputs", "on_error")),
    "patterns": StepKind(_paired(paired_steps.patterns), (*_ANY, "uid", "key_by", "on_update", "order_by")),
    "pattern": StepKind(_single(keyed_steps.pattern), ("id", "uid", "input", "rebalance", "key_by", *patterns.OPTIONS)),
    "join": StepKind(_paired(paired_steps.join), (*_JOINED, "within", "where", "keep", "window", "allowed_lateness")),
    "temporal_join": StepKind(_paired(paired_steps.temporal_join), _JOINED),
    "connect": StepKind(_paired(paired_steps.connect), _CONNECTED),
    "lookup": StepKind(_single(row_steps.lookup), (*_ANY, "match", "how", "schema", "format", "prefix", "refresh")),
    "deduplicate": StepKind(
        _single(keyed_steps.deduplicate), (*_ANY, "uid", "key_by", "by", "ttl", "emit", "window", "allowed_lateness")
    ),
    "top_n": StepKind(
        _single(keyed_steps.top_n),
        (*_ANY, "uid", "key_by", "by", "rank", "ties", "emit", "window", "allowed_lateness"),
    ),
    "sample": StepKind(_single(keyed_steps.sample), (*_ANY, "uid", "key_by")),
    "as_changelog": StepKind(_single(row_steps.as_changelog), (*_ANY, "op", "images")),
    "as_rows": StepKind(_single(row_steps.as_rows), _ANY),
    "normalize": StepKind(_single(row_steps.normalize), (*_ANY, "uid")),
    "async_map": StepKind(_single(row_steps.async_map), (*_ANY, *_AWAITED)),
    "sql": StepKind(_sql, (*_ANY, *_SQL, "streams")),
    "sink": StepKind(_sink, ("input", "rebalance", "to", "uid")),
}
