"""A source as the contract sees it: how to open it, what it holds, and how the outside is changed."""

import json
from collections import Counter

from millstream.contract.source import BadRecord, Credit, RerunEnumerator, SourceContext
from millstream.model.connector import checked_options, source_declaration
from millstream.records.codecs import batch_to_rows
from millstream.registry import load


class SourceUnderTest:
    """What a test file says of its connector. `spec` and `schema` open it; the rest is overridden where it differs."""

    spec = None
    schema = None
    is_bounded = True
    parallelism = 2
    folder = None

    def rows(self):
        """Every row that stands outside now."""
        raise NotImplementedError

    def add(self, count):
        """Put more rows outside; only of unbounded sources."""
        raise NotImplementedError

    def away(self):
        """A context in which the outside cannot be reached, or `None` where nothing is outside."""
        return None

    def dispose(self):
        """End what the test started."""


class Opened:
    """One owner's enumerator, with every value as it comes back from a log: through JSON."""

    def __init__(self, source, *, token=1, folder=None, lineage="L1"):
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
        self.enumerator = load(declared.enumerator)(options, context)
        self._reader = lambda: load(declared.reader)(options, source.schema)

    def initial(self):
        return logged(self.enumerator.initial())

    def next_run(self, position):
        """Where another run begins behind one that ended there."""
        asked = self.enumerator
        return logged(asked.next_run(logged(position))) if isinstance(asked, RerunEnumerator) else position

    def advance(self, start, credit, paused=None):
        asked = self.enumerator
        advance = (
            asked.advance(logged(start), Credit(credit))
            if paused is None
            else asked.advance_without(logged(start), Credit(credit), paused)
        )
        assert isinstance(advance.finished, bool)
        assert logged(advance.position) == advance.position, "a position is JSON"
        return advance

    def splits(self, start, end):
        return self.enumerator.splits(logged(start), logged(end))

    def read(self, start, end):
        """The rows between two positions, by one reader for all splits."""
        reader, found = self._reader(), []
        try:
            for split in self.splits(start, end):
                for part in reader.read(logged(split.body)):
                    assert not isinstance(part, BadRecord), part
                    assert part.schema.equals(self.schema.arrow), "exactly the columns of the schema"
                    found += batch_to_rows(part)
        finally:
            reader.close()
        return found

    def close(self):
        self.enumerator.close()


def logged(value):
    """A value as a log gives it back."""
    return json.loads(json.dumps(value))


def as_multiset(rows):
    return Counter(json.dumps(row, default=str, sort_keys=True) for row in rows)
