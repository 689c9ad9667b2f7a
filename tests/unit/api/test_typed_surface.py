"""What users call says what it takes and returns, and refuses what it does not know."""

import importlib.resources
import inspect
import typing
from typing import Any

import pytest

import millstream as ms
from millstream.errors import InvalidCall
from millstream.testing import run_job

RETURNING = [ms.Job.run, ms.Job.start, run_job]
RETURNING += [member for name, member in vars(ms.RunningJob).items() if not name.startswith("_")]


def function_of(member):
    return member.fget if isinstance(member, property) else member


@pytest.mark.parametrize("member", RETURNING, ids=lambda each: function_of(each).__qualname__)
def test_results_are_typed_and_options_are_named(member):
    function = inspect.unwrap(function_of(member))
    returned = typing.get_type_hints(function)["return"]
    assert Any not in (returned, *typing.get_args(returned))
    assert not [p for p in inspect.signature(function).parameters.values() if p.kind is p.VAR_KEYWORD]


def test_the_package_says_that_it_is_typed():
    assert (importlib.resources.files(ms) / "py.typed").is_file()


def job():
    made = ms.Job("typed")
    made.source("rows", ms.memory([]), schema="a long").sink("out", ms.collect("typed"))
    return made


@pytest.mark.parametrize("call", [lambda: job().run(maser="local[2]"), lambda: job().start(maser="local[2]")])
def test_an_unknown_keyword_is_named_with_those_that_are_known(call):
    with pytest.raises(InvalidCall) as caught:
        call()
    error = caught.value
    assert error.code == "PLAN-060"
    assert "unexpected keyword argument 'maser'" in error.message
    assert {"local", "checkpoint", "master", "confs"} <= set(error.known.split(", "))
    assert error.hint == "did you mean master=?"


def test_a_missing_argument_is_named():
    with pytest.raises(InvalidCall, match="missing 1 required positional argument: 'column'") as caught:
        job().source("more", ms.memory([]), schema="a long").event_time()
    assert caught.value.known.startswith("column, ")
    with pytest.raises(TypeError):
        ms.tumbling()


def test_a_type_error_inside_a_call_stays_what_it_is():
    rows = ms.Job("inner").source("rows", ms.memory([]), schema="a long")
    with pytest.raises(TypeError, match="unhashable") as caught:
        rows.side_output([])
    assert not isinstance(caught.value, InvalidCall)


PRIVATE = {"add", "add_sink", "add_dead_letter", "free_id", "node", "stream", "keyed_stream", "connected"}
PRIVATE |= {"all_or_nothing", "from_model", "as_input", "label", "pair", "then"}


@pytest.mark.parametrize("kind", [ms.Job, ms.DataStream, ms.KeyedStream], ids=lambda kind: kind.__name__)
def test_what_the_package_uses_itself_is_private(kind):
    assert PRIVATE & set(dir(kind)) == set()
