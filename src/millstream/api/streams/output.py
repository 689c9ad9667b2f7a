"""An output of a step: what every stream is, and what it needs of its job."""

from __future__ import annotations

from typing import Any, Protocol

from millstream.api.streams.job_steps import JobSteps
from millstream.graph.step import MAIN, Emit, StepInput
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
