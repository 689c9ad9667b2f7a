"""A source as the contract sees it: how to open it, what it holds, and how the outside is changed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from millstream.contract.source import (
    Advance,
    BadRecord,
    Credit,
    LostRows,
    Position,
    RerunEnumerator,
    SelectiveEnumerator,
    SourceContext,
    Split,
    SplitEnumerator,
    SplitReader,
)
from millstream.model.connector import ConnectorSpec, checked_options, source_declaration
from millstream.model.schema import Schema
from millstream.records.codecs import Row, batch_to_rows
from millstream.registry import load


class SourceUnderTest:
    """What a test file says of its connector. `spec` and `schema` open it; the rest is overridden where it differs."""

    spec: ConnectorSpec | None = None
    schema: Schema | None = None
    is_bounded = True
    parallelism = 2
    folder: Path | None = None
    """The folder of the source in a checkpoint; without one there is a single owner."""

    def rows(self) -> Sequence[Row]:
        """Every row that stands outside now."""
        raise NotImplementedError

    def add(self, count: int) -> None:
        """Put more rows outside; only of unbounded sources."""
        raise NotImplementedError

    def away(self) -> AbstractContextManager[Any] | None:
        """A context in which the outside cannot be reached, or `None` where nothing is outside."""
        return None

    def dispose(self) -> None:
        """End what the test started."""


class OpenedSource:
    """One owner's enumerator, with every value as it comes back from a log: through JSON."""

    def __init__(
        self, source: SourceUnderTest, *, token: int = 1, folder: Path | None = None, lineage: str = "L1"
    ) -> None:
        assert source.spec is not None, "the source under test has a spec"
        assert source.schema is not None, "the source under test has a schema"
        declared = source_declaration(source.spec)
        options = checked_options(declared.options, source.spec.options, step="in", name=source.spec.name)
        self.schema = source.schema
        context = SourceContext(
            step="in",
            schema=source.schema,
            log_dir=folder or source.folder,
            parallelism=source.parallelism,
            token=token,
            job="contract",
            lineage=lineage,
        )
        self.enumerator: SplitEnumerator = load(declared.enumerator)(options, context)
        self._declared, self._options = declared, options

    def _reader(self) -> SplitReader:
        reader: SplitReader = load(self._declared.reader)(self._options, self.schema)
        return reader

    def initial(self) -> Position:
        """The beginning, as a log gives it back."""
        return logged(self.enumerator.initial())

    def next_run(self, position: Position) -> Position:
        """Where another run begins behind one that ended there."""
        asked = self.enumerator
        return logged(asked.next_run(logged(position))) if isinstance(asked, RerunEnumerator) else position

    def advance(self, start: Position, credit: int, paused: Collection[str] | None = None) -> Advance:
        """How far to read, without some partitions if they are named."""
        asked = self.enumerator
        if paused is None:
            advance = asked.advance(logged(start), Credit(credit))
        else:
            assert isinstance(asked, SelectiveEnumerator)
            advance = asked.advance_without(logged(start), Credit(credit), paused)
        assert isinstance(advance.finished, bool)
        assert logged(advance.position) == advance.position, "a position is JSON"
        return advance

    def splits(self, start: Position, end: Position) -> Sequence[Split]:
        """The splits between two positions."""
        return self.enumerator.splits(logged(start), logged(end))

    def read(self, start: Position, end: Position) -> list[Row]:
        """The rows between two positions, by one reader for all splits."""
        reader = self._reader()
        found: list[Row] = []
        try:
            for split in self.splits(start, end):
                for part in reader.read(logged(split.body)):
                    assert not isinstance(part, (BadRecord, LostRows)), part
                    assert part.schema.equals(self.schema.arrow), "exactly the columns of the schema"
                    found += batch_to_rows(part)
        finally:
            reader.close()
        return found

    def close(self) -> None:
        """This owner ends."""
        self.enumerator.close()


def logged(value: Any) -> Any:
    """A value as a log gives it back."""
    return json.loads(json.dumps(value))


def as_multiset(rows: Iterable[Row]) -> Counter[str]:
    """Rows without their order."""
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)
