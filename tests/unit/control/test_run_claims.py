"""Claims: one owner for each run, tokens that never fall, leases that are kept, lost and swept."""

import concurrent.futures

import pytest
from sqlalchemy import select
from tests.unit.control.conftest import reap, silent_for, submission

from millstream.control.dispatcher.definitions import submit
from millstream.control.dispatcher.reconcile import Reconciler
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.nodes import lease
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.nodes.claims import claim, lease_name, owned_runs, release, renew


@pytest.fixture
def started(act):
    """Start runs of new jobs: `started("a", "b")`."""

    def begin(*names, **settings):
        with act() as a:
            for name in names:
                submit(a, submission(name, settings=settings))
            return [start(a, name, StartOptions()).execution_id for name in names]

    return begin


def take(act, owner="n1", labels=None):
    with act(owner) as a:
        return claim(a, owner, labels or {})


def test_the_oldest_that_is_due_is_taken_once(act, started):
    first, second = started("a", "b")
    assert [take(act).run.execution_id, take(act, "n2").run.execution_id] == [first, second]
    assert take(act) is None


def test_many_claimers_share_without_doubling(act, started):
    runs = started(*(f"j{number}" for number in range(12)))
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        claims = list(pool.map(lambda number: take(act, f"n{number % 3}"), range(24)))
    taken = [each.run.execution_id for each in claims if each is not None]
    assert sorted(taken) == sorted(set(taken))
    # One who found every row locked by others comes back for it.
    while (more := take(act)) is not None:
        taken.append(more.run.execution_id)
    assert sorted(taken) == sorted(runs)


def test_labels_are_asked_for(act, started):
    started("gpu", labels={"gpu": "yes"})
    started("any")
    assert take(act).run.job_name == "any"
    assert take(act) is None
    assert take(act, labels={"gpu": "yes", "zone": "a"}).run.job_name == "gpu"


def test_many_that_no_node_can_run_keep_nobody_else_waiting(act, started):
    started(*(f"gpu{number}" for number in range(120)), labels={"gpu": "yes"})
    started("any")
    assert take(act).run.job_name == "any"
    assert take(act) is None
    assert take(act, labels={"gpu": "yes"}).run.job_name == "gpu0"


def test_a_run_that_waits_for_its_next_attempt_is_left(act, clock, metadata, started):
    started("a")
    with metadata.begin() as connection:
        connection.execute(execution.update().values(not_before=clock.now.replace(hour=13)))
    assert take(act) is None
    clock.forward(3600)
    assert take(act) is not None


def test_tokens_rise_over_the_runs_of_a_job(act, started, clock):
    tokens = []
    started("a")
    for _ in range(3):
        claimed = take(act)
        tokens.append(claimed.token)
        with act() as a:
            a.connection.execute(execution.update().values(status=Status.CANCELLED))
            release(a, lease_name(claimed.run.job_id, 0), claimed.token)
            start(a, "a", StartOptions())
    assert tokens == [1, 2, 3]


def test_a_lease_that_is_held_is_not_taken_and_blocks_nobody_else(act, started, clock, metadata):
    first, second = started("a", "b")
    held = take(act)
    with metadata.begin() as connection:
        connection.execute(execution.update().where(execution.c.execution_id == first).values(status="SCHEDULED"))
    assert take(act, "n2").run.execution_id == second
    assert take(act, "n2") is None
    clock.forward(15)
    again = take(act, "n2")
    assert (again.run.execution_id, again.token) == (first, held.token + 1)


def test_what_is_not_renewed_is_lost(act, started, clock, metadata):
    started("a", "b")
    mine, other = take(act), take(act)
    names = {lease_name(each.run.job_id, 0): each.token for each in (mine, other)}
    clock.forward(20)
    with act() as a:
        assert set(renew(a, "n1", names).kept) == set(names), "an expired lease is renewed while nobody has taken it"
        assert renew(a, "n2", names) == (set(), set(names))
    clock.forward(20)
    with act() as a:
        assert reap(a) == 2
    taken = take(act, "n2")
    with act() as a:
        renewed = renew(a, "n1", names)
        assert (renewed.kept, renewed.lost) == (set(), set(names)), "one is another's, the other nobody's"
        assert lease_name(taken.run.job_id, 0) in renewed.lost
        assert owned_runs(a, "n1") == []
    with metadata.begin() as connection:
        assert set(connection.execute(select(lease.c.token)).scalars()) == {1, 2}


def test_a_reaped_run_starts_again_at_once_and_says_why(act, started, clock, metadata):
    (run,) = started("a")
    take(act)
    clock.forward(16)
    with act("system") as a:
        assert (reap(a), reap(a)) == (1, 0)
    with metadata.begin() as connection:
        row = connection.execute(select(execution)).one()
        causes = connection.execute(select(run_event.c.cause).order_by(run_event.c.id)).scalars().all()
    assert (row.status, row.retry_count, row.attempt, row.error_code) == ("SCHEDULED", 0, 1, "CTL-051")
    assert "node n1 fell silent" in causes[-2]
    assert take(act, "n2").run.execution_id == run


def test_two_sweepers_reap_once(act, started, clock):
    started("a", "b", "c")
    for _ in range(3):
        take(act)
    clock.forward(16)

    def sweep(_):
        with act("system") as a:
            return reap(a)

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(sweep, range(2))) == 3


def test_nobody_is_declared_lost_right_after_the_database_came_back(metadata, act, started, clock):
    started("a")
    take(act)
    clock.forward(60)
    reconciler = Reconciler(metadata)
    reconciler.round()
    with act() as a:
        assert len(owned_runs(a, "n1")) == 1
    silent_for(16, clock, reconciler)
    with act() as a:
        assert owned_runs(a, "n1") == []
