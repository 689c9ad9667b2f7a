"""A first look at a step of a job: a few rows of a source, or whether a sink could write. Nothing is kept or changed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import tempfile
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.api.job import Job
from millstream.contract.source import Advance, BadRecord, Credit, LostRows, SourceContext, SplitEnumerator, SplitReader
from millstream.errors import InvalidStep, MillstreamError
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.resolve import resolve_graph
from millstream.graph.stream_graph import StreamNode
from millstream.model.connector import sink_declaration, source_declaration
from millstream.model.params import read_params
from millstream.plan.passes.bind import bind, refuse_open
from millstream.records.codecs import Row, shown_rows
from millstream.registry import load

_PAUSE_SECONDS = 0.02


@dataclasses.dataclass(kw_only=True)
class FirstRows:
    """What the first look at a source has shown."""

    step: str
    connector: str
    rows: list[Row] = dataclasses.field(default_factory=list)
    bad: list[BadRecord] = dataclasses.field(default_factory=list)
    lost: list[LostRows] = dataclasses.field(default_factory=list)
    is_finished: bool = False
    """Whether the source says that there is nothing more."""
    lag: int | None = None
    """Rows that wait behind those, as far as it can tell."""
    blocked: dict[str, str] = dataclasses.field(default_factory=dict)
    partitions: list[str] = dataclasses.field(default_factory=list)
    found: list[str] = dataclasses.field(default_factory=list)
    """What else its connector says about what is outside."""

    def take(self, part: pa.RecordBatch | BadRecord | LostRows, limit: int) -> bool:
        """Keep what fits into the limit; whether that was all that is wanted."""
        if isinstance(part, BadRecord):
            self.bad.append(part)
        elif isinstance(part, LostRows):
            self.lost.append(part)
        else:
            self.rows += shown_rows(part.slice(0, limit - len(self.rows) - len(self.bad)))
        return len(self.rows) + len(self.bad) >= limit


@dataclasses.dataclass(frozen=True, kw_only=True)
class SinkLook:
    """What the first look at a sink has shown; nothing, if its connector offers none."""

    step: str
    connector: str
    found: list[str] | None


def try_step(
    job: Job, step: str, *, limit: int, seconds: float, params: Mapping[str, Any] | None = None
) -> FirstRows | SinkLook:
    """Look at a source or sink of a job.

    Args:
        job: the job.
        step: the id of the step.
        limit: rows and bad records to read of a source.
        seconds: how long to wait for them.
        params: values of the job's parameters, as a run would be given them.
    """
    values = read_params(job.model.requirements.params, params or {})
    nodes = resolve_graph(bind(job.model, values)).nodes
    node = next((each for each in nodes if each.id == step), None)
    refuse_open([] if node is None else [node])
    if node is not None and isinstance(node.operation, Source):
        return _first_rows(job, node, node.operation, limit, seconds)
    if node is not None and isinstance(node.operation, Sink):
        return _look_at_sink(node, node.operation)
    known = [each.id for each in nodes if isinstance(each.operation, (Source, Sink))]
    msg = "the job has no source or sink of that name"
    raise InvalidStep(msg, code="CONN-020", found=repr(step), known=known, hint="name one of its sources or sinks")


def _look_at_sink(node: StreamNode, sink: Sink) -> SinkLook:
    declared = sink_declaration(sink.connector, step=node.id)
    found = None
    if declared.probe:
        assert node.input_schema is not None
        found = load(declared.probe)(sink.connector.options, node.input_schema, node.id)
    return SinkLook(step=node.id, connector=sink.connector.name, found=found)


def _first_rows(job: Job, node: StreamNode, source: Source, limit: int, seconds: float) -> FirstRows:
    declared = source_declaration(source.connector, step=node.id)
    shown = FirstRows(step=node.id, connector=source.connector.name)
    if declared.probe:
        shown.found = load(declared.probe)(source.connector.options, source.schema, node.id)
    if declared.sample:
        _take_sample(declared.sample, source, shown, limit)
        return shown
    _read_first(job, node, source, shown, limit, seconds)
    return shown


def _take_sample(sample: str, source: Source, shown: FirstRows, limit: int) -> None:
    try:
        parts = load(sample)(source.connector.options, source.schema, limit)
    except MillstreamError as problem:
        raise problem.of_step(shown.step) from problem
    for part in parts:
        if isinstance(part, str):
            shown.found.append(part)
        else:
            shown.take(part, limit)


def _read_first(job: Job, node: StreamNode, source: Source, shown: FirstRows, limit: int, seconds: float) -> None:
    declared = source_declaration(source.connector)
    with tempfile.TemporaryDirectory(prefix="millstream-try-") as folder, contextlib.ExitStack() as opened:
        context = SourceContext(
            step=node.id,
            schema=source.schema,
            log_dir=Path(folder),
            parallelism=1,
            job=job.model.name,
            lineage="connectors-test",
        )
        enumerator: SplitEnumerator = load(declared.enumerator)(source.connector.options, context)
        opened.callback(enumerator.close)
        reader: SplitReader = load(declared.reader)(source.connector.options, source.schema)
        # Readers of the time before `close` have nothing to release.
        opened.callback(getattr(reader, "close", lambda: None))
        parts = opened.enter_context(contextlib.closing(_read(enumerator, reader, shown, limit, seconds)))
        next((None for part in parts if shown.take(part, limit)), None)


def _read(
    enumerator: SplitEnumerator, reader: SplitReader, shown: FirstRows, limit: int, seconds: float
) -> Generator[pa.RecordBatch | BadRecord | LostRows]:
    """What the source gives, in small portions, until it ends or the time is over. Nothing is acknowledged."""
    until = time.monotonic() + seconds
    position = _as_logged(enumerator.initial())
    while time.monotonic() < until:
        advance = enumerator.advance(position, Credit(limit))
        shown.lag, shown.blocked, shown.partitions = advance.lag, dict(advance.blocked), sorted(advance.partitions)
        following = _as_logged(advance.position)
        if following != position:
            for split in enumerator.splits(position, following):
                yield from reader.read(_as_logged(split.body))
        shown.is_finished = advance.finished
        if advance.finished:
            return
        if following == position:
            time.sleep(_pause(advance, until))
        position = following


def _pause(advance: Advance, until: float) -> float:
    """How long to wait before a source that had nothing is asked again."""
    wanted = max(_PAUSE_SECONDS, advance.not_before / 1000 - time.time())
    return max(0.0, min(wanted, until - time.monotonic()))


def _as_logged(value: Any) -> Any:
    return json.loads(json.dumps(value))
