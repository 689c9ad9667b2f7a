"""Opens an `http` source and reads it as a run would; and APIs that show a list of rows page by page."""

import json
import time

from tests.servers.http import Reply

from millstream.connectors.http.decoding import HttpReader
from millstream.connectors.http.source import HttpEnumerator
from millstream.connectors.http.spec import DECLARATION, http
from millstream.contract.source import BadRecord, Credit, SourceContext
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import batch_to_rows

SCHEMA = schema_of("id long, name string")
PATIENCE = 20.0
QUICK = {"backoff": 0.01, "max_backoff": 0.02}


def rows(count, first=1):
    return [{"id": number, "name": f"n{number}"} for number in range(first, first + count)]


def checked(url, **options):
    spec = http(url, **{"allow_private": True, **options})
    values = checked_options(DECLARATION.source.options, spec.options, step="in", name="http")
    DECLARATION.source.check(values, SCHEMA, "in")
    return values


class Reading:
    """One owner of a source."""

    def __init__(self, url, *, folder=None, token=1, lineage="L1", parallelism=2, schema=SCHEMA, **options):
        values = checked(url, **options)
        context = SourceContext(
            step="in", schema=schema, log_dir=folder, parallelism=parallelism, token=token, lineage=lineage
        )
        self.enumerator = HttpEnumerator(values, context)
        self.reader = HttpReader(values, schema)
        self.position = _logged(self.enumerator.initial())
        self.path = [self.position]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.enumerator.close()

    def advance(self, credit=1000, *, position=None):
        return self.enumerator.advance(self.position if position is None else position, Credit(credit))

    def step(self, credit=1000):
        """The rows of the next epoch that has any, or `None` behind the last."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            advance = self.advance(credit)
            before, self.position = self.position, _logged(advance.position)
            if self.position != before:
                self.path.append(self.position)
                found = self.read(before, self.position)
                if found:
                    return found
            elif advance.finished:
                return None
            else:
                time.sleep(0.002)
        raise AssertionError(f"nothing came for {PATIENCE} s at {self.position}")

    def read(self, start, end):
        found = []
        for split in self.enumerator.splits(start, end):
            for part in self.reader.read(_logged(split.body)):
                found.extend([part] if isinstance(part, BadRecord) else batch_to_rows(part))
        return found

    def everything(self, credit=1000):
        found = []
        while (more := self.step(credit)) is not None:
            found += more
        return found


def _logged(value):
    return json.loads(json.dumps(value))


def read_all(url, **options):
    with Reading(url, **options) as reading:
        return reading.everything()


def ids(found):
    return sorted(row["id"] for row in found)


def pages_of(table, size=10):
    """An API that numbers pages from 1 and shows an empty one at the end."""

    def answer(asked):
        first = (int(asked.query.get("page", 1)) - 1) * size
        return {"items": table[first : first + size]}

    return answer


def refused(status, **more):
    return Reply({"error": more.pop("error", "no")}, status=status, **more)
