"""Parameters of a run: declared with a type, read from text and from Python, and refused when they do not fit."""

import datetime as dt
from decimal import Decimal

import pytest

from millstream.errors import InvalidPlan
from millstream.model.param_values import text_of
from millstream.model.params import (
    declared_params,
    filled,
    filled_query,
    names_in,
    read_params,
    stored_params,
    written_params,
)

NOON = dt.datetime(2024, 1, 31, 12, tzinfo=dt.UTC)
VALUES = [
    ("string", "it's", "it's"),
    ("boolean", "True", True),
    ("boolean", False, False),
    ("byte", "-128", -128),
    ("short", "+7", 7),
    ("int", 2**31 - 1, 2**31 - 1),
    ("bigint", str(-(2**63)), -(2**63)),
    ("double", "1e3", 1000.0),
    ("double", 2, 2.0),
    ("decimal(10,2)", "1.5", Decimal("1.50")),
    ("decimal(10,2)", 3, Decimal("3.00")),
    ("date", "2024-01-31", dt.date(2024, 1, 31)),
    ("date", dt.date(2024, 1, 31), dt.date(2024, 1, 31)),
    ("timestamp", "2024-01-31T13:00:00+01:00", NOON),
    ("timestamp", dt.datetime(2024, 1, 31, 12), NOON),
    ("timestamp", "2024-01-31", NOON.replace(hour=0)),
    ("timestamp_ntz", "2024-01-31T12:00:00.5", NOON.replace(tzinfo=None, microsecond=500_000)),
]
WRONG = [
    ("string", "\ud800"),
    ("string", 5),
    ("string", "a\0b"),
    ("boolean", "yes"),
    ("boolean", 1),
    ("byte", "128"),
    ("int", "1.0"),
    ("int", "1_0"),
    ("int", 1.0),
    ("int", True),
    ("long", str(2**63)),
    ("double", "nan"),
    ("double", "a"),
    ("double", True),
    ("decimal(3,2)", "12.34"),
    ("decimal(3,2)", "1.234"),
    ("decimal(3,2)", 1.5),
    ("date", "31.1.2024"),
    ("date", NOON),
    ("timestamp", "noon"),
    ("timestamp", dt.date(2024, 1, 31)),
    ("timestamp_ntz", "2024-01-31T12:00:00Z"),
]


@pytest.mark.parametrize(("kind", "given", "value"), VALUES)
def test_a_value_is_read_by_its_type_and_its_stored_form_reads_back(kind, given, value):
    (param,) = declared_params({"p": kind})
    read = param.read(given)
    assert (read, type(read)) == (value, type(value))
    assert param.read(text_of(read)) == read
    assert param.read(stored_params({"p": read})["p"]) == read


@pytest.mark.parametrize(("kind", "given"), WRONG)
def test_a_value_of_another_type_is_refused(kind, given):
    (param,) = declared_params({"p": kind})
    with pytest.raises(InvalidPlan, match="parameter 'p' has a wrong value") as refused:
        param.read(given)
    assert refused.value.code == "PARAM-003"
    assert refused.value.found == repr(given)
    assert refused.value.known


@pytest.mark.parametrize(
    "written",
    [
        {"p": "array<int>"},
        {"p": "float"},
        {"p": "nothing"},
        {"p": int},
        {"p": {"default": 1}},
        {"p": {"type": "int", "doc": ""}},
        {"1p": "int"},
        {"a-b": "int"},
        {"interval_start": "timestamp"},
        ["p"],
    ],
)
def test_a_declaration_that_means_nothing_is_refused(written):
    with pytest.raises(InvalidPlan) as refused:
        declared_params(written)
    assert refused.value.code == "PARAM-004"


def test_a_default_is_of_the_type_too():
    with pytest.raises(InvalidPlan, match="wrong value"):
        declared_params({"p": {"type": "int", "default": "x"}})
    params = declared_params({"day": {"type": "date", "default": dt.date(2024, 1, 31)}, "n": "int"})
    assert declared_params(written_params(params)) == params
    assert read_params(params, {"n": "1"}) == {"day": dt.date(2024, 1, 31), "n": 1}


def test_null_may_be_no_default():
    with pytest.raises(InvalidPlan, match="wrong value"):
        declared_params({"p": {"type": "string", "default": None}})


def test_unknown_and_missing_parameters_are_named():
    params = declared_params({"day": "date", "n": "int"})
    with pytest.raises(InvalidPlan, match="no parameter 'dya'") as refused:
        read_params(params, {"dya": "2024-01-31"})
    assert (refused.value.code, refused.value.known) == ("PARAM-001", "day, interval_end, interval_start, n")
    with pytest.raises(InvalidPlan, match="needs parameter 'day', 'n'") as refused:
        read_params(params, {})
    assert refused.value.code == "PARAM-002"
    assert "-P day=VALUE" in refused.value.hint


def test_any_run_may_have_an_interval():
    assert read_params((), {"interval_start": "2024-01-31T12:00"}) == {"interval_start": NOON}
    with pytest.raises(InvalidPlan, match="ends before it starts"):
        read_params((), {"interval_start": "2024-02-01", "interval_end": "2024-01-31"})


def test_options_keep_the_type_of_a_parameter_where_they_take_it():
    values = {"day": dt.date(2024, 1, 31), "n": 5, "s": "x"}
    assert names_in({"a": ["${param:day}", {"b": "${param:n}-${param:s}"}], "c": 1}) == ["day", "n", "s"]
    assert filled("${param:n}", values, (int,)) == 5
    assert filled("${param:n}", values, (str,)) == "5"
    assert filled("in/${param:day}/${param:n}", values, (str,)) == "in/2024-01-31/5"
    assert filled({"max": "${param:n}", "at": ["${param:day}"]}, values, (dict,)) == {"max": 5, "at": ["2024-01-31"]}
    assert filled(True, values, (bool,)) is True


@pytest.mark.parametrize(
    ("written", "values"),
    [
        ("https://h/${param:a}", {"a": "${secret:HOME}"}),
        ("${param:a}", {"a": "${secret:HOME}"}),
        ({"headers": [{"x": "y ${param:a}"}]}, {"a": "${secret:HOME}"}),
        ("${param:a}${param:b}", {"a": "${sec", "b": "ret:HOME}"}),
        ("${secret:${param:a}}", {"a": "HOME"}),
    ],
)
def test_who_starts_a_run_names_no_secrets(written, values):
    with pytest.raises(InvalidPlan) as refused:
        filled(written, values, (str,))
    assert refused.value.code == "PARAM-006"


def test_secrets_of_the_job_stand_beside_parameters():
    written = "amqp://me:${secret:PASSWORD}@host/${param:a}"
    assert filled(written, {"a": "${slice:x}"}, (str,)) == "amqp://me:${secret:PASSWORD}@host/${slice:x}"


def test_a_query_gets_literals():
    values = {"day": dt.date(2024, 1, 31), "n": 5, "who": "x' OR '1'='1", "d": Decimal("1.50"), "b": True}
    query = "SELECT * FROM t WHERE day = ${param:day} AND n > ${param:n} AND who = ${param:who} AND ${param:b}"
    assert filled_query("query", query, values) == (
        "SELECT * FROM t WHERE day = '2024-01-31' AND n > 5 AND who = 'x'' OR ''1''=''1' AND TRUE"
    )
    assert filled_query("query", "${param:d}", values) == "1.50"


@pytest.mark.parametrize("value", [-3, -3.5, Decimal("-3.50")])
def test_a_negative_number_does_not_begin_a_comment(value):
    assert filled_query("query", "a > 5 -${param:n} AND b", {"n": value}) == f"a > 5 -({value}) AND b"


@pytest.mark.parametrize(
    "query",
    [
        "a LIKE '%${param:p}%'",
        "a = 'it''s ${param:p} '",
        "a = E'it\\'s ${param:p} '",
        "a = $$ ${param:p} $$",
        "a = $tag$ ${param:p} $tag$",
        'SELECT 1 AS "a ${param:p} b"',
        "SELECT 1 AS `a ${param:p} b`",
        "SELECT 1 -- of ${param:p}\n",
        "SELECT 1 /* of ${param:p} */",
        "SELECT 1 /* of /* it */ ${param:p} */",
    ],
)
def test_a_literal_stands_in_no_text_name_or_comment(query):
    """Its own quotes would end the text: what is given for the parameter would be read as SQL."""
    with pytest.raises(InvalidPlan) as refused:
        filled_query("query", query, {"p": " OR TRUE OR a LIKE "})
    assert refused.value.code == "PARAM-005"


def test_a_literal_stands_beside_texts_names_and_comments():
    query = "-- don't\nSELECT 'it''s', \"a'b\", a$b$c, '\\' /* 'tis */ FROM t WHERE a = ${param:p} AND b = '' AND c = $$ ' $$"
    assert filled_query("query", query, {"p": 1}) == query.replace("${param:p}", "1")


@pytest.mark.parametrize(
    ("query", "value", "code"), [("'${param:p}'", "x", "PARAM-005"), ("${param:p}", "\\", "PARAM-003")]
)
def test_what_databases_read_otherwise_is_refused(query, value, code):
    with pytest.raises(InvalidPlan) as refused:
        filled_query("query", query, {"p": value})
    assert refused.value.code == code
