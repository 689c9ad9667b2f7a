"""Streams of changes: the methods that declare one, take it for rows again, and make its rows whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from millstream.errors import InvalidStep
from millstream.graph.operation import Operation
from millstream.graph.operations.changes import AsChangelog, AsRows, Images, Normalize
from millstream.graph.step import MAIN, StepInput
from millstream.graph.stream_graph import StreamNode
from millstream.model.changelog import Changelog
from millstream.tracebacks import public

if TYPE_CHECKING:
    # What these methods give; built by the stream they belong to.
    from millstream.api.streams.stream import DataStream


class _IsStream(Protocol):
    _node: StreamNode
    _output: str

    @property
    def changelog(self) -> Changelog | None: ...
    def _as_input(self) -> StepInput: ...
    def _behind(
        self, operation: Operation, inputs: Sequence[StepInput], given_id: str | None, uid: str | None = None
    ) -> DataStream: ...


@public
class ChangesOfRows:
    """What a stream can be told about changes, and tells about them."""

    @property
    def changelog(self: _IsStream) -> Changelog | None:
        """Of what form the changes of this stream are; `None` where it has rows."""
        return self._node.changelog if self._output == MAIN else None

    def as_changelog(
        self: _IsStream, *, keys: Sequence[str] = (), op: str = "op", images: Images = "after", id: str | None = None
    ) -> DataStream:
        """Say that the rows are changes: a column tells whether each was inserted, updated, deleted or read.

        Args:
            keys: the columns that identify a row; needed for `images="after"`.
            op: the column with `insert`, `update`, `delete` or `read`.
            images: `after`: a row replaces the one with its key, and a delete may hold the key alone; `both`: rows come and go
                whole, an update being a delete of the old row and an insert of the new one.
            id: a name for the step.
        """
        return self._behind(AsChangelog(op=op, keys=tuple(keys), images=images), (self._as_input(),), id)

    def as_rows(self: _IsStream, *, id: str | None = None) -> DataStream:
        """Take each change for a row of its own, with what happened as a column like others."""
        _needed(self, "as_rows")
        return self._behind(AsRows(), (self._as_input(),), id)

    def normalize(self: _IsStream, *, id: str | None = None, uid: str | None = None) -> DataStream:
        """Make changes by key rows that come and go whole, by keeping the last row of each key.

        Args:
            id: names the state.
            uid: names the state, if the step was called otherwise when it was written.
        """
        changelog = _needed(self, "normalize")
        if not changelog.keys:
            msg = "normalize needs to know which columns identify a row"
            hint = f"call .as_changelog(keys=[...], op={changelog.op!r}) before it"
            raise InvalidStep(msg, code="CHANGE-007", step=id or self._node.id, found=changelog.describe(), hint=hint)
        edge = StepInput(step=self._node.id, output=self._output, partition="hash", keys=changelog.keys)
        return self._behind(Normalize(), (edge,), id, uid)


def _needed(stream: _IsStream, method: str) -> Changelog:
    if stream.changelog is None:
        msg = f"{method} takes a changelog, and this stream has rows"
        hint = f"remove .{method}(), or call .as_changelog(keys=[...]) before it"
        raise InvalidStep(msg, code="CHANGE-007", step=stream._node.id, hint=hint)
    return stream.changelog
