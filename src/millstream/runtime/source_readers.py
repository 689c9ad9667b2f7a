"""The sources of a task: one reader for all splits of a source, closed when the task ends or fails."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from millstream.contract.source import SplitReader
from millstream.graph.operations.endpoints import Source
from millstream.model.connector import source_declaration
from millstream.registry import load
from millstream.runtime.closing import OpenedParts


class SourceReaders:
    """The readers of one task, opened with the first split of their source."""

    def __init__(self) -> None:
        self._readers: dict[str, SplitReader] = {}
        self._parts = OpenedParts()

    def of(self, step: str, source: Source) -> SplitReader:
        """The reader of a source."""
        if step not in self._readers:
            declared = source_declaration(source.connector)
            reader = self._readers[step] = load(declared.reader)(source.connector.options, source.schema)
            # Readers of the time before `close` have nothing to release.
            self._parts.add(f"the reader of {step!r}", getattr(reader, "close", _nothing))
        return self._readers[step]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, _: TracebackType | None
    ) -> None:
        self._parts.close(problem)


def _nothing() -> None:
    """There is nothing to release."""
