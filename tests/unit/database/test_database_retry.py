"""The loop that outlives a restart: what is asked again, how often, and what is raised in the end."""

import pytest

from millstream.database import retry
from millstream.database.retry import attempts, repeated


class Away(Exception):
    """Passes."""


class Wrong(Exception):
    """Does not."""


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    """Time passes only where the loop waits; the pauses it made."""
    made = []
    monkeypatch.setattr(retry.time, "monotonic", lambda: sum(made))
    monkeypatch.setattr(retry.time, "sleep", made.append)
    return made


def calls(*outcomes):
    """A call with these outcomes, one after the other, the last again and again; and how often it was made."""
    made = []

    def call():
        outcome = outcomes[min(len(made), len(outcomes) - 1)]
        made.append(outcome)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return call, made


def is_away(problem):
    return isinstance(problem, Away)


def test_what_succeeds_is_called_once(pauses):
    call, made = calls("good")
    assert repeated(call, passes=is_away, patience=20) == "good"
    assert (len(made), pauses) == (1, [])


def test_what_passes_is_called_again(pauses):
    call, made = calls(Away(), Away(), Away(), "good")
    assert repeated(call, passes=is_away, patience=20) == "good"
    assert (len(made), pauses) == (4, [0.05, 0.1, 0.2])


def test_what_does_not_pass_is_raised_at_once(pauses):
    call, made = calls(Wrong("this"), "good")
    with pytest.raises(Wrong, match="this"):
        repeated(call, passes=is_away, patience=20)
    assert (len(made), pauses) == (1, [])


def test_what_does_not_pass_ends_the_waiting(pauses):
    call, made = calls(Away(), Away(), Wrong(), "good")
    with pytest.raises(Wrong):
        repeated(call, passes=is_away, patience=20)
    assert len(made) == 3


def test_the_last_error_is_raised_when_patience_ends(pauses):
    problems = [Away(str(number)) for number in range(100)]
    call, made = calls(*problems)
    with pytest.raises(Away) as raised:
        repeated(call, passes=is_away, patience=20)
    assert raised.value is made[-1]
    assert 19 < sum(pauses) <= 20
    assert max(pauses) == 1


def test_without_patience_there_is_one_attempt(pauses):
    call, made = calls(Away())
    with pytest.raises(Away):
        repeated(call, passes=is_away, patience=0)
    assert (len(made), list(attempts(0))) == (1, [0])


def test_an_interruption_is_never_waited_out(pauses):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        repeated(interrupted, passes=lambda _: True, patience=20)
    assert pauses == []
