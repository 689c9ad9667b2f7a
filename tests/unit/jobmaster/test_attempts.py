"""How often a job is started again, and when not."""

import pytest

from millstream.api.running.control import RunControl
from millstream.api.running.result import RunResult
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced, StepFailed
from millstream.jobmaster import attempts as attempts_module
from millstream.jobmaster.attempts import run_tolerant


class Script:
    """Attempts as told: each is the epochs it publishes, then the error it ends with."""

    def __init__(self, *script):
        self._script, self.result, self.attempts = list(script), None, 0
        self.control = RunControl()

    def once(self, result):
        self.attempts += 1
        assert result is self.result
        epochs, problem = self._script.pop(0)
        if epochs is not None:
            self.result = self.result or RunResult(job="j", checkpoint=None)
            self.result.epochs += epochs
        if problem is not None:
            raise problem
        return self.result

    def run(self, tolerated):
        return run_tolerant(self.once, tolerated, self, self.control)


AWAY = ExternalFailure("the store is away")


@pytest.fixture(autouse=True)
def pauses(monkeypatch):
    found = []
    monkeypatch.setattr(attempts_module.time, "sleep", found.append)
    return found


def test_a_run_that_ends_well_runs_once(pauses):
    script = Script((3, None))
    assert script.run(5).epochs == 3
    assert (script.attempts, pauses) == (1, [])


def test_failures_in_a_row_are_got_over_with_growing_pauses(pauses):
    script = Script((0, AWAY), (0, AWAY), (0, AWAY), (2, None))
    result = script.run(3)
    assert (result.epochs, result.failures, script.attempts) == (2, 3, 4)
    assert pauses == [0.2, 0.4, 0.8]


def test_pauses_have_an_end(pauses):
    Script(*[(0, AWAY)] * 12, (1, None)).run(12)
    assert max(pauses) == pauses[-1] == 10.0


def test_one_failure_too_many_ends_it():
    script = Script((0, AWAY), (0, AWAY), (0, AWAY))
    with pytest.raises(ExternalFailure, match="away"):
        script.run(2)
    assert script.attempts == 3


def test_none_is_tolerated_by_default():
    script = Script((4, AWAY))
    with pytest.raises(ExternalFailure):
        script.run(0)
    assert script.attempts == 1


def test_a_published_epoch_starts_the_count_anew(pauses):
    script = Script(*[(1, AWAY)] * 6, (1, None))
    result = script.run(1)
    assert (result.epochs, result.failures) == (7, 6)
    assert pauses == [0.2] * 6


@pytest.mark.parametrize("problem", [Fenced("x"), CheckpointRefused("x"), StepFailed("x")])
def test_what_will_not_pass_is_not_tried_again(problem):
    script = Script((0, problem), (0, None))
    with pytest.raises(type(problem)):
        script.run(9)
    assert script.attempts == 1


def test_an_error_that_is_not_ours_is_not_tried_again():
    script = Script((0, ZeroDivisionError()), (0, None))
    with pytest.raises(ZeroDivisionError):
        script.run(9)


def test_a_first_attempt_that_never_started_is_not_tried_again():
    script = Script((None, AWAY), (0, None))
    with pytest.raises(ExternalFailure):
        script.run(9)
    assert script.attempts == 1


@pytest.mark.parametrize("wish", [{"action": "cancel"}, {"action": "drain", "otherwise": "cancel"}])
def test_a_run_that_was_told_to_end_is_not_started_again(wish):
    script = Script((0, AWAY), (2, None))
    script.control.ask(**wish)
    with pytest.raises(ExternalFailure):
        script.run(5)
    assert script.attempts == 1
