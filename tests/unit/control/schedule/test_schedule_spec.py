"""What stands below `schedule:` is checked when it is saved."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.control.schedule.spec import schedule_spec, stored_spec
from millstream.errors import InvalidStep, MillstreamError

GOOD = [
    {"type": "cron", "cron": "0 2 * * *"},
    {
        "type": "cron",
        "cron": "0 2 * * *",
        "time_zone": "Europe/Berlin",
        "misfire": "all",
        "grace": "1d",
        "params": {"a": [1]},
    },
    {"type": "manual", "concurrency": "allow(3)", "enabled": False},
    {"type": "event", "event": {"file": "/data/in/*.csv", "poll": 5, "param": "path"}},
    {"type": "event", "event": {"webhook": "ready", "secret": "key"}},
    {"type": "event", "event": {"finished": "orders", "when": "failure"}},
    {"type": "dependency", "upstream": [{"job": "a"}, {"job": "b", "when": "end"}], "need": "any"},
    {"type": "dependency", "upstream": [{"job": "a"}], "match": "window", "window": "2h"},
]


@pytest.mark.parametrize("document", GOOD, ids=str)
def test_what_is_stored_reads_back_the_same(document):
    spec = schedule_spec(document)
    assert schedule_spec(stored_spec(spec)) == spec


@pytest.mark.parametrize(
    ("document", "code", "words"),
    [
        ({}, "CTL-204", "type"),
        ({"type": "often"}, "CTL-204", "often"),
        ({"type": "cron", "cron": "0 2 * * *", "zone": "UTC"}, "CTL-204", "zone"),
        ({"type": "cron", "cron": 5}, "CTL-204", "cron"),
        ({"type": "cron", "cron": "0 2 * * *", "misfire": "two"}, "CTL-204", "two"),
        ({"type": "cron"}, "CTL-205", "cron"),
        ({"type": "cron", "cron": "0 25 * * *"}, "CTL-201", "hour"),
        ({"type": "cron", "cron": "0 2 * * *", "time_zone": "Mars"}, "CTL-203", "Mars"),
        ({"type": "cron", "cron": "0 2 * * *", "grace": "2000d"}, "CTL-205", "grace"),
        ({"type": "cron", "cron": "0 2 * * *", "grace": -1}, "CTL-205", "grace"),
        ({"type": "cron", "cron": "0 2 * * *", "grace": "soon"}, "STEP-004", "grace"),
        ({"type": "cron", "cron": "0 2 * * *", "concurrency": "many"}, "CTL-206", "many"),
        ({"type": "cron", "cron": "0 2 * * *", "upstream": [{"job": "a"}]}, "CTL-205", "upstream"),
        ({"type": "manual", "cron": "0 2 * * *"}, "CTL-205", "cron"),
        ({"type": "manual", "params": {"a": "x" * 20_000}}, "CTL-205", "params"),
        ({"type": "event"}, "CTL-205", "exactly one"),
        ({"type": "event", "event": {"file": "/a", "finished": "b"}}, "CTL-205", "exactly one"),
        ({"type": "event", "event": {"file": "in/*.csv"}}, "CTL-205", "absolute"),
        ({"type": "event", "event": {"file": "/in/../etc/*"}}, "CTL-205", "event.file"),
        ({"type": "event", "event": {"file": "/**"}}, "CTL-205", "event.file"),
        ({"type": "event", "event": {"file": "/in/*", "poll": 0}}, "CTL-205", "event.poll"),
        ({"type": "event", "event": {"webhook": "a/b", "secret": "k"}}, "CTL-205", "event.webhook"),
        ({"type": "event", "event": {"webhook": "ready"}}, "CTL-205", "event.secret"),
        ({"type": "event", "event": {"finished": "a", "secret": "k"}}, "CTL-205", "event.secret"),
        ({"type": "dependency"}, "CTL-205", "upstream"),
        ({"type": "dependency", "upstream": [{"job": "a"}, {"job": "a"}]}, "CTL-205", "every job once"),
        ({"type": "dependency", "upstream": [{"job": "a"}], "window": 0}, "CTL-205", "window"),
        ({"type": "dependency", "upstream": [{"job": "a", True: "end"}]}, "CTL-204", "upstream"),
    ],
    ids=str,
)
def test_an_error_names_what_is_wrong(document, code, words):
    with pytest.raises(InvalidStep) as refused:
        schedule_spec(document)
    assert refused.value.code == code
    assert words in str(refused.value)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=20), st.lists(st.text(max_size=3), max_size=2)
)
FIELDS = st.sampled_from(
    ["type", "cron", "time_zone", "misfire", "grace", "concurrency", "params", "event", "upstream", "window"]
)


@given(st.sampled_from(GOOD), FIELDS, VALUES)
def test_whatever_is_written_is_taken_or_refused(document, field, value):
    try:
        schedule_spec({**document, field: value})
    except MillstreamError as refused:
        assert refused.domain == "user"
