"""The runtime half of the agent step: rows become runs, their outputs rows, and memory is kept per key."""

from __future__ import annotations

from functools import partial
from typing import Any

from millstream.agents.memory.tree import MemoryTree, tree_of
from millstream.agents.operation import RunAgent
from millstream.agents.runs.identity import Occurrences, StepIdentity
from millstream.agents.runs.mailbox import run_in_place, run_together
from millstream.agents.runs.run import ActionFailed, AgentRun
from millstream.agents.runs.step import AgentActions, EpochOfStep
from millstream.graph.step import MAIN
from millstream.graph.stream_graph import StreamNode
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_rows
from millstream.runtime.bad_records import BadRecords, UserProblem
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.declaration import KeyedKind
from millstream.runtime.operators.grouping import KeyRows, key_rows
from millstream.runtime.operators.output import RowOutput
from millstream.runtime.operators.paging import Paging
from millstream.runtime.taken_rows import taken_from
from millstream.state.pages import Due
from millstream.state.slots import Slot, Store, own_store, stored_types

_SLOTS = (Slot(name="memory", kind="value", content=bytes),)


class ActionExecutionOperator:
    """Runs one agent. What it keeps between epochs is the memory of its keys."""

    def __init__(self, node: StreamNode, *, key_groups: int, page_bytes: int) -> None:
        assert isinstance(node.operation, RunAgent)
        assert node.input_schema is not None
        self._node, self._on_error = node, node.operation.on_error
        self._keys = node.input_schema.select(node.keys)
        self._actions = AgentActions(node.operation.plan)
        self._paging = Paging(key_groups, page_bytes)

    def run(self, work: EpochWork) -> Due:
        """A run for each row: those before the watermark, then those after it."""
        entries = self._paging.entries(work, self._node.uid, self._keys, stored_types(_SLOTS), is_trusted=True)
        counts = work.ledger.count(self._node.id)
        bad = work.ledger.bad_records(self._node.id, self._on_error)
        output = RowOutput(MAIN, self._node.outputs[MAIN], bad, counts, work.emit)
        occurrences = Occurrences(StepIdentity(work.identity.job, self._node.uid, work.identity.epoch))
        for tables, watermark in ((work.before, work.times.before), (work.after, work.times.watermark)):
            step = EpochOfStep(self._actions, work.times.now, watermark, work.identity.attempt)
            for batch, pieces in key_rows(tables, self._node.keys, entries):
                runs = RunsOfBatch(step, batch, occurrences)
                runs.go(pieces, may_fail=self._on_error != "fail")
                counts.rows_in += batch.num_rows
                counts.passed += runs.hand_on(output, bad)
            output.advance()
        return entries.flush()


class RunsOfBatch:
    """The runs of some rows. What they give is handed on in the order of the rows, whenever they end."""

    def __init__(self, step: EpochOfStep, batch: Batch, occurrences: Occurrences) -> None:
        self._step, self._occurrences = step, occurrences
        self._rows = batch_to_rows(batch.rows)
        self._times = [None] * batch.num_rows if batch.times is None else batch.times.to_pylist()
        self._taken = taken_from(batch)
        self._given: list[list[Any] | UserProblem] = [[] for _ in self._rows]

    def go(self, pieces: list[KeyRows], *, may_fail: bool) -> None:
        """Do all of them; a run that fails leaves nothing in the memory of its key."""
        memories = [tree_of(piece.entry.slots[0]) for piece in pieces]
        by_key = [
            [partial(self._begin, place, piece.entry.key, memory, may_fail) for place in range(piece.start, piece.end)]
            for piece, memory in zip(pieces, memories, strict=True)
        ]
        if self._step.actions.is_async:
            run_together(by_key, self._ended)
        else:
            run_in_place(by_key, self._ended)
        for piece, memory in zip(pieces, memories, strict=True):
            if memory.version:
                piece.entry.slots[0] = memory.encoded()
                piece.entry.is_dirty = True

    def _begin(self, place: int, key: tuple[Any, ...], memory: MemoryTree, may_fail: bool) -> AgentRun | None:  # noqa: FBT001 - bound by `partial`
        row = self._rows[place]
        if may_fail:
            memory.keep()
        try:
            return AgentRun(self._step, place, self._occurrences.of(key, row), row, self._times[place], memory)
        except TypeError as problem:
            self._given[place] = problem
            return None

    def _ended(self, run: AgentRun, problem: ActionFailed | None) -> None:
        if problem is not None:
            run.undo()
        self._given[run.place] = run.outputs if problem is None else problem.problem

    def hand_on(self, output: RowOutput, bad: BadRecords) -> int:
        """Give what they gave; how many went well."""
        refused = 0
        for place, given in enumerate(self._given):
            if isinstance(given, list):
                output.extend(given, [self._times[place]] * len(given))
                continue
            refused += 1
            bad.refuse(self._rows[place], given, taken=self._taken(place))
        return len(self._given) - refused


def _stores(node: StreamNode) -> tuple[Store, ...]:
    return own_store(node, _SLOTS)


AGENT = KeyedKind(takes=RunAgent, operator=ActionExecutionOperator, stores=_stores)
