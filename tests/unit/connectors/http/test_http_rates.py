import email.utils

import pytest

from millstream.connectors.http.asking.rates import asked_wait, backoff, quota_wait, rates_of, taken

NOW = 1_700_000_000_000


def waits(rules, *instants):
    bucket, found = None, []
    for instant in instants:
        bucket, wait = taken(rules, bucket, NOW + instant)
        found.append(wait)
    return found


def test_without_a_limit_nobody_waits():
    assert waits(rates_of({}), 0, 0, 0) == [0, 0, 0]


def test_a_full_bucket_serves_a_burst_and_then_the_pace():
    rules = rates_of({"requests": 2, "per": "1s"})
    assert waits(rules, 0, 0, 0, 0) == [0, 0, 500, 1000]
    assert waits(rules, 0, 0, 1000, 1000, 1000) == [0, 0, 0, 0, 500]
    assert waits(rules, 0, 60_000, 60_000, 60_000) == [0, 0, 0, 500]


def test_a_burst_may_be_smaller_than_the_pace():
    assert waits(rates_of({"requests": 10, "per": "1s", "burst": 1}), 0, 0, 0) == [0, 100, 200]


def test_a_clock_that_goes_back_gives_nothing():
    assert waits(rates_of({"requests": 1, "per": "1s"}), 0, -5000, -5000) == [0, 1000, 2000]


@pytest.mark.parametrize(
    ("said", "wait"),
    [
        ("7", 7000),
        (" 0.5 ", 500),
        ("0", 0),
        ("-3", 0),
        (email.utils.formatdate(NOW / 1000 + 90, usegmt=True), 90_000),
        (email.utils.formatdate(NOW / 1000 - 90, usegmt=True), 0),
        ("Wed, 15 Nov 2023 01:00:00 -0000", 10_000_000),
        ("soon", None),
        ("", None),
        ("nan", None),
        ("inf", None),
    ],
)
def test_retry_after_in_seconds_and_as_a_date(said, wait):
    assert asked_wait(rates_of({}), {"retry-after": said}, NOW) == wait


def test_retry_after_may_have_another_name():
    assert asked_wait(rates_of({"retry_after": "X-Wait"}), {"x-wait": "2"}, NOW) == 2000


@pytest.mark.parametrize(
    ("unit", "reset", "wait"),
    [
        ("auto", "30", 30_000),
        ("auto", "1700000030", 30_000),
        ("auto", "1700000030000", 30_000),
        ("seconds", "30", 30_000),
        ("at", "1700000030", 30_000),
        ("at_ms", "1700000030000", 30_000),
        ("auto", "1600000000", 0),
        ("auto", "tomorrow", None),
    ],
)
def test_a_quota_that_is_used_up(unit, reset, wait):
    rules = rates_of({"remaining": "X-Left", "reset": "X-Reset", "reset_unit": unit})
    assert quota_wait(rules, {"x-left": "0", "x-reset": reset}, NOW) == wait
    assert quota_wait(rules, {"x-left": "1", "x-reset": reset}, NOW) is None
    assert quota_wait(rules, {"x-reset": reset}, NOW) is None
    assert asked_wait(rules, {"x-left": "0", "x-reset": reset}, NOW) == wait


def test_waits_grow_up_to_the_longest():
    rules = rates_of({"backoff": "1s", "max_backoff": "10s"})
    assert [backoff(rules, attempt) for attempt in (1, 2, 3, 4, 5, 100)] == [1000, 2000, 4000, 8000, 10_000, 10_000]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"burst": 3}, "'burst' comes with 'requests'"),
        ({"remaining": "X"}, "both 'remaining' and 'reset'"),
        ({"requests": 0}, "a number above zero"),
        ({"per": "often"}, "a duration such as '1m'"),
        ({"concurrency": 0}, "a number above zero"),
        ({"speed": 3}, "without 'speed'"),
        ([], "as a mapping"),
    ],
)
def test_what_is_wrong_with_rates_is_said(value, expected):
    with pytest.raises(ValueError) as refused:
        rates_of(value)
    assert expected in str(refused.value)
