"""The dead letters of one step of a job: where they lie, which were replayed, and what its rows look like."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from millstream.api.job import Job
from millstream.checkpoint.replay_log import ReplayLog, waiting
from millstream.checkpoint.sealed import damaged
from millstream.contract.sink import Removed
from millstream.errors import InvalidStep
from millstream.graph.operations.endpoints import Sink
from millstream.graph.outputs import DEAD_SCHEMA
from millstream.graph.resolve import resolve_graph
from millstream.graph.step import DEAD
from millstream.graph.stream_graph import StreamNode
from millstream.inspect.checkpoint import CheckpointView
from millstream.inspect.letters.letter import Letter, Told, letter_of, told
from millstream.model.connector import sink_declaration
from millstream.model.params import read_params
from millstream.plan.epoch import plan_from_json
from millstream.plan.passes.bind import bind, refuse_open
from millstream.records.codecs import Row, batch_to_rows, table_from_ipc
from millstream.records.replayed import LETTER
from millstream.registry import load


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LetterBox:
    """The dead letters of a step, and the sink they lie in."""

    job: str
    node: StreamNode
    sink: StreamNode
    log: ReplayLog | None
    position: str | None
    """How far requests are served in the newest durable epoch."""

    @property
    def connector(self) -> str:
        """The name of the sink's connector."""
        return self._sink.connector.name

    @property
    def _sink(self) -> Sink:
        assert isinstance(self.sink.operation, Sink)
        return self.sink.operation

    def letters(self) -> Iterator[Letter]:
        """What the sink shows, as it comes."""
        declared = sink_declaration(self._sink.connector)
        if not declared.read_back:
            msg = f"connector {self.connector!r} shows rows and does not give them back"
            hint = "use a sink that can be read, such as ms.files or ms.jdbc"
            raise InvalidStep(msg, code="DLQ-003", step=self.sink.id, hint=hint)
        options, step = self._sink.connector.options, self.sink.uid
        for batch in load(declared.read_back)(options, DEAD_SCHEMA, job=self.job, step=step):
            yield from (letter_of(row) for row in batch_to_rows(batch) if self._is_mine(row))

    def remove(self, chosen: Callable[[Letter], bool]) -> Removed:
        """Remove letters from the sink."""
        declared = sink_declaration(self._sink.connector)
        if not declared.remove:
            msg = f"connector {self.connector!r} cannot remove rows"
            hint = "let the target forget them itself, as the retention of a topic does"
            raise InvalidStep(msg, code="DLQ-005", step=self.sink.id, hint=hint)

        def is_chosen(row: Row) -> bool:
            return self._is_mine(row) and chosen(letter_of(row))

        removed: Removed = load(declared.remove)(
            self._sink.connector.options, DEAD_SCHEMA, is_chosen, job=self.job, step=self.sink.uid
        )
        return removed

    def _is_mine(self, row: Row) -> bool:
        return row.get("step") in {self.node.id, self.node.uid}

    def told(self) -> list[Told]:
        """The letters, oldest first, and what was done with each."""
        asked = [] if self.log is None else self.log.requests(self.node.uid)
        left = waiting(asked, self.position)
        served = [each for each in asked if each not in left]
        letters = sorted(self.letters(), key=lambda letter: (letter.at is not None, letter.at, letter.id))
        return told(letters, self.asked(left), self.asked(served))

    def asked(self, requests: list[str]) -> Counter[str]:
        """How often each letter stands in some requests."""
        found: Counter[str] = Counter()
        for position in requests:
            assert self.log is not None
            path = self.log.file(self.node.uid, position)
            try:
                found.update(filter(None, table_from_ipc(path.read_bytes()).column(LETTER).to_pylist()))
            except (OSError, pa.ArrowException, KeyError) as problem:
                what = f"request {path.name} to replay letters of {self.node.id}"
                raise damaged(what, str(problem)) from None
        return found


def letter_boxes(job: Job, view: CheckpointView | None, params: Mapping[str, Any] | None = None) -> list[LetterBox]:
    """The steps of a job whose dead letters go to a sink.

    Args:
        job: the job.
        view: its checkpoint, which knows what was replayed.
        params: parameters of the run, for options of connectors that name some.
    """
    model = bind(job.model, read_params(job.model.requirements.params, params) if params else {})
    graph = resolve_graph(model)
    head = None if view is None else view.head()
    replayed: dict[str, str] = {}
    if view is not None and head is not None and head.epoch is not None:
        replayed = plan_from_json(view.manifest().plan).replayed
    boxes: dict[str, LetterBox] = {}
    for sink in graph.nodes:
        if isinstance(sink.operation, Sink) and sink.inputs[0].output == DEAD:
            refuse_open([sink])
            node = graph.node(sink.inputs[0].step)
            log = None if view is None else ReplayLog(view.root)
            box = LetterBox(job=model.name, node=node, sink=sink, log=log, position=replayed.get(node.uid))
            boxes.setdefault(node.id, box)
    return list(boxes.values())


def letter_box(boxes: list[LetterBox], step: str) -> LetterBox:
    """The one of a step."""
    for box in boxes:
        if step in {box.node.id, box.sink.id}:
            return box
    msg = "the job has no step of that name with dead letters"
    known = [box.node.id for box in boxes]
    raise InvalidStep(msg, code="DLQ-001", found=repr(step), known=known, hint="name one of the known steps")
