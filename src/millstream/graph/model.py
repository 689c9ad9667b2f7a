"""`StreamModel`: a job as its author wrote it: steps, the components they name, and what the job requires."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, get_args

from millstream.errors import InvalidPlan, InvalidStep
from millstream.graph.function import functions_in
from millstream.graph.operation import Operation
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.step import Step
from millstream.model.connector import sink_declaration, source_declaration
from millstream.model.guarantee import Guarantee
from millstream.model.ids import StepId
from millstream.model.mode import Mode, ModeOfSource, mode_of_sources
from millstream.model.params import Param

OnStop = Literal["cancel", "suspend", "drain"]
ON_STOP: tuple[OnStop, ...] = get_args(OnStop)
Carry = Literal["nothing", "position", "state"]
"""What a run takes over from the one before, once that is complete."""
CARRY: tuple[Carry, ...] = get_args(Carry)
MAX_KEY_GROUPS = 32768


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What the job asks of whatever runs it."""

    guarantee: Guarantee = Guarantee.EXACTLY_ONCE
    parallelism: int = 2
    max_parallelism: int = 128
    epoch_interval: int = 1000
    rows_per_epoch: int = 2_000_000
    on_stop: OnStop = "cancel"
    """What a signal to stop does to a run."""
    chaining: bool = True
    """Whether steps are fused; without, every step is a vertex of its own, so that its load is seen apart."""
    mode: Mode | None = None
    """What the author said; `None`: it follows from the sources."""
    params: tuple[Param, ...] = ()
    """What each run of the job is given."""
    carry: Carry | None = None
    """What a start begins with when the last run is complete; `None`: nothing is left to run then."""

    def __post_init__(self) -> None:
        checked_on_stop(self.on_stop)
        if self.carry is not None:
            checked_carry(self.carry)
        if not isinstance(self.chaining, bool):
            msg = "chaining is neither true nor false"
            raise InvalidStep(msg, code="STEP-030", found=repr(self.chaining), known="a bool", hint="correct chaining=")
        for field in ("parallelism", "max_parallelism", "epoch_interval", "rows_per_epoch"):
            number = getattr(self, field)
            if not isinstance(number, int) or isinstance(number, bool):
                msg = f"{field} is not a whole number"
                raise InvalidStep(
                    msg, code="STEP-030", found=repr(number), known="a whole number", hint=f"correct {field}="
                )
        checks = {
            "parallelism": 1 <= self.parallelism <= self.max_parallelism,
            "max_parallelism": 1 <= self.max_parallelism <= MAX_KEY_GROUPS,
            "epoch_interval": self.epoch_interval >= 0,
            "rows_per_epoch": self.rows_per_epoch >= 1,
        }
        for name, holds in checks.items():
            if not holds:
                msg = f"{name} is out of range"
                known = f"1 <= parallelism <= max_parallelism <= {MAX_KEY_GROUPS}; intervals and rows above zero"
                raise InvalidStep(msg, code="STEP-030", found=getattr(self, name), known=known, hint=f"correct {name}=")


def mode_of(operations: Mapping[StepId, Operation], requirements: Requirements) -> Mode:
    """The mode of a job with these steps; sources that do not fit what its author said are refused."""
    sources = [
        ModeOfSource(step=step, mode=declared.mode, is_bounded=declared.is_bounded(operation.connector.options))
        for step, operation in operations.items()
        if isinstance(operation, Source) and (declared := source_declaration(operation.connector, step=step))
    ]
    return mode_of_sources(sources, requirements.mode)


def checked_on_stop(given: object) -> OnStop:
    """A way to stop; an unknown one is refused."""
    for known in ON_STOP:
        if given == known:
            return known
    msg = "unknown way to stop"
    raise InvalidStep(msg, code="RUN-020", found=repr(given), known=ON_STOP, hint="use on_stop='cancel'")


def checked_carry(given: object) -> Carry:
    """What a run takes over; an unknown word is refused."""
    for known in CARRY:
        if given == known:
            return known
    msg = "unknown word about what a run takes over from the one before"
    raise InvalidStep(msg, code="RUN-025", found=repr(given), known=CARRY, hint="use carry='position'")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Component:
    """Something a step needs from outside the framework: a connector or user code."""

    step: StepId
    role: Literal["source", "sink", "function"]
    name: str
    capability: str = ""
    location: str = dataclasses.field(default="", compare=False)
    is_deterministic: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StreamModel:
    """Steps in the order they were written: every step stands behind its inputs, so there is no cycle."""

    name: str
    steps: tuple[Step, ...]
    requirements: Requirements = Requirements()

    def __post_init__(self) -> None:
        seen: set[StepId] = set()
        owners: dict[StepId, StepId] = {}
        ids = {step.id for step in self.steps}
        for step in self.steps:
            if step.id in seen:
                raise duplicate_id(step.id)
            if step.uid in owners:
                raise duplicate_uid(step.id, step.uid, owners[step.uid])
            owners[step.uid] = step.id
            for edge in step.inputs:
                if edge.step not in seen:
                    raise _bad_input(step.id, edge.step, is_cycle=edge.step in ids, known=seen)
            seen.add(step.id)

    @property
    def components(self) -> tuple[Component, ...]:
        """Connectors with their capability, and user code with its place."""
        return tuple(part for step in self.steps for part in _components(step))

    def step(self, step_id: StepId) -> Step:
        """The step with that id."""
        return next(step for step in self.steps if step.id == step_id)


def duplicate_id(step_id: str) -> InvalidStep:
    """The error for an id used twice."""
    msg = "step id is already taken"
    return InvalidStep(msg, code="STEP-031", step=step_id, hint="give this step another name or id=")


def duplicate_uid(step_id: str, uid: str, owner: str) -> InvalidStep:
    """The error for a uid used twice: two steps would write over each other's state."""
    msg = f"uid {uid!r} is already taken by step {owner!r}"
    return InvalidStep(msg, code="STEP-032", step=step_id, hint="give one of them another uid=")


def _bad_input(step: str, missing: str, *, is_cycle: bool, known: set[StepId]) -> InvalidPlan:
    if is_cycle:
        msg = f"input {missing!r} stands behind the step itself: the graph has a cycle"
        return InvalidPlan(msg, code="PLAN-010", step=step, hint="streams only flow forward; break the cycle")
    msg = f"unknown input {missing!r}"
    return InvalidPlan(msg, code="PLAN-011", step=step, known=known, hint="name an earlier step as input")


def _components(step: Step) -> list[Component]:
    operation = step.operation
    if isinstance(operation, Source):
        capability = source_declaration(operation.connector, step=step.id).promises(operation.connector.options)
        return [Component(step=step.id, role="source", name=operation.connector.name, capability=capability)]
    if isinstance(operation, Sink):
        declared = sink_declaration(operation.connector, step=step.id)
        of_sink = declared.promises(operation.connector.options)
        return [Component(step=step.id, role="sink", name=operation.connector.name, capability=of_sink)]
    return [
        Component(
            step=step.id,
            role="function",
            name=ref.name,
            location=ref.location,
            # Rows that leave as their answers come are in another order the next time.
            is_deterministic=ref.is_deterministic and getattr(operation, "ordered", True),
        )
        for ref in functions_in(operation)
    ]
