"""From letters back to rows: decoded as their step takes them, and left in the checkpoint as a request to replay them."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from millstream.connectors.json_values import batches_from_json
from millstream.contract.source import BadRecord
from millstream.errors import CheckpointRefused, InvalidStep, MillstreamError
from millstream.graph.operations.endpoints import Source
from millstream.graph.operations.enrich import AsyncMap
from millstream.graph.operations.process import Process
from millstream.graph.operations.rows import PythonMap
from millstream.graph.operations.watermark import EventTime
from millstream.inspect.letters.box import LetterBox
from millstream.inspect.letters.letter import Letter
from millstream.model.connector import source_declaration
from millstream.model.schema import Schema
from millstream.records.batch import Batch
from millstream.records.codecs import batch_to_ipc
from millstream.records.replayed import ReplayedRows
from millstream.registry import load
from millstream.runtime.taken_rows import MADE

_REPLAYED = (Source, PythonMap, AsyncMap, EventTime, Process)
_ROWS = 5_000
"""Letters of one request: an epoch serves one of each step."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReplayAnswer:
    """What became of a wish to replay letters."""

    rows: int
    """Letters that wait for the next epoch now."""
    before: int
    """Letters that were asked for earlier: nothing is done with them again."""
    refused: list[tuple[str, str]]
    """Letters that cannot be replayed, by id, and why."""


def ask_replay(box: LetterBox, wanted: Sequence[Letter]) -> ReplayAnswer:
    """Ask for letters to be replayed, each once however often it is asked for, by whomever."""
    _check(box)
    assert box.log is not None
    left, mine = True, 0
    while left:
        requests = box.log.requests(box.node.uid)
        fresh = _not_in(wanted, box.asked(requests))
        rows, refused = _rows(box, fresh)
        before = len(wanted) - len(fresh) - mine
        behind = requests[-1] if requests else None
        parts = [rows[start : start + _ROWS] for start in range(0, len(rows), _ROWS)]
        # Somebody else may leave a request meanwhile, of the same letters: then it is looked at first.
        while parts and (behind := box.log.add(box.node.uid, _request(parts[0]), behind=behind)) is not None:
            mine += len(parts.pop(0))
        left = bool(parts)
    return ReplayAnswer(rows=mine, before=before, refused=refused)


def could_replay(box: LetterBox, wanted: Sequence[Letter]) -> ReplayAnswer:
    """What `ask_replay` would answer now; nothing is asked for."""
    _check(box)
    assert box.log is not None
    fresh = _not_in(wanted, box.asked(box.log.requests(box.node.uid)))
    rows, refused = _rows(box, fresh)
    return ReplayAnswer(rows=len(rows), before=len(wanted) - len(fresh), refused=refused)


def _not_in(wanted: Sequence[Letter], asked: Counter[str]) -> list[Letter]:
    fresh = []
    for letter in wanted:
        if not asked[letter.id]:
            fresh.append(letter)
        asked[letter.id] = max(0, asked[letter.id] - 1)
    return fresh


def _request(part: list[tuple[Letter, Batch]]) -> bytes:
    """The rows of some letters; one that became several rows is named at the first of them."""
    times = [time for _, batch in part for time in _times(batch)]
    whole = Batch(pa.concat_batches([batch.rows for _, batch in part]), pa.array(times, pa.int64()))
    letters = [name for letter, batch in part for name in [letter.id, *[""] * (batch.num_rows - 1)]]
    origins = [letter.next_origin for letter, batch in part for _ in range(batch.num_rows)]
    return batch_to_ipc(ReplayedRows(whole, letters, origins).table())


def _times(batch: Batch) -> list[int | None]:
    return [None] * batch.num_rows if batch.times is None else list(batch.times.to_pylist())


def _check(box: LetterBox) -> None:
    operation = box.node.operation
    if box.log is None:
        msg = "letters are replayed by a run with a checkpoint"
        raise CheckpointRefused(msg, code="DLQ-002", step=box.node.id, hint="name it: --checkpoint DIR")
    reason = None
    if operation.takes == "pair":
        reason = f"letters of a {operation.kind} step do not say which of its two streams they came from"
    elif not isinstance(operation, _REPLAYED):
        reason = f"letters of a {operation.kind} step are not rows that it takes"
    elif isinstance(operation, Source) and not source_declaration(operation.connector).decode_again:
        reason = f"connector {operation.connector.name!r} cannot decode a record outside what it was read from"
    if reason is not None:
        raise InvalidStep(reason, code="DLQ-004", step=box.node.id, hint="bring the records to the source again")


def _rows(box: LetterBox, letters: list[Letter]) -> tuple[list[tuple[Letter, Batch]], list[tuple[str, str]]]:
    rows: list[tuple[Letter, Batch]] = []
    refused: list[tuple[str, str]] = []
    for letter in letters:
        made = _row(box, letter)
        if isinstance(made, str):
            refused.append((letter.id, made))
        else:
            rows.append((letter, made))
    return rows, refused


def _row(box: LetterBox, letter: Letter) -> Batch | str:
    """The row of a letter; in words why there is none."""
    operation = box.node.operation
    if isinstance(operation, Source):
        return _decoded_again(operation, letter)
    if letter.raw == MADE:
        return "it holds a row that the step made from a good one, not one that it took"
    assert box.node.input_schema is not None
    if letter.raw is None:
        return _from_record(box, letter, box.node.input_schema)
    content = _json(letter.raw)
    if not isinstance(content, dict) or "row" not in content or not isinstance(content.get("time", 0), int):
        return "its raw bytes are no row: somebody else wrote or changed it"
    is_timed = bool(box.node.event_time) and not isinstance(operation, EventTime)
    return _typed(content["row"], box.node.input_schema, content.get("time") if is_timed else None)


def _json(raw: bytes) -> Any:
    """Whatever stands in a target: anybody may have written there."""
    try:
        return json.loads(raw)
    except ValueError:
        return None


def _from_record(box: LetterBox, letter: Letter, schema: Schema) -> Batch | str:
    """A letter of a version that kept the text of the record alone."""
    if box.node.event_time and not isinstance(box.node.operation, EventTime):
        return "it does not hold the event time of its row"
    try:
        row = json.loads(letter.record)
    except ValueError as problem:
        return f"its record is no JSON: {problem}"
    if not isinstance(row, dict) or row.keys() != set(schema.names):
        return f"its record has other columns than the step takes: {', '.join(schema.names)}"
    return _typed(row, schema, None)


def _typed(row: Any, schema: Schema, time: int | None) -> Batch | str:
    (made,) = batches_from_json([row], schema)
    if isinstance(made, BadRecord):
        return f"the step takes other rows now: {made.error}"
    return Batch(made, None if time is None else pa.array([time], pa.int64()))


def _decoded_again(source: Source, letter: Letter) -> Batch | str:
    declared = source_declaration(source.connector)
    record = letter.record if letter.raw is None else letter.raw
    try:
        made = load(declared.decode_again)(source.connector.options, source.schema, record, letter.origin or "")
    except (MillstreamError, ValueError) as problem:
        return problem.message if isinstance(problem, MillstreamError) else str(problem)
    if isinstance(made, BadRecord):
        return f"it still cannot be decoded: {made.error}"
    return Batch(made)
