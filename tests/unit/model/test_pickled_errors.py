import copy
import pickle

import cloudpickle
import pytest

from millstream import errors
from millstream.api.jobfile.target import BadTarget
from millstream.errors import MillstreamError, StepFailed


def classes():
    found, waiting = [], [MillstreamError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting += kind.__subclasses__()
    return found


def test_the_tree_is_known():
    assert {kind.__name__ for kind in classes()} >= {
        name for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, MillstreamError)
    }
    assert BadTarget in classes()


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("through", [pickle, cloudpickle, None], ids=["pickle", "cloudpickle", "copy"])
def test_every_error_travels_with_all_fields(kind, through):
    problem = kind("broke", code="X-1", step="s", found=[1], known={"b", "a"}, hint="mend it")
    again = copy.copy(problem) if through is None else through.loads(through.dumps(problem))
    assert type(again) is kind
    assert again.fields() == problem.fields()
    assert str(again) == str(problem) == "[X-1] step 's': broke; found [1]; known: a, b; mend it"
    assert (again.domain, again.retry) == (problem.domain, problem.retry)


def test_plain_errors_keep_their_class_code():
    again = pickle.loads(pickle.dumps(StepFailed("x")))
    assert (again.code, again.step, again.found, str(again)) == ("RUN-001", None, None, "[RUN-001] x")
