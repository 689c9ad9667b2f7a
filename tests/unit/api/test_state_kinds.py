"""Reducing and aggregating state: what their functions must be and what is refused."""

import pytest

import millstream as ms
from millstream.errors import InvalidStep, StepFailed
from millstream.testing import run_job


class Cell:
    """Content of one key."""

    content = None

    def load(self):
        return self.content

    def store(self, content):
        self.content = content


def bound(state):
    state.__set_name__(ms.ProcessFunction, "held")
    cell = Cell()
    return state.bound_to(cell), cell


def test_the_first_value_stands_for_itself():
    state, cell = bound(ms.ReducingState(int, max))
    assert state.get() is None
    for value in (3, 9, 4):
        state.add(value)
    assert (state.get(), cell.content) == (9, 9)
    state.clear()
    assert state.get() is None


def test_an_accumulator_is_created_added_to_and_read():
    state, cell = bound(ms.AggregatingState(set[int], create=set, add=lambda held, n: held | {n}, result=len))
    assert state.get() is None
    for value in (3, 9, 3):
        state.add(value)
    assert (state.get(), cell.content) == (2, {3, 9})


def test_without_a_result_the_accumulator_is_read():
    state, _ = bound(ms.AggregatingState(int, create=int, add=int.__add__))
    state.add(5)
    assert state.get() == 5


@pytest.mark.parametrize(
    "declare",
    [
        lambda: ms.ReducingState(int, lambda one: one),
        lambda: ms.ReducingState(int, "max"),
        lambda: ms.AggregatingState(int, create=lambda start: start, add=int.__add__),
        lambda: ms.AggregatingState(int, create=int, add=lambda: 0),
        lambda: ms.AggregatingState(int, create=int, add=int.__add__, result=lambda: 0),
    ],
)
def test_functions_that_cannot_be_called_so_are_refused(declare):
    with pytest.raises(InvalidStep) as caught:
        declare()
    assert caught.value.code == "STATE-008"


def test_a_function_that_returns_nothing_does_not_remove_the_state():
    state, cell = bound(ms.AggregatingState(list[int], create=list, add=list.append))
    cell.content = [1]
    with pytest.raises(StepFailed) as caught:
        state.add(2)
    assert caught.value.code == "STATE-009"
    assert cell.content == [1, 2]


class Wrong(ms.ProcessFunction):
    total = ms.ReducingState(int, lambda one, other: f"{one}{other}")

    def process(self, row, ctx):
        self.total.add(row["n"])


def test_what_the_function_makes_must_be_of_the_type():
    job = ms.Job("wrong")
    rows = job.source("in", ms.memory([{"k": "a", "n": 1}, {"k": "a", "n": 2}]), schema="k string, n long")
    rows.key_by("k").process(Wrong, schema="k string", id="p").sink("out", ms.collect("x"))
    with pytest.raises(ms.MillstreamError) as caught:
        run_job(job)
    assert caught.value.code == "STATE-002"


def test_the_plan_names_the_kind():
    job = ms.Job("plan")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    rows.key_by("k").process(Wrong, schema="k string", id="p").sink("out", ms.collect("x"))
    assert "total: reducing of int" in job.explain("stream")
