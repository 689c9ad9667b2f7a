import json

import pytest

from millstream.connectors.http.asking.actions import actions_of, decided, needs_window
from millstream.connectors.http.asking.rates import rates_of
from millstream.connectors.http.paging.pages import HttpAnswer

NOW = 1_700_000_000_000


def answer(status, document=None, headers=()):
    body = b"" if document is None else json.dumps(document).encode()
    return HttpAnswer(status, dict(headers), body)


def decision(given, rules=(), *, attempt=1, refreshed=False, **rate):
    return decided(actions_of(list(rules)), rates_of(rate), given, attempt=attempt, refreshed=refreshed, now=NOW)


@pytest.mark.parametrize(
    ("status", "action"),
    [
        ([200, 204], "success"),
        ([401], "refresh_token"),
        ([429], "rate_limited"),
        ([408, 425, 500, 503], "retry"),
        ([400, 403, 404, 304, 302], "fail"),
    ],
)
def test_what_is_usual(status, action):
    assert {decision(answer(each)).action for each in status} == {action}


def test_no_answer_is_tried_again():
    assert decision(None).action == "retry"
    last = decision(None, attempt=5)
    assert (last.action, last.kind) == ("fail", "external")
    assert last.why == "no answer came, 5 times"


def test_new_credentials_are_tried_once():
    refused = decision(answer(401), refreshed=True)
    assert (refused.action, refused.kind) == ("fail", "user")
    assert "with new credentials too" in refused.why


def test_waits_come_from_the_answer_or_grow():
    assert decision(answer(503, headers={"retry-after": "7"})).wait == 7000
    assert [decision(answer(503), attempt=each).wait for each in (1, 2, 3)] == [1000, 2000, 4000]
    assert decision(answer(429, headers={"retry-after": "0"})).wait == 100
    quota = {"remaining": "X-Left", "reset": "X-Reset"}
    assert decision(answer(429, headers={"x-left": "0", "x-reset": "3"}), **quota).wait == 3000


def test_being_too_fast_is_no_failure_however_often():
    assert decision(answer(429), attempt=99).action == "rate_limited"


RULES = [
    {"status": 404, "action": "ignore"},
    {"status": [500, 502], "path": "code", "equals": "START_OVER", "action": "reset"},
    {"status": 400, "path": "error.message", "contains": "WINDOW", "action": "split"},
    {"status": "4xx", "header": "X-Quota", "exists": True, "action": "rate_limited"},
    {
        "status": 200,
        "path": "error",
        "exists": True,
        "action": "fail",
        "kind": "external",
        "message": "the API is broken",
    },
    {"status": "connection", "action": "fail", "kind": "external"},
    {"path": "login", "equals": False, "action": "refresh_token"},
]


@pytest.mark.parametrize(
    ("given", "action"),
    [
        (answer(404), "ignore"),
        (answer(500, {"code": "START_OVER"}), "reset"),
        (answer(500, {"code": "OTHER"}), "retry"),
        (answer(500), "retry"),
        (answer(400, {"error": {"message": "result window is too large"}}), "split"),
        (answer(403, headers={"x-quota": "0"}), "rate_limited"),
        (answer(200, {"error": "x"}), "fail"),
        (answer(200, {"error": None}), "success"),
        (answer(200, {"login": False}), "refresh_token"),
        (answer(200, {"login": True}), "success"),
        (None, "fail"),
    ],
)
def test_the_first_rule_that_fits_decides(given, action):
    assert decision(given, RULES).action == action


def test_a_rule_says_who_has_to_mend_it_and_what_to_tell():
    failed = decision(answer(200, {"error": "x"}), RULES)
    assert (failed.kind, failed.why) == ("external", "the API is broken (the server answered 200)")
    assert decision(answer(418), [{"status": 418, "action": "fail"}]).kind == "user"


def test_a_rule_can_turn_a_failure_into_success():
    assert decision(answer(404, {"items": []}), [{"status": 404, "action": "success"}]).action == "success"


def test_which_actions_need_a_window():
    assert needs_window(actions_of([{"status": 400, "action": "split"}]))
    assert not needs_window(actions_of([{"status": 400, "action": "reset"}]))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"status": 404}, "a list of rules"),
        ([{"status": 404}], "rule 1 with 'action'"),
        ([{"status": 404, "action": "skip"}], "one of success, fail, retry"),
        ([{"status": 99, "action": "fail"}], "a number from 100 to 599"),
        ([{"status": "9xx", "action": "fail"}], "a number from 100 to 599"),
        ([{"action": "fail"}], "with a 'status' or a predicate"),
        ([{"status": 404, "equals": 1, "action": "fail"}], "with a 'path' or a 'header'"),
        ([{"status": 404, "action": "fail"}, {"status": 1}], "rule 2 with 'action'"),
        ([{"status": "connection", "action": "success"}], "another than 'success'"),
    ],
)
def test_what_is_wrong_with_a_rule_is_said(value, expected):
    with pytest.raises(ValueError) as refused:
        actions_of(value)
    assert expected in str(refused.value)
