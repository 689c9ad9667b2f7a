"""Parameters in expressions: typed when a step is built, literals when a run begins, and never read as anything else."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import InvalidExpression
from millstream.graph.expressions.parameters import open_params, with_types, with_values

TYPES = {"day": "date", "n": "long", "d": "decimal(10,2)", "date": "date", "s": "string"}


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("d = :day", "d = CAST(:day AS date)"),
        ("x IN (:n, :n)", "x IN (CAST(:n AS long), CAST(:n AS long))"),
        ("x between :n and :n", "x between CAST(:n AS long) and CAST(:n AS long)"),
        ("CASE WHEN x THEN :n END", "CASE WHEN x THEN CAST(:n AS long) END"),
        ("d = :date", "d = CAST(:date AS date)"),
        ("cast(:day as string)", "cast(CAST(:day AS date) as string)"),
        ("CAST(:day AS DATE)", "CAST(:day AS DATE)"),
        ("CAST(:n AS BIGINT) + CAST(:d AS DECIMAL(10, 2))", "CAST(:n AS BIGINT) + CAST(:d AS DECIMAL(10, 2))"),
        ("x = ':day' and `a:n` = \":n\"", "x = ':day' and `a:n` = \":n\""),
        ("cast(x as struct<a:int, n:long>)", "cast(x as struct<a:int, n:long>)"),
        ("x::int = 1", "x::int = 1"),
        ("x > 1", "x > 1"),
        ("it's unfinished :day", "it's unfinished :day"),
    ],
)
def test_a_parameter_gets_its_type_where_it_stands_and_once(text, typed):
    assert with_types(text, TYPES, step=None) == typed
    assert with_types(typed, TYPES, step=None) == typed


def test_an_unknown_parameter_is_refused():
    with pytest.raises(InvalidExpression, match="unknown parameter 'dya'") as refused:
        with_types("d = :dya", TYPES, step="step")
    assert (refused.value.code, refused.value.step) == ("EXPR-012", "step")
    assert "day" in refused.value.known


def test_a_value_takes_the_place_of_its_name_alone():
    typed = with_types("d = :day and s <> ':day' and n > :n", TYPES, step=None)
    bound = with_values(typed, {"day": "2024-01-31"})
    assert bound == "d = CAST('2024-01-31' AS date) and s <> ':day' and n > CAST(:n AS long)"
    assert open_params(typed) == ["day", "n"]
    assert open_params(bound) == ["n"]


def job_of(texts):
    job = ms.Job("texts", params={"s": "string"})
    rows = job.source("rows", ms.memory([{"s": text} for text in texts]), schema="s string")
    rows.filter("s = :s").with_columns(again=":s", both="concat(:s, '|', :s)").sink("out", ms.collect("texts"))
    return job


@settings(max_examples=40, deadline=None)
@given(st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0"), max_size=12))
def test_no_text_is_read_as_sql(text):
    clear("texts")
    job_of([text, "' OR '1' = '1", "other"]).run(local=True, params={"s": text})
    assert {"s": text, "again": text, "both": f"{text}|{text}"} in collected("texts")
    assert {row["s"] for row in collected("texts")} == {text}


@pytest.mark.parametrize(
    "text", ["' OR '1'='1", "\\", "\\'", "'); DROP TABLE t; --", ":s", "${param:s}", "\n\r\t", "%_", "\\%", "\x1a"]
)
def test_texts_that_look_like_sql_are_texts(text):
    clear("texts")
    job_of([text, "other"]).run(local=True, params={"s": text})
    assert collected("texts") == [{"s": text, "again": text, "both": f"{text}|{text}"}]
