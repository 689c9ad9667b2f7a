"""What an operation is: what a step does, as a value that owns everything known about it but its runtime half."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal, Protocol

from millstream.errors import InvalidStep
from millstream.graph.changes import IncomingChanges, no_changes
from millstream.graph.expressions.expression import Expression
from millstream.model.changelog import Changelog
from millstream.model.ids import StepId
from millstream.model.schema import Schema

RunsAs = Literal["source", "expression", "batch", "python", "keyed", "sink"]
Takes = Literal["none", "one", "pair", "several"]
"""How many inputs: none, one, a left and a right one, or at least two that are alike."""
Expressions = tuple[tuple[str, Expression], ...]
Outputs = tuple[Expressions, dict[str, Schema]]
"""The expressions of a step, parsed and typed, and the schema of each of its outputs."""
OverChanges = tuple["Operation", Changelog | None]
"""What an operation is over changes, and of what form the changes are that it gives, if it gives such."""
_OF_STEPS = frozenset({"id", "uid", "inputs", "has_given_id", "starts_chain"})
"""What the JSON form of a step holds beside the fields of its operation."""


class Edge(Protocol):
    """Where rows of a step come from, as its operation sees it."""

    @property
    def step(self) -> StepId:
        """The step that gives them."""

    @property
    def partition(self) -> str:
        """How they change subtask on the way."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The columns by which, if by any."""


class PlacedStep(Protocol):
    """A step as its operation sees it. Steps hold operations, so that these cannot name the class of steps."""

    @property
    def id(self) -> StepId:
        """Its id."""

    @property
    def inputs(self) -> Sequence[Edge]:
        """Its inputs, in order."""


class ResolvedStep(PlacedStep, Protocol):
    """A step whose outputs are known."""

    @property
    def expressions(self) -> Expressions:
        """Its expressions."""

    @property
    def outputs(self) -> Mapping[str, Schema]:
        """Its outputs."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Operation(abc.ABC):
    """What a step does. Subclasses are frozen dataclasses; their fields are what the author of a job chose.

    Another package brings an operation as a subclass. Its `kind` is its place, `module:Class`, unless the class says another:
    that must be the name of an entry point of the group `millstream.operations`, and should not change, as checkpoints know
    the step by it.
    """

    __slots__ = ()

    kind: ClassVar[str]
    """Names the operation in definitions of jobs, plans and fingerprints."""
    runs_as: ClassVar[RunsAs]
    takes: ClassVar[Takes] = "one"
    may_be_single: ClassVar[bool] = False
    """Whether it may as well take all rows of a stream in one subtask as those of one key."""
    declares_time: ClassVar[bool] = False
    """Whether rows behind it go by a watermark of its own, and not by those of its inputs."""
    operator: ClassVar[str] = ""
    """`module:attribute` of the runtime half of a keyed operation that is not one of ours."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "kind" not in vars(cls):
            cls.kind = f"{cls.__module__}:{cls.__qualname__}"
        taken = sorted(_OF_STEPS.intersection(vars(cls).get("__annotations__", ())))
        if taken:
            msg = f"a field of operation {cls.__qualname__} has a name that JSON needs for steps"
            raise InvalidStep(msg, code="STEP-058", found=", ".join(taken), known=_OF_STEPS, hint="rename the field")

    @property
    def is_keyed(self) -> bool:
        """Whether it holds state per key, and therefore needs rows by key."""
        return self.runs_as == "keyed"

    @abc.abstractmethod
    def gives(self, step: PlacedStep, schemas: Sequence[Schema]) -> Outputs:
        """What it gives for inputs of these schemas; what it cannot take is refused."""

    @abc.abstractmethod
    def describe(self) -> str:
        """What it does, in one line."""

    def facts(self) -> Iterable[tuple[str, str]]:
        """What else plans say about it: names of facts and their text."""
        return ()

    @property
    def error_policy(self) -> str:
        """What becomes of bad records, where plans say so."""
        return "fail"

    def stored(self, node: ResolvedStep) -> dict[str, Any]:
        """What state and checkpoints depend on besides kind, inputs and outputs, as a JSON value: its part of the fingerprint."""
        del node
        return {}

    def timed_inputs(self, step: PlacedStep) -> Sequence[Edge]:
        """The inputs whose watermarks it sees."""
        return step.inputs

    def check_path(self, step: PlacedStep, before: Mapping[StepId, PlacedStep]) -> None:
        """Refuse to stand behind these steps."""
        del step, before

    def check_times(self, step: PlacedStep, times: Sequence[Sequence[StepId]]) -> None:
        """Refuse inputs without event time where it needs that; for each timed input, the event-time steps before it."""
        del step, times

    def declared_changes(self, step: PlacedStep, schemas: Sequence[Schema]) -> Changelog | None:
        """Of what form the changes are that it gives, though none come in."""
        del step, schemas
        return None

    def over_changes(self, changes: IncomingChanges) -> OverChanges:
        """What it does over streams of which some are changelogs. It refuses them unless it says otherwise."""
        raise no_changes(changes)

    def json_fields(self) -> dict[str, Any]:
        """Those of its fields, as JSON values, that hold something which has no general form."""
        return {}

    @classmethod
    def fields_from_json(cls, fields: dict[str, Any], step: str) -> dict[str, Any]:
        """The fields to build it from; what has no general form is given as JSON holds it."""
        del step
        return fields
