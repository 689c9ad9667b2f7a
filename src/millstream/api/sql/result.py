"""The stream behind a statement."""

from __future__ import annotations

from millstream.api.streams.stream import DataStream
from millstream.graph.step import MAIN


class SqlStream(DataStream):
    """The rows that a statement gives; its side outputs are those of the statement's last step that holds state."""

    def __init__(self, stream: DataStream, stateful: DataStream | None) -> None:
        super().__init__(stream._job, stream._node, MAIN)
        self._stateful = stateful

    def side_output(self, name: str) -> DataStream:
        """An output of the step that holds state, such as `late`."""
        if name in self._node.outputs or self._stateful is None:
            return super().side_output(name)
        return self._stateful.side_output(name)
