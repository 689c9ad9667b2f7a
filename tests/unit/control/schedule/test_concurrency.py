"""How many runs at once."""

import pytest

from millstream.control.schedule.concurrency import admission, concurrency_named
from millstream.errors import InvalidStep


@pytest.mark.parametrize(
    ("policy", "busy", "waiting", "result", "slot", "cancels"),
    [
        ("skip", [], 0, "FIRED", 0, False),
        ("skip", [0], 0, "SKIPPED", None, False),
        ("skip", [1000, 1001], 0, "FIRED", 0, False),
        ("queue(2)", [], 0, "FIRED", 0, False),
        ("queue(2)", [0], 0, "QUEUED", None, False),
        ("queue(2)", [0], 1, "QUEUED", None, False),
        ("queue(2)", [0], 2, "SKIPPED", None, False),
        ("queue(2)", [], 1, "QUEUED", None, False),
        ("cancel_running", [], 0, "FIRED", 0, False),
        ("cancel_running", [0], 0, "QUEUED", None, True),
        ("cancel_running", [0], 1, "QUEUED", None, True),
        ("allow(3)", [0, 2], 0, "FIRED", 1, False),
        ("allow(3)", [0, 1, 2], 0, "SKIPPED", None, False),
        ("allow(3)", [], 5, "FIRED", 0, False),
    ],
)
def test_what_becomes_of_a_fire(policy, busy, waiting, result, slot, cancels):
    admitted = admission(concurrency_named(policy), busy, waiting)
    assert (admitted.result, admitted.slot, admitted.cancels) == (result, slot, cancels)
    assert (admitted.reason is None) == (result == "FIRED")


@pytest.mark.parametrize("text", ["", "queue", "queue(0)", "queue(101)", "allow(-1)", "skip(2)", "allow(2", "wait"])
def test_what_is_no_policy_is_refused(text):
    with pytest.raises(InvalidStep, match="CTL-206"):
        concurrency_named(text)
