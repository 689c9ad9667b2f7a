"""An output of a step: what every stream is, and what it needs of its job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from millstream.api.streams.job_steps import JobSteps
from millstream.api.values.error_policy import OnErrorLike
from millstream.errors import InvalidStep
from millstream.graph.operation import Operation
from millstream.graph.operations.aggregate import Emit
from millstream.graph.step import MAIN, StepInput
from millstream.graph.stream_graph import StreamNode
from millstream.model.schema import Schema
from millstream.model.time import DurationLike
from millstream.tracebacks import public


class StreamJob(Protocol):
    """What a stream needs of its job: the steps, and statements, which are made of streams and so lie above them."""

    _steps: JobSteps

    def sql(
        self,
        text: str,
        /,
        *,
        emit: Emit | None = None,
        allowed_lateness: DurationLike | None = None,
        id: str | None = None,
        uid: str | None = None,
        **streams: Any,
    ) -> Any:
        """The stream behind a SELECT over streams by name."""
        ...


@public
class StepOutput:
    """Rows with a schema that a step of a job gives."""

    def __init__(self, job: StreamJob, node: StreamNode, output: str = MAIN, *, is_rebalanced: bool = False) -> None:
        self._job = job
        self._node = node
        self._output = output
        self._is_rebalanced = is_rebalanced

    @property
    def schema(self) -> Schema:
        """The columns of this stream."""
        return self._node.outputs[self._output]

    @property
    def step(self) -> str:
        """The id of the step that makes this stream."""
        return self._node.id

    def _as_input(self) -> StepInput:
        """This stream as the input of a step."""
        return StepInput(
            step=self._node.id, output=self._output, partition="rebalance" if self._is_rebalanced else "forward"
        )

    def _added(
        self,
        operation: Operation,
        inputs: Sequence[StepInput],
        given_id: str | None,
        uid: str | None,
        on_error: OnErrorLike,
    ) -> StreamNode:
        """A new step of the job, with its dead letters on their way."""
        node = self._job._steps.add(operation, inputs, given_id=given_id, uid=uid)
        self._job._steps.add_dead_letter(node, on_error)
        return node

    def _check_side_output(self, name: str) -> None:
        if name not in self._node.outputs or name == MAIN:
            known = [tag for tag in self._node.outputs if tag != MAIN]
            msg = f"no side output {name!r}"
            raise InvalidStep(msg, code="STEP-066", step=self.step, known=known, hint="declare it with outputs=")

    def _refuse_rebalanced(self, before: str, reason: str, hint: str) -> None:
        if self._is_rebalanced:
            msg = f"rebalance right before {before} has no effect: {reason}"
            raise InvalidStep(msg, code="STEP-069", step=self.step, hint=hint)


def union_inputs(streams: Sequence[StepOutput], step: str | None) -> list[StepInput]:
    """The inputs of a union, all of one job."""
    for stream in streams:
        if not isinstance(stream, StepOutput) or stream._job is not streams[0]._job:
            msg = "union takes streams of the same job"
            raise InvalidStep(msg, code="STEP-064", step=step, found=repr(stream), hint="build both streams on one Job")
    return [stream._as_input() for stream in streams]
