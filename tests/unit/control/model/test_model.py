"""The control plane as a model: 1,000 stories of 30 steps, and faults planted in the code that some story must find."""

import logging
import os
import random
import tempfile

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import update
from tests.unit.control.conftest import StandingClock
from tests.unit.control.model.invariants import Invariants
from tests.unit.control.model.rules import chosen
from tests.unit.control.model.world import World, opened

from millstream.checkpoint.failpoint import failpoint
from millstream.control.dispatcher import reconcile
from millstream.control.lifecycle import moves
from millstream.control.metadata.tables.nodes import lease
from millstream.control.metadata.tables.runs import execution
from millstream.control.nodes import adopting, claims, leases, node

CASES = int(os.environ.get("MILLSTREAM_MODEL_CASES", "1000"))
STEPS = 30
HEALED_EVERY = 20
REACHED = ("take-over", "stale write", "self-fence", "lost reply", "adoption", "reaped", "came too late", "epoch")


@pytest.fixture
def model(monkeypatch):
    """A database in memory, and the clock of the model."""
    monkeypatch.setattr(logging.getLogger("millstream"), "disabled", True)
    for module in (node, adopting, leases, reconcile):
        monkeypatch.setattr(module._log, "disabled", True)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        clock = StandingClock()
        metadata = opened(folder, clock)
        yield metadata, clock
        metadata.close()
    for module in (node, adopting, leases, claims, reconcile):
        module.failpoint = failpoint


def play(model, numbers, *, mutant=None, heal=True):
    """One story; what was done is told with what went wrong."""
    world = World(*model, mutant)
    told = []
    try:
        invariants = Invariants(world)
        for number in numbers:
            name, act = chosen(world, number)
            told.append(name)
            act()
            invariants.check()
        if heal:
            told.append("heal")
            invariants.check_healed()
    except AssertionError as problem:
        raise AssertionError(f"{problem}; after {told}") from problem
    finally:
        world.close()


def test_the_model_holds(model):
    """Hard cases are counted: a model that does not reach them proves nothing."""
    played = [0]

    @settings(
        max_examples=CASES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
    )  # fmt: skip
    @given(st.lists(st.integers(0, 2**31), min_size=STEPS, max_size=STEPS))
    def story(numbers):
        played[0] += 1
        play(model, numbers, heal=played[0] % HEALED_EVERY == 0)

    story()
    unreached = [name for name in REACHED if model[0].counts[name] == 0]
    assert unreached == [], dict(model[0].counts)


def stories(model, mutant, cases):
    """Whether some story finds a fault; which numbers are drawn is the same every time."""
    drawn = random.Random(20)
    for case in range(cases):
        try:
            play(model, [drawn.randrange(2**31) for _ in range(STEPS)], mutant=mutant, heal=case % HEALED_EVERY == 0)
        except AssertionError as problem:
            return str(problem)
    return None


def renewed_by_anybody(act, owner, held):
    changed = update(lease).where(lease.c.name.in_(held)).values(expires_at=act.now + claims.TERM)
    return claims.Renewal(set(act.connection.execute(changed.returning(lease.c.name)).scalars()), ())


def moved_without_compare(connection, run, before, after, cause, *, now, token=None, **values):
    changed = update(execution).where(execution.c.execution_id == run).values(status=after, **values)
    connection.execute(changed)
    moves.record(connection, run, "moved", cause, now=now, token=token or 0, before=before, after=after)
    return True


def token_kept(take):
    def taken(act, name, owner):
        token = take(act, name, owner)
        if token is None or token == 1:
            return token
        act.connection.execute(update(lease).where(lease.c.name == name).values(token=token - 1))
        return token - 1

    return taken


def plant(mutant, model, monkeypatch):
    match mutant:
        case "token not raised":
            monkeypatch.setattr(claims, "_take_lease", token_kept(claims._take_lease))
        case "no unique key":
            with model[0].begin() as connection:
                connection.exec_driver_sql("DROP INDEX uq_execution_active")
        case "renew by anybody":
            monkeypatch.setattr(leases, "renew", renewed_by_anybody)
        case "move without compare of status":
            for module in ("restart.failing", "dispatcher.stopping", "nodes.reports", "nodes.lost"):
                monkeypatch.setattr(f"millstream.control.{module}.move", moved_without_compare)
        case "reap without grace":
            monkeypatch.setattr(reconcile, "TERM", claims.TERM * 0)


MUTANTS = (
    "no fence",
    "fence only at first write",
    "token not raised",
    "no unique key",
    "renew by anybody",
    "move without compare of status",
    "reap without grace",
)


@pytest.mark.parametrize("mutant", MUTANTS)
def test_planted_faults_are_found(model, monkeypatch, mutant):
    plant(mutant, model, monkeypatch)
    assert stories(model, mutant, 600) is not None
