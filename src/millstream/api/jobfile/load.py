"""Jobs as YAML or JSON files: every step goes through the public API, so checks and messages are the same.

An error also says where in the file it was caused: the number, name and line of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from millstream.api.job import Job
from millstream.api.jobfile import join_item, pattern_item, watermark_item, window_item
from millstream.api.jobfile.document import Document, read_document
from millstream.api.jobfile.item import (
    Item,
    aggregates,
    connector,
    keys,
    mapping,
    refuse_together,
    refuse_unknown,
    without,
    wrong_form,
)
from millstream.api.streams.stream import DataStream
from millstream.errors import InvalidPlan, InvalidStep
from millstream.graph.function import function_ref
from millstream.plan.flink_keys import refuse_flink_keys

_JOB_KEYS = (
    "job",
    "guarantee",
    "epoch_interval",
    "rows_per_epoch",
    "parallelism",
    "max_parallelism",
    "on_stop",
    "chaining",
    "steps",
)
_CHAIN = "start_new_chain"


def load_job(source: str | Path) -> Job:
    """A job from a YAML or JSON file, or from such text: a `str` with a line break, or one that starts with `{`.

    Raises:
        MillstreamError: what the API would have raised for the same step, with its place in the file; or `DECL-…` for
            what only a file can get wrong.
    """
    document = read_document(source)
    if "format" in document.content:
        with document.located(None, None):
            return Job.from_json(document.content)
    return _Loader(document).job


def _opened(content: dict[str, Any]) -> tuple[Job, list[Any]]:
    """The job without steps, and the steps as they are written."""
    refuse_flink_keys({key: value for key, value in content.items() if key not in _JOB_KEYS})
    refuse_unknown(content, _JOB_KEYS, "a job file")
    for name in ("job", "steps"):
        if name not in content:
            msg = f"a job file needs {name!r}"
            raise InvalidPlan(msg, code="DECL-003", found=", ".join(content), known=_JOB_KEYS, hint=f"add {name}:")
    if not isinstance(content["steps"], list):
        raise wrong_form(content["steps"], "steps:", "a list of steps")
    settings = {key: value for key, value in content.items() if key not in {"job", "steps"}}
    return Job(content["job"], **settings), content["steps"]


class _Loader:
    """Builds a job step by step, and remembers the stream behind each step."""

    def __init__(self, document: Document) -> None:
        self.streams: dict[str, DataStream] = {}
        self.previous: DataStream | None = None
        with document.located(None, None):
            self.job, steps = _opened(document.content)
        for index, step in enumerate(steps):
            with document.located(index, _label(step)):
                self._add(step)

    def _add(self, step: Any) -> None:
        if not isinstance(step, dict):
            raise wrong_form(step, "a step", "a mapping that names its kind")
        kinds = [key for key in step if key in _KINDS]
        if len(kinds) != 1:
            msg = "a step names exactly one kind"
            found = ", ".join(kinds or step) or "nothing"
            raise InvalidStep(
                msg, code="DECL-005", found=found, known=_KINDS, hint="write for example filter: amount > 0"
            )
        build, known = _KINDS[kinds[0]]
        chained = () if kinds[0] == "sink" else (_CHAIN,)
        refuse_unknown(step, (kinds[0], *known, *chained), f"{kinds[0]} step")
        options = {key: value for key, value in step.items() if key not in {kinds[0], _CHAIN}}
        stream = build(self, Item(kind=kinds[0], value=step[kinds[0]], options=options))
        self.previous = stream
        if stream is not None:
            self.streams[stream.step] = stream
            if _flag(step, _CHAIN):
                stream.start_new_chain()

    def input(self, item: Item) -> DataStream:
        """The stream a step reads: the one named by `input:`, or that of the step before."""
        stream = self.named(item.options["input"]) if "input" in item.options else self.previous
        if stream is None:
            msg = "there is no stream to read: a sink has no output, and nothing stands before the first step"
            raise InvalidStep(msg, code="DECL-008", known=self.streams, hint="name a step with input:")
        return stream.rebalance() if _flag(item.options, "rebalance") else stream

    def named(self, name: Any) -> DataStream:
        """The stream behind a step, or its side output `step.output`."""
        if not isinstance(name, str):
            raise wrong_form(name, "an input", "step or step.output")
        if name in self.streams:
            return self.streams[name]
        step, _, output = name.rpartition(".")
        if step in self.streams:
            return self.streams[step].side_output(output)
        msg = f"unknown input {name!r}"
        raise InvalidStep(msg, code="DECL-007", known=self.streams, hint="name an earlier step, or step.output")


def _flag(options: Mapping[str, Any], name: str) -> bool:
    """An option that is true or false, and false when it is not given."""
    given = options.get(name, False)
    if not isinstance(given, bool):
        raise wrong_form(given, f"{name}:", "true or false")
    return given


def _source(loader: _Loader, item: Item) -> DataStream:
    return loader.job.source(
        item.value, connector(item.needed("from")), **item.given("schema", "credit", "uid"), **item.on_error()
    )


def _sink(loader: _Loader, item: Item) -> None:
    loader.input(item).sink(item.value, connector(item.needed("to")), **item.given("uid"))


def _event_time(loader: _Loader, item: Item) -> DataStream:
    options = watermark_item.event_time_options(item)
    return loader.input(item).event_time(item.text(), **options, **item.on_error(), **item.given("id", "uid"))


def _filter(loader: _Loader, item: Item) -> DataStream:
    where = item.value
    if isinstance(where, dict) and where.keys() == {"function"}:
        where = function_ref(str(where["function"])).target
    elif not isinstance(where, str):
        raise wrong_form(where, "filter:", "an expression, or {function: 'module:function'}")
    return loader.input(item).filter(where, **item.on_error(), **item.given("id"))


def _select(loader: _Loader, item: Item) -> DataStream:
    """Names come first and expressions by name after them; a name behind an expression is one too, to keep the order."""
    parts = item.value if isinstance(item.value, list) else [item.value]
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
    return loader.input(item).select(*columns, **item.given("id"), **named)


def _with_columns(loader: _Loader, item: Item) -> DataStream:
    named = without(mapping(item.value, "with_columns:", "{name: expression}"), ("id",), "with_columns:")
    return loader.input(item).with_columns(**item.given("id"), **named)


def _map(loader: _Loader, item: Item) -> DataStream:
    return loader.input(item).map(item.text(), **item.given("schema", "id"), **item.on_error())


def _flat_map(loader: _Loader, item: Item) -> DataStream:
    return loader.input(item).flat_map(item.text(), **item.given("schema", "id"), **item.on_error())


def _map_batches(loader: _Loader, item: Item) -> DataStream:
    return loader.input(item).map_batches(item.text(), **item.given("schema", "id"))


def _union(loader: _Loader, item: Item) -> DataStream:
    names = item.options.get("inputs", item.value)
    if not isinstance(names, list) or len(names) < 2 or (item.value is not None and "inputs" in item.options):
        raise wrong_form(names, "union:", "a list of two or more steps, here or in inputs:")
    first, *others = [loader.named(name) for name in names]
    return first.union(*others, **item.given("id"))


def _aggregate(loader: _Loader, item: Item) -> DataStream:
    named = aggregates(item)
    keyed = loader.input(item).key_by(*keys(item))
    if "window" not in item.options:
        window_item.refuse_without_window(item)
        return keyed.aggregate(**item.given("id", "emit", "uid"), **named)
    refuse_together(item, ("emit",), "with window:")
    return window_item.windowed(keyed, item).aggregate(**item.given("id", "uid", "pane"), **named)


def _reduce(loader: _Loader, item: Item) -> DataStream:
    keyed = loader.input(item).key_by(*keys(item))
    if "window" not in item.options:
        window_item.refuse_without_window(item)
        return keyed.reduce(item.text(), **item.given("id", "uid"))
    return window_item.windowed(keyed, item).reduce(item.text(), **item.given("id", "uid"))


def _process(loader: _Loader, item: Item) -> DataStream:
    keyed = loader.input(item).key_by(*keys(item))
    if "outputs" in item.options:
        mapping(item.options["outputs"], "outputs:", "{name: schema}")
    if "window" not in item.options:
        window_item.refuse_without_window(item)
        return keyed.process(item.text(), **item.given("schema", "outputs", "id", "uid"), **item.on_error())
    refuse_together(item, ("on_error",), "with window:")
    return window_item.windowed(keyed, item).process(item.text(), **item.given("schema", "outputs", "id", "uid"))


def _pattern(loader: _Loader, item: Item) -> DataStream:
    stream = loader.input(item)
    rows = stream.key_by(*keys(item)) if "key_by" in item.options else stream
    return pattern_item.closed(rows.pattern(pattern_item.pattern(item), order_by=pattern_item.order_by(item)), item)


def _sql(loader: _Loader, item: Item) -> DataStream:
    """`FROM stream` is the input; with `streams: {name: step}` others are read, and it only if it is named there."""
    given = item.given("emit", "allowed_lateness", "id", "uid")
    if "streams" not in item.options:
        made = loader.input(item).sql(item.text(), **given)
    else:
        refuse_together(item, ("input", "rebalance"), "with streams:")
        written = mapping(item.options["streams"], "streams:", "{name: step}")
        streams = {name: loader.named(step) for name, step in written.items()}
        made = loader.job.sql(item.text(), **given, **without(streams, _SQL, "streams:"))
    if "id" in item.options:
        loader.streams[item.options["id"]] = made
    return made


_Pairing = Callable[[DataStream, DataStream, Item], DataStream]
_Single = Callable[[DataStream, Item], DataStream]


def _pairing(build: _Pairing) -> Callable[[_Loader, Item], DataStream]:
    """A step over two streams: the value beside its kind, or `with:`, names the right one."""
    return lambda loader, item: build(loader.input(item), loader.named(item.options.get("with", item.value)), item)


def _single(build: _Single) -> Callable[[_Loader, Item], DataStream]:
    return lambda loader, item: build(loader.input(item), item)


_ANY = ("id", "input", "rebalance")
_KEYED = ("id", "uid", "input", "key_by", *window_item.OPTIONS)
_SQL = ("id", "uid", "emit", "allowed_lateness")
_KINDS: dict[str, tuple[Callable[[_Loader, Item], DataStream | None], tuple[str, ...]]] = {
    "source": (_source, ("from", "schema", "on_error", "credit", "uid")),
    "event_time": (_event_time, (*_ANY, "uid", "on_error", *watermark_item.OPTIONS)),
    "filter": (_filter, (*_ANY, "on_error")),
    "select": (_select, _ANY),
    "with_columns": (_with_columns, _ANY),
    "map": (_map, (*_ANY, "schema", "on_error")),
    "flat_map": (_flat_map, (*_ANY, "schema", "on_error")),
    "map_batches": (_map_batches, (*_ANY, "schema")),
    "union": (_union, ("id", "inputs")),
    "aggregate": (_aggregate, (*_KEYED, "emit", "pane")),
    "reduce": (_reduce, _KEYED),
    "process": (_process, (*_KEYED, "schema", "outputs", "on_error")),
    "patterns": (_pairing(join_item.patterns), join_item.OPTIONS["patterns"]),
    "pattern": (_pattern, ("id", "uid", "input", "rebalance", "key_by", *pattern_item.OPTIONS)),
    "join": (_pairing(join_item.join), join_item.OPTIONS["join"]),
    "temporal_join": (_pairing(join_item.temporal_join), join_item.OPTIONS["temporal_join"]),
    "connect": (_pairing(join_item.connect), join_item.OPTIONS["connect"]),
    "lookup": (_single(join_item.lookup), join_item.OPTIONS["lookup"]),
    "deduplicate": (_single(join_item.deduplicate), join_item.OPTIONS["deduplicate"]),
    "top_n": (_single(join_item.top_n), join_item.OPTIONS["top_n"]),
    "async_map": (_single(join_item.async_map), join_item.OPTIONS["async_map"]),
    "sql": (_sql, (*_ANY, *_SQL, "streams")),
    "sink": (_sink, ("input", "rebalance", "to", "uid")),
}


def _label(step: Any) -> str | None:
    """How a step is called in messages: its name or id, else its kind."""
    if not isinstance(step, dict):
        return None
    name = step.get("source") or step.get("sink") or step.get("id")
    return str(name or next((key for key in step if key in _KINDS), "")) or None
