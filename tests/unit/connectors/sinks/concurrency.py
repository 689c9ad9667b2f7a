"""Many committers with random tokens on random epochs at the same time."""

import dataclasses
import random
import threading

from tests.unit.connectors.sinks.under_test import Owner, rows

from millstream.errors import Fenced

COMMITTERS = 12
EPOCHS = 6


@dataclasses.dataclass
class Outcome:
    """What the committers were told."""

    content: dict
    published: set = dataclasses.field(default_factory=set)
    fenced: int = 0
    unexpected: list = dataclasses.field(default_factory=list)


def race(sink, *, seed):
    """Each committer fences with a random token and publishes a few random epochs; a fenced one ends."""
    chance = random.Random(seed)
    outcome = Outcome({epoch: rows(epoch * 100, 20) for epoch in range(EPOCHS)})
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


def _commit(sink, outcome, start, number, token, epochs):
    try:
        start.wait(60)
        owner = Owner(sink, token=token)
        for epoch in epochs:
            content = outcome.content[epoch]
            owner.run(epoch, content[:7], content[7:], attempt=f"c{number}-")
            outcome.published.add(epoch)
        owner.close()
    except Fenced:
        outcome.fenced += 1
    except Exception as problem:
        outcome.unexpected.append(repr(problem))
