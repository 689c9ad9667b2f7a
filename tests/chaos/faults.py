"""The deck of faults: every fault once, by name, shuffled and dealt out to rounds."""

import functools
import itertools
import random

from tests.chaos import lease_nemesis, nemesis, spark_nemesis
from tests.chaos.damage import HOW, WHAT


def deck(engine, sinks, *, has_disk):
    """Every fault once, by name; shuffled and dealt out to rounds."""
    has_database = set(sinks) - {"files"}
    found = {}
    for place in nemesis.EPOCH_PLACES:
        if place in nemesis.DATABASE_PLACES and not has_database:
            continue
        if engine == "spark" and place == "task_staged":
            continue
        found[f"kill at {place}"] = functools.partial(nemesis.kill_at, place=place)
    for place in nemesis.START_PLACES:
        found[f"kill at {place}"] = functools.partial(nemesis.kill_at, place=place)
    if engine == "spark":
        return found | spark_nemesis.FAULTS
    for place in nemesis.TAKEOVER_PLACES:
        found[f"take over at {place}"] = functools.partial(nemesis.takeover_at, place=place)
    for place in ("begun", "staged", "prepared", "manifest_written", "durable", "sink_published"):
        found[f"fail at {place}"] = functools.partial(nemesis.fail_at, place=place)
        found[f"disk full at {place}"] = functools.partial(nemesis.disk_full_at, place=place)
    for place in nemesis.SAVEPOINT_PLACES:
        found[f"savepoint killed at {place}"] = functools.partial(nemesis.savepoint_killed, place=place)
    for place in nemesis.RESTORE_PLACES:
        found[f"restore killed at {place}"] = functools.partial(nemesis.restore_killed, place=place)
    found |= {
        "kill at random": nemesis.kill_random,
        "kill at random again": nemesis.kill_random,
        "kill after epochs": nemesis.kill_after_epochs,
        "burst of kills": nemesis.burst,
        "take over at random": nemesis.takeover_random,
        "two owners": nemesis.two_owners,
        "lease unheard": lease_nemesis.unheard,
        "lease unheard again": lease_nemesis.unheard,
        "limit files": nemesis.limit_files,
    }
    for what, how in itertools.product(WHAT, HOW):
        found[f"damage: {how} {what}"] = functools.partial(nemesis.damage, what=what, how=how)
    if has_disk:
        found["fill disk"] = nemesis.fill_disk
    if set(sinks) & {"postgres", "outbox"}:
        found |= {"restart PostgreSQL": nemesis.restart_postgres, "lose a reply": nemesis.lose_commit_reply}
    return found


def dealt(faults, seed, number, size):
    """The faults of a round: the deck is shuffled anew each time it is used up."""
    names, wanted = sorted(faults), range((number - 1) * size, number * size)
    found = []
    for place in wanted:
        order = list(names)
        random.Random(f"{seed}/deck/{place // len(names)}").shuffle(order)
        found.append(order[place % len(names)])
    return found
