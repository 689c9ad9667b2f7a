"""Connected streams: one function with state and timers over two inputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from millstream.api.streams.processing import TwoInputFunction, co_process_operation
from millstream.api.values.error_policy import OnErrorLike
from millstream.graph.step import StepInput
from millstream.model.schema import SchemaLike
from millstream.tracebacks import public

if TYPE_CHECKING:
    from millstream.api.streams.stream import DataStream


@public
class ConnectedStreams:
    """Two streams that one function handles."""

    def __init__(self, rows: DataStream, left: StepInput, right: StepInput) -> None:
        self._rows, self._inputs = rows, (left, right)

    def process(
        self,
        function: TwoInputFunction | type[TwoInputFunction] | str,
        *,
        schema: SchemaLike | None = None,
        outputs: Mapping[str, SchemaLike] | None = None,
        on_error: OnErrorLike = "fail",
        id: str | None = None,
        uid: str | None = None,
    ) -> DataStream:
        """Run a function with state and timers over both streams; within an epoch the left rows of a phase come first."""
        label = id or f"{self._rows.step}.co_process"
        operation = co_process_operation(function, self._inputs, schema, outputs, on_error, label)
        return self._rows._behind(operation, self._inputs, id, uid, on_error=on_error)
