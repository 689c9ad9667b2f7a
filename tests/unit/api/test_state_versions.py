"""Declared states: their types must be storable, their versions count from 1, their migrations are plain functions."""

import dataclasses
import functools

import pytest

import millstream as ms
from millstream.errors import InvalidStep


@dataclasses.dataclass
class Total:
    amount: int


class Unknown:
    pass


def upgrade(content, version):
    return content


def no_version(content):
    return content


STATES = {
    "value": functools.partial(ms.ValueState, Total),
    "list": functools.partial(ms.ListState, Total),
    "map": functools.partial(ms.MapState, str, Total),
}


def described(state):
    function = type("Function", (ms.ProcessFunction,), {"state": state})
    state.__set_name__(function, "state")
    return state.describe()


@pytest.mark.parametrize("make", STATES.values(), ids=STATES)
def test_a_state_carries_version_and_migration(make):
    found = described(make(version=2, migrate=upgrade))
    assert found.version == 2
    assert found.migrate.target is upgrade
    assert found.migrate.name.endswith("test_state_versions:upgrade")


@pytest.mark.parametrize("make", STATES.values(), ids=STATES)
def test_without_them_it_is_version_one(make):
    assert (described(make()).version, described(make()).migrate) == (1, None)


@pytest.mark.parametrize("version", [0, -1, True, "2", 1.5])
def test_versions_count_from_one(version):
    with pytest.raises(InvalidStep) as caught:
        ms.ValueState(int, version=version)
    assert caught.value.code == "STATE-004"


def nested():
    def inner(content, version):
        return content

    return inner


@pytest.mark.parametrize("migrate", [lambda content, version: content, nested(), no_version, "text", 5, Total(1)])
def test_a_migration_is_a_function_at_the_top_of_a_module(migrate):
    with pytest.raises(InvalidStep) as caught:
        ms.ValueState(int, migrate=migrate)
    assert caught.value.code == "STATE-005"


@pytest.mark.parametrize("type_", [Unknown, complex, list[Unknown], dict[str, complex], object], ids=str)
def test_a_type_that_cannot_be_stored_is_refused_when_the_step_is_built(type_):
    class Keeps(ms.ProcessFunction):
        state = ms.ValueState(type_)

        def process(self, row, ctx):
            yield row

    stream = ms.Job("job").source("in", ms.memory([]), schema="k string")
    with pytest.raises(InvalidStep, match="state 'state'") as caught:
        stream.key_by("k").process(Keeps, schema="k string")
    assert caught.value.code == "STATE-003"


def fingerprint(state):
    function = type("Function", (ms.ProcessFunction,), {"state": state, "process": lambda self, row, ctx: [row]})
    job = ms.Job("job")
    stream = job.source("in", ms.memory([]), schema="k string")
    stream.key_by("k").process(function, schema="k string", id="p").sink("out", ms.collect("o"))
    return job.compile().partitioned.fingerprint.steps["p"]


@dataclasses.dataclass
class Sum:
    """The same fields under another name."""

    amount: int


@dataclasses.dataclass
class Priced:
    amount: int
    currency: str = "EUR"


def test_the_fingerprint_holds_fields_and_versions_but_no_names():
    plain = fingerprint(ms.ValueState(Total))
    assert fingerprint(ms.ValueState(Sum)) == plain
    assert fingerprint(ms.ValueState(Total, migrate=upgrade)) == plain
    assert fingerprint(ms.ValueState(Priced)) != plain
    assert fingerprint(ms.ValueState(Total, version=2)) != plain
