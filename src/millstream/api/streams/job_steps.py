"""The steps of a job while it is built: each is checked against those before it, and gets its id and uid."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Container, Iterator, Sequence

from millstream.api.streams.endpoints import sink_operation
from millstream.api.values.error_policy import DeadLetter, OnErrorLike
from millstream.errors import InvalidStep
from millstream.graph.expressions.parameters import with_types
from millstream.graph.model import duplicate_id, duplicate_uid
from millstream.graph.operation import Operation
from millstream.graph.operations.endpoints import LetterLimits, Sink, Source
from millstream.graph.resolve import resolve
from millstream.graph.step import DEAD, Step, StepInput, step_uid
from millstream.graph.stream_graph import StreamNode
from millstream.graph.texts import with_texts
from millstream.model.connector import ConnectorSpec
from millstream.model.ids import StepId, step_id
from millstream.model.params import Param, param_types

_MAX_ID = 100


class JobSteps:
    """The steps of one job, in the order they were written."""

    def __init__(self, steps: Sequence[Step] = (), params: Sequence[Param] = ()) -> None:
        self._params = param_types(params)
        self._steps: dict[StepId, Step] = {}
        self._nodes: dict[StepId, StreamNode] = {}
        for step in steps:
            self._append(step)

    @property
    def in_order(self) -> tuple[Step, ...]:
        """All steps."""
        return tuple(self._steps.values())

    def node(self, step: StepId) -> StreamNode:
        """A step with everything known about it."""
        return self._nodes[step]

    @contextlib.contextmanager
    def all_or_nothing(self) -> Iterator[None]:
        """Steps that belong together: if one of them is refused, none stays."""
        steps, nodes = dict(self._steps), dict(self._nodes)
        try:
            yield
        except BaseException:
            self._steps, self._nodes = steps, nodes
            raise

    def add(
        self,
        operation: Operation,
        inputs: Sequence[StepInput],
        *,
        given_id: str | None,
        uid: str | None = None,
        is_derived: bool = False,
    ) -> StreamNode:
        """Check a step and append it; `is_derived` says that nobody chose the id that is given."""
        identifier = step_id(given_id) if given_id is not None else self._derived_id(operation, inputs)
        if identifier in self._steps:
            raise duplicate_id(identifier)
        operation = with_texts(operation, lambda text: self.typed(text, identifier))
        own = step_uid(uid, identifier) if uid is not None else identifier
        if uid is None and given_id is None and inputs:
            # Derived from the uids before it, so that renaming an input with uid= renames nothing behind it.
            own = self._derived(operation, self._steps[inputs[0].step].uid, self._owners())
        owner = self._owners().get(own)
        if owner is not None:
            raise duplicate_uid(identifier, own, owner)
        if isinstance(operation, (Source, Sink)):
            self._check_params(operation, identifier)
        step = Step(
            id=identifier,
            operation=operation,
            inputs=tuple(inputs),
            has_given_id=given_id is not None and not is_derived,
            given_uid=None if own == identifier else own,
        )
        return self._append(step)

    def add_sink(
        self,
        name: str,
        connector: ConnectorSpec,
        source: StepInput,
        *,
        uid: str | None = None,
        letters: LetterLimits | None = None,
    ) -> None:
        """Check a sink and append it; `letters` limits how many rows a sink of dead letters may get."""
        operation = dataclasses.replace(sink_operation(name, connector), letters=letters)
        # A sink may bear the name of the step it writes, as in `totals.sink("totals", ...)`.
        taken = self._steps.get(step_id(name))
        unique = f"{name}.sink" if taken is not None and not isinstance(taken.operation, Sink) else name
        owner = self._owners().get(step_id(unique))
        if uid is None and owner is not None and not isinstance(self._steps[owner].operation, Sink):
            # That step bore the name until it was renamed: checkpoints know the sink as it was called beside it.
            uid = f"{name}.sink"
        self.add(operation, (source,), given_id=unique, uid=uid)

    def add_dead_letter(self, node: StreamNode, on_error: OnErrorLike) -> None:
        """Connect a step's dead letters to their sink, if the policy names one."""
        if isinstance(on_error, DeadLetter):
            uid = None if node.uid == node.id else f"{node.uid}.dead"
            origin = StepInput(step=node.id, output=DEAD)
            self.add_sink(f"{node.id}.dead", on_error.sink, origin, uid=uid, letters=on_error.limits)

    def start_chain(self, step: StepId) -> StreamNode:
        """Part a step from the one before it."""
        self._steps[step] = dataclasses.replace(self._steps[step], starts_chain=True)
        node = self._nodes[step] = dataclasses.replace(self._nodes[step], starts_chain=True)
        return node

    def free_id(self, wanted: str) -> str:
        """An id that no step bears, nor stands before a dot in one."""
        taken = {name for step in self._steps.values() for name in (step.id, step.uid)}
        unique, number = wanted, 2
        while any(name == unique or name.startswith(f"{unique}.") for name in taken):
            unique, number = f"{wanted}-{number}", number + 1
        return unique

    def typed(self, text: str, step: str | None) -> str:
        """An expression or statement whose parameters have their types."""
        return with_types(text, self._params, step=step)

    def _check_params(self, operation: Source | Sink, step: str) -> None:
        for name in operation.open_params:
            if name not in self._params:
                msg = f"connector {operation.connector.name!r} names a parameter {name!r} that the job does not have"
                hint = "declare it: Job(params={...})"
                raise InvalidStep(msg, code="PARAM-001", step=step, known=self._params, hint=hint)

    def _owners(self) -> dict[StepId, StepId]:
        """Steps by their uid."""
        return {step.uid: step.id for step in self._steps.values()}

    def _append(self, step: Step) -> StreamNode:
        node = resolve(step, self._nodes)
        self._steps[step.id], self._nodes[step.id] = step, node
        return node

    def _derived_id(self, operation: Operation, inputs: Sequence[StepInput]) -> StepId:
        return self._derived(operation, inputs[0].step if inputs else "step", self._steps)

    def _derived(self, operation: Operation, before: str, taken: Container[StepId]) -> StepId:
        label = getattr(operation, "shape", operation.kind)
        wanted = f"{before}.{label}"
        if len(wanted) > _MAX_ID:
            wanted = f"{before.split('.', maxsplit=1)[0]}.{len(self._steps)}.{label}"
        unique, number = StepId(wanted), 2
        while unique in taken:
            unique, number = StepId(f"{wanted}-{number}"), number + 1
        return unique
