"""Connected streams: one function with state and timers over two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.api.functions.broadcast import BroadcastFunction
from millstream.api.functions.process import CoProcessFunction
from millstream.api.streams.signatures import output_schema, side_outputs
from millstream.api.values.named import OnErrorLike, policy
from millstream.errors import InvalidStep
from millstream.graph.function import FunctionRef, function_ref
from millstream.graph.operations.process import CoProcess
from millstream.graph.step import StepInput
from millstream.model.schema import SchemaLike
from millstream.tracebacks import public

if TYPE_CHECKING:
    from millstream.api.job import Job
    from millstream.api.streams.stream import DataStream

Handler = CoProcessFunction | BroadcastFunction


@public
class ConnectedStreams:
    """Two streams that one function handles."""

    def __init__(self, job: Job, left: StepInput, right: StepInput) -> None:
        self._job, self._left, self._right = job, left, right

    def process(
        self,
        function: Handler | type[Handler] | str,
        *,
        schema: SchemaLike | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Run a function with state and timers over both streams; within an epoch the left rows of a phase come first."""
        label = id or f"{self._left.step}.co_process"
        target = function() if isinstance(function, type) else function
        reference = function_ref(target, step=label)
        made = self._checked(reference, label)
        method = type(made).process if isinstance(made, BroadcastFunction) else type(made).process_left
        operation = CoProcess(
            function=reference,
            schema=output_schema(method, schema, step=label, many=True),
            states=tuple(made.state_descriptors()),
            broadcast=tuple(made.broadcast_descriptors()) if isinstance(made, BroadcastFunction) else (),
            outputs=side_outputs(outputs or {}, label),
            on_error=policy(on_error, label),
        )
        node = self._job._add(operation, (self._left, self._right), given_id=id, uid=uid)
        self._job._add_dead_letter(node, on_error)
        return self._job._stream(node)

    def _checked(self, reference: FunctionRef, label: str) -> Handler:
        """The function must be of the kind that the two streams need."""
        is_broadcast = self._right.partition == "broadcast"
        wanted = BroadcastFunction if is_broadcast else CoProcessFunction
        made = reference.target
        if not isinstance(made, (BroadcastFunction, CoProcessFunction)) or not isinstance(made, wanted):
            msg = f"{'a broadcast stream takes' if is_broadcast else 'connected streams take'} a {wanted.__name__}"
            raise InvalidStep(
                msg, code="STEP-078", step=label, found=reference.name, hint=f"subclass ms.{wanted.__name__}"
            )
        if not self._left.keys and made.state_descriptors():
            msg = "state per key needs a keyed stream"
            found = ", ".join(state.name for state in made.state_descriptors())
            raise InvalidStep(msg, code="STEP-079", step=label, found=found, hint="call key_by before connect")
        return made
