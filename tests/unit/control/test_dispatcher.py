"""The dispatcher: submitted once, started once, stopped by what is written down."""

import concurrent.futures
import time

import pytest
from sqlalchemy import func, insert, select
from tests.unit.control.conftest import submission

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import change, delete, job_of, new_version, submit, version_of
from millstream.control.dispatcher.reconcile import revive
from millstream.control.dispatcher.starting import StartOptions, options_of, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop, withdraw
from millstream.control.metadata.tables.access import operation
from millstream.control.metadata.tables.jobs import job_config, job_definition, job_version
from millstream.control.metadata.tables.runs import execution
from millstream.control.metadata.tables.schedules import backfill, hook, hook_call, schedule, schedule_fire
from millstream.control.nodes.claims import claim
from millstream.control.operations import handed_on, operation_of
from millstream.control.refusals import StaleVersion, StateConflict, UnknownName
from millstream.control.settings import settings_of
from millstream.errors import InvalidStep


def at_once(count, work):
    """What each of several threads got, or the code of what it raised."""

    def attempt(number):
        try:
            return work(number)
        except (StateConflict, StaleVersion) as problem:
            return problem.code

    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return list(pool.map(attempt, range(count)))


def test_a_name_is_taken_once(act, metadata):
    def one(_):
        with act() as a:
            return submit(a, submission("same")).version

    assert sorted(map(str, at_once(6, one))) == ["1", *["CTL-021"] * 5]
    with metadata.begin() as connection:
        assert connection.execute(select(func.count()).select_from(job_version)).scalar_one() == 1


def test_versions(act, job):
    with act() as a:
        second = new_version(a, "orders", submission(description="more"), expected=1)
        assert (second.version, second.description) == (2, "more")
        assert version_of(a, job.id, 1).version == 1
        with pytest.raises(StaleVersion, match=r"CTL-022.*found version 2"):
            new_version(a, "orders", submission(), expected=1)
        with pytest.raises(StateConflict, match="CTL-023"):
            new_version(a, "orders", submission("other"), expected=None)
        with pytest.raises(UnknownName, match="CTL-025"):
            version_of(a, job.id, 3)
        with pytest.raises(UnknownName, match="CTL-024"):
            job_of(a, "nothing")


def test_of_two_who_change_one_wins(act, job):
    def one(_):
        with act() as a:
            return new_version(a, "orders", submission(), expected=1).version

    assert sorted(map(str, at_once(4, one))) == ["2", *["CTL-022"] * 3]


def test_a_deleted_name_may_be_taken_again(act, job):
    with act() as a:
        run = start(a, "orders", StartOptions())
        with pytest.raises(StateConflict, match="CTL-026"):
            delete(a, "orders")
        stop(a, run, Wish("cancel"))
        delete(a, "orders")
        with pytest.raises(UnknownName):
            job_of(a, "orders")
        again = submit(a, submission())
        assert (again.id, again.version, again.deleted_time) == (job.id, 2, None)


def test_one_run_at_a_time(act, job):
    def one(_):
        with act() as a:
            return start(a, "orders", StartOptions()).status

    assert sorted(at_once(6, one)) == [*["CTL-032"] * 5, "SCHEDULED"]


def test_one_run_per_trigger(act, job, metadata):
    def one(_):
        with act() as a:
            return start(a, "orders", StartOptions(), trigger="monday").execution_id

    assert len(set(at_once(6, one))) == 1
    with metadata.begin() as connection:
        connection.execute(execution.update().values(status="COMPLETED"))
    assert len({*at_once(2, one)}) == 1, "a trigger is used up for ever"


def test_slots_run_beside_each_other(act, job):
    with act() as a:
        first, second = (start(a, "orders", StartOptions(), slot=slot) for slot in (0, 1))
    assert first.execution_id != second.execution_id


def test_a_job_that_is_off_does_not_start(act, job):
    with act() as a:
        change(a, "orders", enabled=False)
        with pytest.raises(StateConflict, match="CTL-031"):
            start(a, "orders", StartOptions())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"from": "x"}, "unknown field `from`"),
        ({"parallelism": "two"}, "Expected `int | null`"),
        ({"params": [1]}, "Expected `object`"),
    ],
)
def test_odd_options_are_refused(given, told):
    with pytest.raises(InvalidStep, match="CTL-030") as caught:
        options_of(given)
    assert told in str(caught.value)


@pytest.mark.parametrize("given", [{"engine": "flink"}, {"retained": 0}, {"restart": {"strategy": "often"}}, {"x": 1}])
def test_odd_settings_are_refused(given):
    with pytest.raises(InvalidStep, match="CTL-020"):
        settings_of(given)


def test_what_waits_is_cancelled_at_once(act, job):
    with act() as a:
        run = start(a, "orders", StartOptions())
        assert job_of(a, "orders").desired == "RUNNING"
        with pytest.raises(StateConflict, match="CTL-037"):
            stop(a, run, Wish("drain"))
        done = stop(a, run, Wish("cancel"))
        assert a.connection.execute(select(operation.c.status).where(operation.c.id == done)).scalar_one() == "done"
        assert job_of(a, "orders").desired == "STOPPED"
        with pytest.raises(StateConflict, match="CTL-035"):
            stop(a, run_of(a, run.execution_id), Wish("cancel"))


@pytest.fixture
def running(act, job):
    with act() as a:
        start(a, "orders", StartOptions())
        claimed = claim(a, "n1", {})
        a.connection.execute(execution.update().values(status="RUNNING"))
    return lambda a: run_of(a, claimed.run.execution_id)


def test_what_runs_is_asked(act, running):
    with act() as a:
        stop(a, running(a), Wish("drain"))
        assert (running(a).wanted, running(a).status) == ("drain", "RUNNING")
        with pytest.raises(StateConflict, match="CTL-036"):
            stop(a, running(a), Wish("suspend"))
        stop(a, running(a), Wish("export_savepoint", to="/tmp/here"))
        stop(a, running(a), Wish("cancel"))
        assert (running(a).wanted, running(a).status) == ("cancel", "CANCELLING")
        stop(a, running(a), Wish("cancel"))


def test_a_run_is_found_by_the_beginning_of_its_id(act, running):
    with act() as a:
        run = running(a)
        assert run_of(a, run.execution_id[:8]).id == run.id
        for odd in ("", "zz", "%", "_"):
            with pytest.raises(UnknownName, match="CTL-034"):
                run_of(a, odd)


def test_what_is_to_run_is_started_again(act, job, metadata):
    with act() as a:
        first = start(a, "orders", StartOptions())
        for status, runs in (("RUNNING", 1), ("COMPLETED", 1), ("DEAD", 1), ("SUSPENDED", 2)):
            a.connection.execute(execution.update().values(status=status))
            revive(a)
            revive(a)
            assert a.connection.execute(select(func.count()).select_from(execution)).scalar_one() == runs
        newest = a.connection.execute(select(execution.c.trigger_id).order_by(execution.c.id.desc())).scalars().first()
        assert newest == f"desired:{first.execution_id}"
        a.connection.execute(job_definition.update().values(desired="STOPPED"))
        a.connection.execute(execution.update().values(status="SUSPENDED"))
        revive(a)
        assert a.connection.execute(select(func.count()).select_from(execution)).scalar_one() == 2


def test_what_is_started_again_goes_on_as_it_began(act, job):
    with act() as a:
        options = StartOptions(params={"region": "eu"}, parallelism=3, from_savepoint="/s", ignore_state_once=True)
        start(a, "orders", options, slot=2)
        a.connection.execute(execution.update().values(status="SUSPENDED"))
        revive(a)
        newest = a.connection.execute(select(execution).order_by(execution.c.id.desc())).first()
    assert (newest.status, newest.slot_no) == ("SCHEDULED", 2)
    assert newest.options == {"params": {"region": "eu"}, "parallelism": 3}


def test_a_trigger_that_was_used_up_starts_nothing_later(act, job):
    with act() as a:
        run = start(a, "orders", StartOptions(), trigger="monday")
        stop(a, run, Wish("cancel"))
        assert start(a, "orders", StartOptions(), trigger="monday").execution_id == run.execution_id
        assert job_of(a, "orders").desired == "STOPPED"
        revive(a)
        assert a.connection.execute(select(func.count()).select_from(execution)).scalar_one() == 1


def beside(metadata, first, second):
    """What `second` raised that began while the transaction of `first` had not ended."""

    def late():
        with acting(metadata, "bob") as a:
            second(a)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        with acting(metadata, "ada") as a:
            first(a)
            other = pool.submit(late)
            time.sleep(0.5)
        return other.exception(timeout=20)


def test_a_new_job_of_a_deleted_name_begins_empty(act, job, clock, metadata):
    of_job = {"job_id": job.id}
    with act() as a:
        setting = {"config_key": "DB_PASSWORD", "config_value": "x", "is_sensitive": True, "key_id": "k"}
        a.connection.execute(insert(job_config).values(**of_job, **setting))
        rule = {"schedule_type": "CRON", "cron_expression": "* * * * *", "spec": {}, "revised_at": clock.now}
        a.connection.execute(insert(schedule).values(**of_job, **rule))
        a.connection.execute(insert(hook).values(**of_job, name="go", secret_name="s"))
        a.connection.execute(insert(hook_call).values(name="go", call_id="1", time=clock.now))
        span = {"from_time": clock.now, "to_time": clock.now, "create_time": clock.now, "trigger_id": "b", "actor": "a"}
        a.connection.execute(insert(backfill).values(**of_job, **span, status="RUNNING"))
        fire = {"cause": "cron", "revision": 1, "time_zone": "UTC", "fire_time": clock.now, "decided_at": clock.now}
        a.connection.execute(insert(schedule_fire).values(**of_job, **fire, result="QUEUED"))
        delete(a, "orders")
    with act() as a:
        submit(a, submission())
        for table in (job_config, schedule, hook, hook_call):
            assert a.connection.execute(select(func.count()).select_from(table)).scalar_one() == 0, table
        assert a.connection.execute(select(backfill.c.status)).scalar_one() == "CANCELLED"
        assert a.connection.execute(select(schedule_fire.c.result)).scalar_one() == "SKIPPED"


def test_a_delete_that_is_refused_takes_nothing(act, job):
    with act() as a:
        start(a, "orders", StartOptions())
        a.connection.execute(insert(hook).values(job_id=job.id, name="go", secret_name="s"))
    with pytest.raises(StateConflict, match="CTL-026"), act() as a:
        delete(a, "orders")
    with act() as a:
        assert a.connection.execute(select(hook.c.name)).scalar_one() == "go"


def test_no_run_begins_of_a_job_that_is_deleted_meanwhile(metadata, act, job):
    def begin(a):
        start(a, "orders", StartOptions())

    def take_out(a):
        delete(a, "orders")

    assert beside(metadata, begin, take_out).code == "CTL-026"
    with act() as a:
        stop(a, run_of(a, a.connection.execute(select(execution.c.execution_id)).scalar_one()), Wish("cancel"))
    assert beside(metadata, take_out, begin).code == "CTL-024"
    with act() as a:
        assert a.connection.execute(select(execution.c.status)).scalars().all() == ["CANCELLED"]


def test_nothing_is_asked_of_a_run_that_ends_meanwhile(metadata, act, running):
    def end(a):
        a.connection.execute(execution.update().values(status="COMPLETED"))

    with act() as a:
        seen = running(a)
    problem = beside(metadata, end, lambda a: stop(a, seen, Wish("export_savepoint")))
    assert problem.code == "CTL-038"
    with act() as a:
        assert a.connection.execute(select(func.count()).select_from(operation)).scalar_one() == 0


@pytest.mark.parametrize("mode", ["drain", "suspend"])
def test_an_end_that_is_withdrawn_was_never_asked_for(act, running, mode):
    with act() as a:
        withdraw(a, operation_of(a, stop(a, running(a), Wish(mode))))
        assert (running(a).wanted, job_of(a, "orders").desired) == (None, "RUNNING")
        begun = stop(a, running(a), Wish(mode))
        handed_on(a, begun)
        with pytest.raises(StateConflict, match="REST-030"):
            withdraw(a, operation_of(a, begun))
        assert running(a).wanted == mode


def test_a_cancel_is_not_withdrawn(act, running):
    """The run is CANCELLING, and nobody would ask its driver any more."""
    with act() as a:
        asked = stop(a, running(a), Wish("cancel"))
        with pytest.raises(StateConflict, match="REST-030"):
            withdraw(a, operation_of(a, asked))
        assert operation_of(a, asked).status == "pending"


def test_a_withdrawn_savepoint_leaves_the_wish_for_an_end(act, running):
    with act() as a:
        stop(a, running(a), Wish("drain"))
        withdraw(a, operation_of(a, stop(a, running(a), Wish("export_savepoint"))))
        assert running(a).wanted == "drain"


def test_what_is_withdrawn_while_it_is_handed_on_is_one_of_both(metadata, act, running):
    with act() as a:
        asked = operation_of(a, stop(a, running(a), Wish("drain")))
    problem = beside(metadata, lambda a: handed_on(a, asked.id), lambda a: withdraw(a, asked))
    assert problem.code == "REST-030"
    with act() as a:
        assert (running(a).wanted, operation_of(a, asked.id).status) == ("drain", "running")
