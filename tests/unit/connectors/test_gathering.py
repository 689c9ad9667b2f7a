"""A source with an end waits a moment for more rows, and not longer."""

import pytest

from millstream.connectors.gathering import GatheringPause


@pytest.fixture
def clock():
    return {"now": 100.0}


@pytest.fixture
def gathering(clock):
    return GatheringPause(lambda: clock["now"])


def test_enough_is_taken_at_once(gathering):
    assert not gathering.goes_on(is_enough=True)


def test_less_waits_for_a_second_at_most(gathering, clock):
    answers = []
    for moment in (100.0, 100.5, 100.99, 101.0):
        clock["now"] = moment
        answers.append(gathering.goes_on(is_enough=False))
    assert answers == [True, True, True, False]


def test_each_epoch_has_a_second_of_its_own(gathering, clock):
    assert gathering.goes_on(is_enough=False)
    clock["now"] = 100.9
    assert not gathering.goes_on(is_enough=True)
    clock["now"] = 101.5
    assert gathering.goes_on(is_enough=False)
    clock["now"] = 102.4
    assert gathering.goes_on(is_enough=False)
    clock["now"] = 102.5
    assert not gathering.goes_on(is_enough=False)
