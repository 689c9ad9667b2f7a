"""Restart rules: which failures are tried again, when, and when a run is given up."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select
from tests.unit.control.conftest import NOON, submission

from millstream.control.dispatcher.definitions import submit
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.lifecycle.states import Status
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.control.nodes.claims import claim, lease_name, release
from millstream.control.restart.failing import fail
from millstream.control.restart.rules import OUT_OF_MEMORY, Failure, RestartRule, decide, forgiven
from millstream.control.settings import settings_of
from millstream.errors import InvalidStep


def ago(*seconds):
    return [NOON - dt.timedelta(seconds=each) for each in seconds]


def failure(domain="external", retry="backoff", code="EXT-001", counts=True):
    return Failure(at=NOON, domain=domain, retry=retry, code=code, counts=counts)


def delay(rule, past=(), *, retries=0, draw=0.5, memory=0, **more):
    verdict = decide(rule, past, failure(**more), retries=retries, max_retries=3, draw=draw, out_of_memory=memory)
    return None if verdict.at is None else (verdict.at - NOON).total_seconds()


def test_delays():
    fixed = RestartRule(strategy="fixed_delay", delay=7)
    growing = RestartRule(jitter=0.2, max_delay=60)
    assert [delay(fixed, ago(9)), delay(RestartRule(strategy="none"))] == [7, None]
    assert [delay(growing, ago(*range(n, 0, -1)), retries=0) for n in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]
    assert [delay(growing, draw=0), delay(growing, draw=1)] == [0.8, 1.2]
    assert delay(growing, ago(*range(400, 0, -1)), retries=0, draw=1) == 60


def test_what_does_not_help_is_not_tried():
    rule = RestartRule()
    assert delay(rule, domain="user", retry="never", code="STEP-001") is None
    assert delay(rule, domain="internal", retry="never", code="MS-000") == 1
    assert delay(rule, retries=3) is None
    assert delay(rule, ago(20, 10), code=OUT_OF_MEMORY, memory=2) is None
    assert delay(rule, ago(20, 10), code=OUT_OF_MEMORY, memory=1) is not None
    assert delay(rule, ago(20, 10), memory=2) is not None, "this one is another failure"
    assert delay(RestartRule(strategy="none"), counts=False) == 0


def test_a_rate():
    rule = RestartRule(strategy="failure_rate", max_failures=2, interval=60, delay=3)
    assert forgiven(rule, ago(90, 50, 10), NOON) == ago(50, 10)
    assert [delay(rule, forgiven(rule, ago(90, 50), NOON), retries=99), delay(rule, ago(50, 10))] == [3, None]


@pytest.mark.parametrize(
    "restart", [{"delay": 1e300}, {"max_delay": 3e6}, {"reset_after": 1e18}, {"interval": 1e9}, {"factor": 1e300}]
)
def test_times_that_no_calendar_holds_are_refused_when_the_job_is_submitted(restart):
    with pytest.raises(InvalidStep, match="CTL-020"):
        settings_of({"restart": restart})


@pytest.mark.parametrize(
    "given",
    [
        *({"min_pause": each} for each in ("x", -1, "", 10**29)),
        *({"epoch_timeout": each} for each in ("x", 0, -1)),
        *({"retained": 0}, {"retained": 10**29}, {"tolerated_failures": 10**29}, {"memory_limit": 1}, {"master": ""}),
        *({name: place} for name in ("checkpoint", "manifests") for place in ("", "x", "../up")),
    ],
)
def test_settings_under_which_no_run_begins_are_refused(given):
    with pytest.raises(InvalidStep, match="CTL-020"):
        settings_of(given)


def test_the_longest_times_of_a_rule_do_not_overflow():
    rule = RestartRule(delay=30 * 86400, max_delay=30 * 86400, factor=1000)
    assert delay(rule, ago(*range(60, 0, -1)), draw=1) == 30 * 86400


def test_a_quiet_time_forgives():
    rule = RestartRule(reset_after=100)
    assert forgiven(rule, ago(500, 90, 10), NOON) == ago(90, 10)
    assert forgiven(rule, ago(500, 480, 101), NOON) == []
    assert forgiven(rule, [], NOON) == []


@given(
    st.lists(st.integers(0, 10_000), max_size=20), st.sampled_from(["exponential_delay", "failure_rate", "fixed_delay"])
)
def test_what_counts_is_the_newest_part_of_the_past(seconds, strategy):
    past = sorted(ago(*seconds))
    kept = forgiven(RestartRule(strategy=strategy), past, NOON)
    assert kept == past[len(past) - len(kept) :]
    verdict = decide(RestartRule(strategy=strategy), kept, failure(), retries=0, max_retries=3, draw=0.5)
    assert verdict.at is None or verdict.at >= NOON


@pytest.fixture
def fail_once(act, clock):
    """Claim the run of the job, and let it fail."""

    def once(**more):
        with act("n1") as a:
            claimed = claim(a, "n1", {})
            problem = Failure(at=clock.now, **{"domain": "external", "retry": "backoff", "code": "EXT-001", **more})
            assert fail(a, claimed.run, problem, "it broke", token=claimed.token)
            assert not fail(a, claimed.run, problem, "it broke", token=claimed.token - 1)
            release(a, lease_name(claimed.run.job_id, 0), claimed.token)

    return once


def test_a_run_is_tried_until_it_is_dead(act, job, clock, metadata, fail_once):
    with act() as a:
        start(a, "orders", StartOptions())
    seen = []
    for _ in range(4):
        fail_once()
        with metadata.begin() as connection:
            row = connection.execute(select(execution)).one()
        seen.append((row.status, row.retry_count, row.attempt))
        clock.forward(400)
    assert seen == [("SCHEDULED", 1, 1), ("SCHEDULED", 2, 2), ("SCHEDULED", 3, 3), ("DEAD", 3, 4)]
    with metadata.begin() as connection:
        assert (
            connection.execute(select(run_event.c.cause).order_by(run_event.c.id.desc()))
            .scalars()
            .first()
            .startswith("it was started again 3 times")
        )


@pytest.mark.parametrize(
    ("codes", "ends"),
    [
        (["EXT-001", "EXT-001", OUT_OF_MEMORY], "SCHEDULED"),
        ([OUT_OF_MEMORY, "EXT-001", OUT_OF_MEMORY], "SCHEDULED"),
        ([OUT_OF_MEMORY, "EXT-001", OUT_OF_MEMORY, OUT_OF_MEMORY], "SCHEDULED"),
        ([OUT_OF_MEMORY] * 3, "DEAD"),
        (["EXT-001", *[OUT_OF_MEMORY] * 3], "DEAD"),
    ],
)
def test_out_of_memory_in_a_row_counts_nothing_else(act, clock, metadata, fail_once, codes, ends):
    with act() as a:
        submit(a, submission(max_retry_times=10))
        start(a, "orders", StartOptions())
        # Of an earlier version, which wrote no codes.
        a.connection.execute(execution.update().values(failures=[clock.now.isoformat()]))
    for code in codes:
        clock.forward(100)
        fail_once(code=code)
    with metadata.begin() as connection:
        assert connection.execute(select(execution.c.status)).scalar_one() == ends


def test_a_quiet_time_gives_all_attempts_back(act, job, clock, metadata, fail_once):
    with act() as a:
        start(a, "orders", StartOptions())
    for _ in range(6):
        fail_once()
        clock.forward(1000)
    with metadata.begin() as connection:
        assert connection.execute(select(execution.c.status, execution.c.retry_count)).one() == ("SCHEDULED", 1)


def test_who_was_to_end_is_not_tried_again(act, job, metadata, fail_once):
    with act() as a:
        start(a, "orders", StartOptions())
        a.connection.execute(execution.update().values(wanted="drain"))
    fail_once()
    with metadata.begin() as connection:
        assert connection.execute(select(execution.c.status)).scalar_one() == Status.CANCELLED
