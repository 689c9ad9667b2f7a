"""Many committers with random tokens on random epochs at the same time."""

from __future__ import annotations

import dataclasses
import random
import threading
from collections.abc import Sequence

from millstream.errors import Fenced
from millstream.records.codecs import Row
from millstream.testing.sink_under_test import OpenedSink, SinkUnderTest, rows

COMMITTERS = 12
EPOCHS = 6


@dataclasses.dataclass
class RaceOutcome:
    """What the committers were told."""

    content: dict[int, list[Row]]
    published: set[int] = dataclasses.field(default_factory=set)
    fenced: int = 0
    unexpected: list[str] = dataclasses.field(default_factory=list)


def race(sink: SinkUnderTest, *, seed: int) -> RaceOutcome:
    """Each committer fences with a random token and publishes a few random epochs; a fenced one ends."""
    chance = random.Random(seed)
    outcome = RaceOutcome({epoch: rows(epoch * 100, 20) for epoch in range(EPOCHS)})
    plans = [(chance.randint(1, 6), chance.sample(range(EPOCHS), 3)) for _ in range(COMMITTERS)]
    start = threading.Barrier(COMMITTERS)
    threads = [
        threading.Thread(target=_commit, args=(sink, outcome, start, number, *plan))
        for number, plan in enumerate(plans)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcome


def _commit(
    sink: SinkUnderTest,
    outcome: RaceOutcome,
    start: threading.Barrier,
    number: int,
    token: int,
    epochs: Sequence[int],
) -> None:
    try:
        start.wait(60)
        owner = OpenedSink(sink, token=token)
        for epoch in epochs:
            content = outcome.content[epoch]
            owner.run(epoch, content[:7], content[7:], attempt=f"c{number}-")
            outcome.published.add(epoch)
        owner.close()
    except Fenced:
        outcome.fenced += 1
    except Exception as problem:
        outcome.unexpected.append(repr(problem))
