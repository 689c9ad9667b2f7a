"""Many cases as one job, so that one query runs them all: step ids get the name of their case as prefix."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

from tests.golden.cases import Case, Row, cut

import millstream as ms
from millstream.connectors.memory.spec import MARK
from millstream.graph.model import StreamModel
from millstream.graph.step import Step
from millstream.model.ids import StepId
from millstream.plan.deployment import MemoryBudget
from millstream.testing import ADVANCE_CLOCK


def combined(name: str, cases: Sequence[Case]) -> ms.Job:
    """One job with the steps of all cases."""
    steps = [_prefixed(case.name, step) for case in cases for step in case.job().model.steps]
    return ms.Job._from_model(StreamModel(name=name, steps=tuple(steps)))


def _prefixed(case: str, step: Step) -> Step:
    inputs = tuple(dataclasses.replace(edge, step=StepId(f"{case}.{edge.step}")) for edge in step.inputs)
    return dataclasses.replace(step, id=StepId(f"{case}.{step.id}"), inputs=inputs)


def combined_scripts(cases: Sequence[Case], *, pieces: int) -> dict[str, list[Row]]:
    """The scripts of all cases by prefixed source, cut into epochs, with the clock moving in step."""
    scripts = {f"{c.name}.{source}": cut(script, pieces) for c in cases for source, script in c.inputs.items()}
    return in_step(scripts)


def partitions(cases: Sequence[Case]) -> dict[str, str]:
    """The partition column of each prefixed source that has one."""
    return {f"{case.name}.{source}": column for case in cases for source, column in case.partition_by.items()}


def output_of(case: Case, output: Mapping[str, list[Row]]) -> dict[str, list[Row]]:
    """One case's share of the sinks; dead letters name their step, which has its own name there."""
    prefix = f"{case.name}."
    mine = {name.removeprefix(prefix): rows for name, rows in output.items() if name.startswith(prefix)}
    return {name: [_without_prefix(row, prefix) for row in rows] for name, rows in mine.items()}


def _without_prefix(row: Row, prefix: str) -> Row:
    return {**row, "step": row["step"].removeprefix(prefix)} if "step" in row else row


def smallest(cases: Sequence[Case]) -> MemoryBudget:
    """The tightest budget any case asks for."""
    return min((case.memory for case in cases), key=lambda memory: memory.page_bytes)


def in_step(scripts: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Fill scripts up so that their clocks advance in the same epochs: there is one clock for the whole job.

    Every script that moves the clock must move it by the same amounts, or stop earlier.
    """
    pieces = {name: _by_clock(script) for name, script in scripts.items()}
    advances = {name: [piece[-1]["advance"] for piece in parts[:-1]] for name, parts in pieces.items()}
    longest = max(advances.values(), key=len, default=[])
    for name, moved in advances.items():
        assert moved == longest[: len(moved)], f"{name} moves the clock by {moved}, others by {longest}"
    epochs = [
        max(_epochs(parts[number]) for parts in pieces.values() if number < len(parts) - 1)
        for number in range(len(longest))
    ]
    return {name: _filled(parts, epochs) for name, parts in pieces.items()}


def _by_clock(script: list[Row]) -> list[list[Row]]:
    parts: list[list[Row]] = [[]]
    for row in script:
        parts[-1].append(row)
        if row.get(MARK) == "clock" and row["advance"]:
            parts.append([])
    return parts


def _epochs(part: list[Row]) -> int:
    """A mark is an epoch, and so is a run of rows."""
    return sum(
        len(list(group)) if is_mark else 1 for is_mark, group in itertools.groupby(part, lambda row: MARK in row)
    )


def _filled(parts: list[list[Row]], epochs: list[int]) -> list[Row]:
    script: list[Row] = []
    for part, wanted in zip(parts[:-1], epochs, strict=False):
        script += part[:-1] + [dict(ADVANCE_CLOCK(0))] * (wanted - _epochs(part)) + part[-1:]
    return script + parts[-1]
