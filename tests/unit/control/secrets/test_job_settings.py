"""Settings of jobs: each value has its type, means something, and is shown without what is secret in it."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import select

from millstream.control.metadata.tables.jobs import CONFIG_TYPES as STORED_TYPES
from millstream.control.metadata.tables.jobs import job_config
from millstream.control.refusals import UnknownName
from millstream.control.secrets.config import (
    ConfigEntry,
    delete_setting,
    own_secrets,
    read_config,
    set_setting,
    shown_settings,
)
from millstream.control.secrets.config_values import CONFIG_TYPES, config_type, shown_value, stored_text, typed_value
from millstream.errors import MillstreamError

CANARY = "canary-9a3e"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=10,
)


def entry(key, value, kind="STRING", *, is_sensitive=False):
    return ConfigEntry(key, value, kind, is_sensitive)


def test_the_types_are_those_of_the_table():
    assert CONFIG_TYPES == STORED_TYPES


@given(TEXT)
def test_any_text_is_a_string(text):
    assert typed_value("k", "STRING", text) == text == stored_text("STRING", text)


@given(st.integers(-(2**63), 2**63 - 1))
def test_every_number_of_64_bits_is_an_int(number):
    assert typed_value("k", "INT", number) == number
    for text in (str(number), f" {number} ", stored_text("INT", number)):
        assert typed_value("k", "INT", text) == number


@given(st.integers().filter(lambda number: not -(2**63) <= number < 2**63) | st.floats() | st.booleans() | st.none())
def test_nothing_else_is_an_int(value):
    for given_value in (value, str(value)):
        with pytest.raises(MillstreamError, match="CTL-311"):
            typed_value("k", "INT", given_value)


@given(JSON)
def test_json_comes_back(value):
    once = typed_value("k", "JSON", json.dumps(value))
    assert once == value
    text = stored_text("JSON", once)
    assert typed_value("k", "JSON", text) == value
    assert stored_text("JSON", typed_value("k", "JSON", text)) == text


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("False", False), (" TRUE ", True), (True, True), (False, False)]
)
def test_booleans(text, expected):
    assert typed_value("k", "BOOLEAN", text) is expected
    assert typed_value("k", "BOOLEAN", stored_text("BOOLEAN", expected)) is expected


def deep(levels):
    return "[" * levels + "]" * levels


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        *(
            ("INT", value)
            for value in ("", "1.0", "1e3", "0x10", "1_000", "٣", "one", "--1", "1 2", "9" * 5000, [1], b"1")
        ),
        *(("BOOLEAN", value) for value in ("", "1", "yes", "on", "nope", 1, 0, None, "truetrue")),
        *(
            ("JSON", value)
            for value in ("", "{", "{'a': 1}", "NaN", "[Infinity]", '{"a":1,"a":2}', "nul", '"\\ud8"', deep(40))
        ),
        *(("JSON", value) for value in (deep(100_000), {1: 2}, {"a": {2}}, math.inf, object(), (1,), "1 2", "[1,]")),
        *(("STRING", value) for value in (1, None, True, ["a"], b"a")),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises(MillstreamError, match=rf"CTL-311.*'k' is no {kind}"):
        typed_value("k", kind, value)


@pytest.mark.parametrize("kind", ["INT", "BOOLEAN", "JSON"])
def test_a_wrong_value_that_is_secret_is_not_shown(ring, kind):
    for given_entry in (entry("PIN", CANARY, kind, is_sensitive=True), entry("api_key", CANARY, kind)):
        with pytest.raises(MillstreamError, match="CTL-311") as refused:
            set_setting(None, ring, 1, given_entry)
        assert CANARY not in str(refused.value)


@pytest.mark.parametrize("kind", ["string", "", "FLOAT", None, 3])
def test_an_unknown_type_is_refused(kind):
    with pytest.raises(MillstreamError, match=r"CTL-311.*STRING"):
        config_type(kind)


SETTINGS = [
    entry("checkpoint.interval", "5000", "INT"),
    entry("checkpoint.retention", 20, "INT"),
    entry("backpressure.strategy", "CREDIT_BASED"),
    entry("source.batch.size", "500", "INT"),
    entry("sink.batch.size", "100", "INT"),
]


def test_settings_parameters_and_secrets_are_kept_apart(metadata, ring):
    mine = [
        entry("region", "eu"),
        entry("limit", "10", "INT"),
        entry("dry_run", "TRUE", "BOOLEAN"),
        entry("filters", '{"b": [1, 2], "a": null}', "JSON"),
        entry("DB_PASSWORD", CANARY, is_sensitive=True),
    ]
    with metadata.begin() as connection:
        for each in (*SETTINGS, *mine, entry("region", "us")):
            set_setting(connection, ring, 1, each)
        set_setting(connection, ring, 2, entry("region", "of another job"))
        config = read_config(connection, 1)
        own = own_secrets(connection, ring, 1, ["DB_PASSWORD", "region"])
        stored = {row.config_key: row for row in connection.execute(select(job_config).where(job_config.c.job_id == 1))}
    assert config.settings == {
        "checkpoint.interval": 5000,
        "checkpoint.retention": 20,
        "backpressure.strategy": "CREDIT_BASED",
        "source.batch.size": 500,
        "sink.batch.size": 100,
    }
    assert config.params == {"region": "us", "limit": 10, "dry_run": True, "filters": {"a": None, "b": [1, 2]}}
    assert own == {"DB_PASSWORD": CANARY}
    assert stored["DB_PASSWORD"].key_id == ring.newest.id
    assert stored["region"].key_id is None
    assert CANARY not in stored["DB_PASSWORD"].config_value


def test_a_setting_that_becomes_sensitive_leaves_nothing_in_clear(metadata, ring):
    with metadata.begin() as connection:
        set_setting(connection, ring, 1, entry("DB_PASSWORD", CANARY))
        set_setting(connection, ring, 1, entry("DB_PASSWORD", CANARY, is_sensitive=True))
        row = connection.execute(select(job_config)).one()
        assert CANARY not in repr(row)
        set_setting(connection, ring, 1, entry("DB_PASSWORD", "plain"))
        assert connection.execute(select(job_config)).one().key_id is None


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (entry("checkpoint.interva", "5", "INT"), "CTL-310"),
        (entry("db.password", CANARY, is_sensitive=True), "CTL-310"),
        (entry("spark.jars", "evil.jar"), "CTL-310"),
        (entry(".", "x"), "CTL-310"),
        (entry("checkpoint.interval", "-1", "INT"), "CTL-312"),
        (entry("checkpoint.interval", "soon"), "CTL-312"),
        (entry("checkpoint.interval", "true", "BOOLEAN"), "CTL-312"),
        (entry("checkpoint.retention", "0", "INT"), "CTL-312"),
        (entry("checkpoint.retention", "10"), "CTL-312"),
        (entry("backpressure.strategy", "HOPE"), "CTL-312"),
        (entry("backpressure.strategy", '["drop"]', "JSON"), "CTL-312"),
        (entry("source.batch.size", str(2**31), "INT"), "CTL-312"),
        (entry("sink.batch.size", "1.5"), "CTL-312"),
        (entry("sink.batch.size", "5", "INT", is_sensitive=True), "CTL-313"),
        (entry("", "x"), "CTL-304"),
        (entry("a b", "x"), "CTL-304"),
        (entry(None, "x"), "CTL-304"),
        (entry("x" * 129, "x"), "CTL-304"),
        (entry("region", "a\0b"), "CTL-305"),
        (entry("region", "\ud800"), "CTL-305"),
        (entry("region", "x" * 70_000), "CTL-305"),
        (entry("PW", "", is_sensitive=True), "CTL-305"),
    ],
)
def test_what_means_nothing_is_refused(ring, wrong, code):
    with pytest.raises(MillstreamError, match=code) as refused:
        set_setting(None, ring, 1, wrong)
    assert refused.value.hint
    assert CANARY not in str(refused.value)


def test_an_empty_parameter_is_kept(metadata, ring):
    with metadata.begin() as connection:
        set_setting(connection, ring, 1, entry("suffix", ""))
        assert read_config(connection, 1).params == {"suffix": ""}


def test_a_setting_is_deleted(metadata, ring):
    with metadata.begin() as connection:
        set_setting(connection, ring, 1, entry("region", "eu"))
        with pytest.raises(UnknownName, match=r"CTL-315.*region"):
            delete_setting(connection, 1, "regio")
        with pytest.raises(UnknownName, match="CTL-315"):
            delete_setting(connection, 2, "region")
        delete_setting(connection, 1, "region")
        assert shown_settings(connection, 1) == []


@pytest.mark.parametrize(
    "key", ["password", "DB_PASS", "api_key", "Token", "client_secret", "CREDENTIALS", "monkey", "passphrase"]
)
def test_a_value_whose_name_is_like_that_of_a_secret_is_masked(key):
    assert shown_value(key, "STRING", CANARY, is_sensitive=False) == "***"
    assert shown_value(key, "INT", "5", is_sensitive=False) == "***"
    assert shown_value(key, "STRING", "${secret:PG}", is_sensitive=False) == "${secret:PG}"
    assert CANARY not in shown_value(key, "JSON", json.dumps({"a": [CANARY]}), is_sensitive=False)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("eu", "eu"),
        (f"postgresql://app:{CANARY}@db/shop", "postgresql://app:***@db/shop"),
        (f"https://{CANARY}@git.example.org/x", "https://***@git.example.org/x"),
        ("postgresql://app:${secret:PG}@db/shop", "postgresql://app:${secret:PG}@db/shop"),
        (f"amqp://a:{CANARY}/@x@h/v", "amqp://a:***@h/v"),
        ("https://example.org/a@b?x=1", "https://example.org/a@b?x=1"),
        (f"host=db password={CANARY}", "host=db password=***"),
    ],
)
def test_user_info_of_urls_is_masked(value, shown):
    assert shown_value("target", "STRING", value, is_sensitive=False) == shown
    nested = shown_value("target", "JSON", json.dumps({"urls": [value]}), is_sensitive=False)
    assert json.loads(nested) == {"urls": [shown]}


def test_what_is_sensitive_is_never_shown_whatever_it_is():
    for kind, text in (("STRING", "${secret:A}"), ("INT", "5"), ("JSON", "{}"), ("BOOLEAN", "true")):
        assert shown_value("k", kind, text, is_sensitive=True) == "***"


def test_names_inside_json_are_masked():
    shown = shown_value(
        "filters",
        "JSON",
        json.dumps({"a": {"apiToken": CANARY, "n": 1, "b": [{"pass": [CANARY]}]}}),
        is_sensitive=False,
    )
    assert json.loads(shown) == {"a": {"apiToken": "***", "n": 1, "b": [{"pass": "***"}]}}


def test_the_listing_is_masked_and_needs_no_key(metadata, ring):
    with metadata.begin() as connection:
        set_setting(connection, ring, 1, entry("PW", CANARY, is_sensitive=True))
        set_setting(connection, ring, 1, entry("api_token", CANARY))
        set_setting(connection, ring, 1, entry("limit", "7", "INT"))
    ring.path.unlink()
    with metadata.begin() as connection:
        assert shown_settings(connection, 1) == [
            entry("PW", "***", is_sensitive=True),
            entry("api_token", "***"),
            entry("limit", "7", "INT"),
        ]
