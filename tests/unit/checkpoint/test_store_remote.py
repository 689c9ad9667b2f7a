"""Lost replies: a store over a service that forgets to answer still says exactly what happened."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.checkpoint.stores.remote import RemoteStore, Stored
from millstream.database import retry
from millstream.database.retry import Unanswered, attempts
from millstream.errors import ExternalFailure

LOST, DONE, LATE, FINE = "lost on the way", "reply lost", "arrives late", "answered"


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    """Time passes only where a store waits."""
    clock = itertools.accumulate(itertools.repeat(0.001))
    passed = [0.0]
    monkeypatch.setattr(retry.time, "monotonic", lambda: next(clock) + passed[0])
    monkeypatch.setattr(retry.time, "sleep", lambda seconds: passed.__setitem__(0, passed[0] + seconds))


class Forgetful(RemoteStore):
    """A service over a dict; `fates` says what becomes of each write, `meanwhile` what others do before the next look."""

    def __init__(self, fates=(), meanwhile=lambda objects: None):
        self.objects, self.writes = {}, []
        self._fates, self._meanwhile, self._late = iter(fates), meanwhile, []

    def calm(self):
        self._fates = iter(())

    def _insert(self, name, stored):
        return self._write(lambda: self._if(name not in self.objects, name, stored))

    def _replace(self, name, expected, stored):
        return self._write(
            lambda: self._if(name in self.objects and self.objects[name].content == expected, name, stored)
        )

    def _if(self, condition, name, stored):
        if condition:
            self.objects[name] = stored
            self.writes.append(stored.content)
        return condition

    def _write(self, action):
        fate = next(self._fates, FINE)
        if fate == LATE:
            self._late.append(action)
        result = action() if fate in {DONE, FINE} else None
        if fate == FINE:
            return result
        raise Unanswered(fate)

    def _look(self, name):
        self._meanwhile(self.objects)
        found = self.objects.get(name)
        while self._late:  # after the look: the worst moment
            self._late.pop()()
        return found

    def _failure(self, why):
        return ExternalFailure("service", code="CKPT-032", found=why)


@given(st.lists(st.sampled_from([LOST, DONE, LATE]), max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_create_happens_once_whatever_is_lost(fates):
    store = Forgetful(fates)
    assert store.create("m/1", b"one")
    assert store.writes == [b"one"]
    assert not store.create("m/1", b"one")


@given(st.lists(st.sampled_from([LOST, DONE, LATE]), max_size=5))
@settings(max_examples=60, deadline=None)
def test_a_swap_happens_once_whatever_is_lost(fates):
    store = Forgetful(fates)
    store.objects["lease"] = Stored(content=b"one", writer="other")
    assert store.swap("lease", b"one", b"two")
    assert store.writes == [b"two"]
    store.calm()
    assert not store.swap("lease", b"one", b"two")


def other(name, content):
    return lambda objects: objects.update({name: Stored(content=content, writer="other")})


def test_a_create_that_lost_to_equal_content_of_another_says_so():
    store = Forgetful([LOST], meanwhile=other("m/1", b"same"))
    assert not store.create("m/1", b"same")


def test_a_swap_that_was_answered_and_lost_says_so():
    store = Forgetful(meanwhile=other("lease", b"three"))
    store.objects["lease"] = Stored(content=b"zero", writer="x")
    assert not store.swap("lease", b"one", b"two")


@pytest.mark.parametrize("fate", [LOST, DONE])
def test_a_swap_whose_outcome_others_hid_is_an_error(fate):
    store = Forgetful([fate], meanwhile=other("lease", b"three"))
    store.objects["lease"] = Stored(content=b"one", writer="x")
    with pytest.raises(ExternalFailure, match="whether 'lease' was replaced is unknown") as failure:
        store.swap("lease", b"one", b"two")
    assert failure.value.code == "CKPT-032"


def test_a_service_that_stays_away_is_an_error_within_bounds():
    store = Forgetful(itertools.repeat(LOST))
    with pytest.raises(ExternalFailure, match=LOST):
        store.create("m/1", b"one")
    store.objects["lease"] = Stored(content=b"one", writer="x")
    with pytest.raises(ExternalFailure, match=LOST):
        store.swap("lease", b"one", b"two")
    assert store.writes == []


def test_attempts_end_with_patience():
    assert 5 <= len(list(attempts(5.0))) <= 15
    assert len(list(attempts(0.0))) == 1
