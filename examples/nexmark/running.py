"""Run queries and compare what they give with the known answers, or with the oracle for other sizes.

millstream nexmark run --queries q0,q5 --events 100000 --local
"""

from __future__ import annotations

import dataclasses
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from examples.nexmark.data import tables
from examples.nexmark.golden import GOLDEN, SIZES, Golden, Values
from examples.nexmark.oracle import Oracle
from examples.nexmark.queries.catalog import QUERIES

CHECKS: dict[str, Golden] = {**GOLDEN, "q12": Golden("sum(bid_count)", ("1928 92000", "19919 920000"))}
"""By which figures an answer is known; of q12 those of its totals per bidder."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a run of one query gave, and what it took."""

    query: str
    events: int
    found: Values
    """The number of rows, then the sums of the query's check."""
    expected: Values
    seconds: float
    cpu: float
    """Seconds of CPU in this process: all of it when the job ran here."""

    @property
    def is_exact(self) -> bool:
        """Whether the figures are the expected ones."""
        return self.found == self.expected

    @property
    def rate(self) -> float:
        """Events per second; all events count, those that the query does not read too."""
        return self.events / self.seconds


def outcomes(queries: Sequence[str], events: int, **options: Any) -> Iterator[Outcome]:
    """Run queries one after the other; `options` are those of `Job.run`."""
    expected = expected_values(queries, events)
    for query in queries:
        with tempfile.TemporaryDirectory(prefix="nexmark-") as folder:
            out = Path(folder)
            job = QUERIES[query].job(events, out)
            started, cpu = time.perf_counter(), time.process_time()
            job.run(**options)
            seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
            found = CHECKS[query].found(QUERIES[query].result(out))
        yield Outcome(query=query, events=events, found=found, expected=expected[query], seconds=seconds, cpu=cpu)


def expected_values(queries: Sequence[str], events: int) -> dict[str, Values]:
    """The right figures of each query: known ones where there are some, others from the oracle."""
    if events in SIZES:
        return {query: CHECKS[query].expected(events) for query in queries}
    with Oracle(tables(events)) as oracle:
        return {query: CHECKS[query].found(oracle.answer(query)) for query in queries}
