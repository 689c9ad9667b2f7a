"""Attempts of one run are alike: version, settings and parameters are those that it was started with; secrets are fresh."""

import pytest
from sqlalchemy import update
from tests.unit.control.conftest import submission
from tests.unit.control.test_node import Machine

from millstream.control.dispatcher.definitions import job_of, new_version
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.tables.jobs import job_version
from millstream.control.metadata.tables.runs import execution
from millstream.control.secrets.config import ConfigEntry, set_setting
from millstream.control.secrets.key_ring import KeyRing


@pytest.fixture
def machine(metadata, clock):
    return Machine(metadata, clock)


@pytest.fixture
def configure(act, tmp_path):
    """Set a setting or a parameter of `orders`."""

    def configured(key, value, kind):
        with act() as a:
            job_id = job_of(a, "orders").id
            entry = ConfigEntry(config_key=key, config_value=value, config_type=kind, is_sensitive=False)
            set_setting(a.connection, KeyRing(tmp_path / "keys.json"), job_id, entry)

    return configured


def told(machine, run, token):
    spec = machine.drivers.drivers[run, token].spec
    return spec.version, spec.config, spec.params


def test_attempts_of_a_run_are_alike_and_the_next_run_is_new(machine, act, job, configure):
    configure("checkpoint.interval", "10s", "STRING")
    configure("day", 1, "INT")
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
    machine.round()
    configure("checkpoint.interval", "20s", "STRING")
    configure("day", 2, "INT")
    with act() as a:
        new_version(a, "orders", submission(description="another version"), expected=None)
    machine.drivers[run].runs()
    machine.drivers[run].is_alive = False
    machine.round()
    machine.forward(10)
    machine.round()
    first = (1, {"checkpoint.interval": "10s"}, {"day": 1})
    assert [told(machine, run, token) for token in (1, 2)] == [first, first]
    with act() as a:
        stop(a, run_of(a, run), Wish("cancel"))
    machine.drivers[run].ends("CANCELLED")
    machine.round()
    with act() as a:
        newer = start(a, "orders", StartOptions()).execution_id
        version = job_of(a, "orders").version
    machine.round()
    assert told(machine, newer, 3) == (version, {"checkpoint.interval": "20s"}, {"day": 2})


def test_secrets_are_those_of_the_moment(machine, act, job):
    """A password that was changed is what the next attempt needs."""
    values = {"pw": "old"}
    machine.node._table._secrets = lambda _job, names: {name: values[name] for name in names}
    with act() as a:
        a.connection.execute(update(job_version).values(plan={"secrets": ["pw"]}))
        run = start(a, "orders", StartOptions()).execution_id
    machine.round()
    values["pw"] = "new"
    machine.drivers[run].is_alive = False
    machine.round()
    machine.forward(10)
    machine.round()
    sent = [[each for each in machine.drivers.drivers[run, token].asked if each[0] == "secrets"] for token in (1, 2)]
    assert sent == [[("secrets", {"pw": "old"})], [("secrets", {"pw": "new"})]]


def test_runs_of_before_read_the_settings_again(machine, act, job, configure):
    configure("day", 1, "INT")
    with act() as a:
        run = start(a, "orders", StartOptions()).execution_id
        a.connection.execute(update(execution).values(config=None))
    machine.round()
    assert told(machine, run, 1)[2] == {"day": 1}
