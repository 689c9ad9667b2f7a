"""Steps as the user wrote them. Each is a plain value that checks itself when built."""

from __future__ import annotations

import dataclasses
from typing import Literal

from millstream.errors import InvalidStep
from millstream.graph.operation import Operation
from millstream.model.ids import StepId, step_id

PartitionKind = Literal["forward", "hash", "single", "rebalance", "broadcast"]
MAIN, LATE, DEAD, TIMED_OUT = "main", "late", "dead", "timed_out"
_FEWEST = {"none": 0, "one": 1, "pair": 2, "several": 2}
_WANTED = {"one": "one input", "pair": "two inputs", "several": "at least two inputs"}


def step_uid(text: str, step: str | None) -> StepId:
    """Check a uid by the rule of step ids: it names state and files as well."""
    try:
        return step_id(text)
    except InvalidStep as problem:
        msg = "uid is not usable"
        raise InvalidStep(
            msg, code=problem.code, step=step, found=problem.found, known=problem.known, hint="choose another uid="
        ) from None


def partition_text(partition: PartitionKind, keys: tuple[str, ...]) -> str:
    """How rows are partitioned, in words."""
    if partition == "single":
        return "single (all rows in one subtask)"
    return f"hash({', '.join(keys)})" if keys else partition


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StepInput:
    """Where a step's rows come from, and how they are partitioned on the way."""

    step: StepId
    output: str = MAIN
    partition: PartitionKind = "forward"
    keys: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if (self.partition == "hash") != bool(self.keys):
            msg = "a hash edge has keys and no other edge has"
            raise InvalidStep(
                msg, code="STEP-020", found=f"{self.partition} keys={self.keys}", hint="use key_by('column')"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a job: an operation, its inputs and a stable id."""

    id: StepId
    operation: Operation
    inputs: tuple[StepInput, ...] = ()
    has_given_id: bool = False
    given_uid: StepId | None = None
    starts_chain: bool = False
    """Whether it is not fused behind the step before it, although it could be."""

    def __post_init__(self) -> None:
        self._check_number()
        self._check_partitions()

    def _check_number(self) -> None:
        takes, given = self.operation.takes, len(self.inputs)
        if takes == "none" and given:
            msg = f"a {self.operation.kind} takes no input"
            raise InvalidStep(msg, code="STEP-021", step=self.id, hint="remove the input")
        if given < _FEWEST[takes] or (given > _FEWEST[takes] and takes != "several"):
            msg = f"a {self.operation.kind} step takes {_WANTED[takes]}"
            raise InvalidStep(msg, code="STEP-021", step=self.id, found=given, hint="connect it to a stream")

    def _check_partitions(self) -> None:
        """State per key needs rows by key; beside a broadcast stream the other may be partitioned in any way."""
        is_hashed = any(edge.partition in {"hash", "single"} for edge in self.inputs)
        is_broadcast = self.operation.takes == "pair" and self.inputs[1].partition == "broadcast"
        if self.operation.is_keyed != is_hashed and not is_broadcast:
            msg = "a keyed step needs a keyed stream" if not is_hashed else "only keyed steps take a keyed stream"
            raise InvalidStep(msg, code="STEP-022", step=self.id, hint="call key_by('column') right before it")
        if any(edge.partition == "single" for edge in self.inputs) and not self.operation.may_be_single:
            msg = "only patterns take all rows of a stream in one subtask"
            raise InvalidStep(msg, code="STEP-022", step=self.id, hint="call key_by('column') right before it")

    @property
    def uid(self) -> StepId:
        """Names what checkpoints keep of the step: its id, unless it was renamed."""
        return self.given_uid or self.id
