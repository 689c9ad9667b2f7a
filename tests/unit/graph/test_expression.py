"""Types, columns and refusals of expressions."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from millstream.errors import InvalidExpression
from millstream.graph.expressions.catalogue import FUNCTIONS, GROUPS
from millstream.graph.expressions.expression import parse_expression, parse_predicate
from millstream.model.schema import schema_of
from millstream.model.types import parse_type

SCHEMA = schema_of(
    "id int, n long, x double, f float, d decimal(10,2), w decimal(38,18), s string, ok boolean, day date,"
    " ts timestamp, nt timestamp_ntz, tags array<string>, m map<string,int>, who:struct<name:string,age:int>"
)
REFERENCE = Path(__file__).parents[3] / "docs" / "reference" / "expressions.md"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id + 1", "int"), ("id + n", "long"), ("id / 2", "double"), ("id div 2", "long"), ("f + id", "double"),
        ("f + f", "float"), ("d + d", "decimal(11,2)"), ("d * 2", "decimal(12,2)"), ("d / 3", "decimal(14,6)"),
        ("w * 2", "decimal(38,16)"), ("w / w", "decimal(38,6)"), ("d + id", "decimal(13,2)"),
        ("d % 7", "decimal(3,2)"), ("1.50", "decimal(3,2)"), ("0.05", "decimal(2,2)"), ("2147483648", "long"),
        ("9223372036854775808", "decimal(19,0)"), ("1e3", "double"), ("1L", "long"), ("2Y", "byte"),
        ("d * 2L", "decimal(12,2)"), ("1.5F", "float"), ("1.5BD", "decimal(2,1)"), ("length(s)", "int"),
        ("year(ts)", "int"), ("ceil(x)", "long"), ("ceil(d)", "decimal(9,0)"), ("round(d, 1)", "decimal(10,1)"),
        ("date_trunc('day', day)", "timestamp"), ("date_add(ts, 1)", "date"), ("datediff(day, ts)", "int"),
        ("unix_millis(ts)", "long"), ("coalesce(d, 0)", "decimal(12,2)"),
        ("CASE WHEN ok THEN day ELSE ts END", "timestamp"), ("who.age", "int"), ("tags[0]", "string"),
        ("m['a']", "int"), ("who", "struct<name:string,age:int>"), ("CAST(NULL AS date)", "date"),
        ("greatest(id, n, x)", "double"),
    ],
)  # fmt: skip
def test_result_type_is_sparks(text, expected):
    assert parse_expression(text, SCHEMA).type == parse_type(expected)


def test_columns_are_those_used_in_order_and_case_does_not_matter():
    parsed = parse_expression("upper(S) = 'A' AND Id > n AND s <> ''", SCHEMA)
    assert parsed.columns == ("s", "id", "n")
    assert parsed.text == "upper(S) = 'A' AND Id > n AND s <> ''"


def test_expressions_are_equal_by_content_and_pickle():
    parsed = parse_expression("id > 0 AND ts > '2024-01-01'", SCHEMA)
    assert pickle.loads(pickle.dumps(parsed)) == parsed == parse_expression(parsed.text, SCHEMA)
    assert parsed != parse_expression("id > 1 AND ts > '2024-01-01'", SCHEMA)


REFUSALS = [
    ("", "EXPR-001"), ("id +", "EXPR-001"), ("(id", "EXPR-001"), ("'open", "EXPR-001"), ("id 1 2", "EXPR-001"),
    ("CAST(id AS wibble)", "EXPR-001"), ("1 + " * 3000 + "1", "EXPR-002"), ("+".join(["id"] * 200), "EXPR-002"),
    ("(" * 60 + "id" + ")" * 60, "EXPR-002"), ("NOT " * 2000 + "ok", "EXPR-002"), ("- " * 2000 + "id", "EXPR-002"),
    ("*", "EXPR-003"), ("who.*", "EXPR-003"), ("SELECT 1", "EXPR-003"), ("(SELECT 1)", "EXPR-003"),
    ("id IN (SELECT 1)", "EXPR-003"), ("EXISTS(SELECT 1)", "EXPR-003"), ("id AS other", "EXPR-003"),
    ("id other", "EXPR-003"), ("sum(id) OVER (PARTITION BY s)", "EXPR-003"), ("id; n", "EXPR-003"),
    ("id -- comment", "EXPR-003"), ("id /* c */", "EXPR-003"), (":p", "EXPR-003"), ("?", "EXPR-003"),
    ("@v", "EXPR-003"), ("'a' 'b'", "EXPR-003"), ("x'1F'", "EXPR-003"), ("INTERVAL 1 DAY", "EXPR-003"),
    ("ts + INTERVAL 1 DAY", "EXPR-003"), ("id & 1", "EXPR-003"), ("s COLLATE UTF8_LCASE", "EXPR-003"),
    ("upper(DISTINCT s)", "EXPR-003"), ("upper(s => 'a')", "EXPR-003"), ("db.upper(s)", "EXPR-003"),
    ("DROP TABLE x", "EXPR-003"), ("id IN (id / 2)", "EXPR-003"), ("1 < id < 3", "EXPR-003"),
    ("ok = id BETWEEN 1 AND 2", "EXPR-003"), ("s || id + 1", "EXPR-003"), ("uper(s)", "EXPR-004"),
    ("java_method('a', 'b')", "EXPR-004"), ("reflect('a', 'b')", "EXPR-004"), ("sum(id)", "EXPR-004"),
    ("count(1)", "EXPR-004"), ("read_csv('x')", "EXPR-004"), ("getenv('HOME')", "EXPR-004"),
    ("transform(tags, t -> t)", "EXPR-004"), ("error('x')", "EXPR-004"), ("ms_round(x, 1)", "EXPR-004"),
    ("hash(id)", "EXPR-004"), ("missing", "EXPR-005"), ("batch.id", "EXPR-005"), ("who.email", "EXPR-005"),
    ("rowid", "EXPR-005"), ("rand()", "EXPR-006"), ("uuid()", "EXPR-006"), ("current_timestamp", "EXPR-006"),
    ("now()", "EXPR-006"), ("current_date()", "EXPR-006"), ("unix_timestamp()", "EXPR-006"), ("s + 1", "EXPR-007"),
    ("id = 'a'", "EXPR-007"), ("NOT id", "EXPR-007"), ("id AND ok", "EXPR-007"), ("day + 1", "EXPR-007"),
    ("CAST(x AS string)", "EXPR-007"), ("CAST(n AS timestamp)", "EXPR-007"),
    ("CAST(tags AS string)", "EXPR-007"), ("CAST(id AS interval)", "EXPR-007"),
    ("tags = tags", "EXPR-007"), ("id[0]", "EXPR-007"), ("id.field", "EXPR-007"),
    ("CASE WHEN ok THEN 1 ELSE 'a' END", "EXPR-007"), ("concat(x)", "EXPR-007"), ("tags['a']", "EXPR-007"),
    ("m[1]", "EXPR-007"), ("date_add(day, n)", "EXPR-007"), ("-s", "EXPR-007"), ("round(f)", "EXPR-007"),
    ("upper()", "EXPR-008"), ("upper(s, s)", "EXPR-008"), ("if(ok, 1)", "EXPR-008"), ("s LIKE s", "EXPR-009"),
    ("s RLIKE s", "EXPR-009"), ("s RLIKE '(?i)a'", "EXPR-009"), ("s RLIKE '(a'", "EXPR-009"),
    ("s RLIKE 'a*+'", "EXPR-009"), ("s RLIKE r'\\bword'", "EXPR-009"), ("s RLIKE r'(a)\\1'", "EXPR-009"),
    ("s RLIKE 'a(?=b)'", "EXPR-009"), ("s RLIKE '[a&&b]'", "EXPR-009"), ("s RLIKE '*a'", "EXPR-009"),
    ("regexp_replace(s, 'a*', 'b')", "EXPR-009"), ("regexp_replace(s, 'a$', 'b')", "EXPR-009"),
    ("regexp_replace(s, 'a', '$1')", "EXPR-009"), ("regexp_extract(s, 'a')", "EXPR-009"),
    ("s LIKE 'a\\\\b'", "EXPR-009"), ("date_trunc('fortnight', ts)", "EXPR-009"),
    ("date_format(ts, 'EEEE')", "EXPR-009"), ("to_date(s, 'yyyy')", "EXPR-009"), ("round(x, -1)", "EXPR-009"),
    ("lpad(s, 3, '')", "EXPR-009"), ("repeat(s, 1000000)", "EXPR-009"), ("ts > 'soon'", "EXPR-009"),
    ("day = '2023-02-29'", "EXPR-009"), ("'a\\0b'", "EXPR-009"), ("1" * 39, "EXPR-009"), ("300Y", "EXPR-009"),
    ("1.5L", "EXPR-009"), ("NULL", "EXPR-011"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "code"), REFUSALS, ids=lambda value: str(value)[:40])
def test_refusal(text, code):
    with pytest.raises(InvalidExpression) as caught:
        parse_expression(text, SCHEMA, step="keep")
    assert (caught.value.code, caught.value.step) == (code, "keep")


def test_unknown_function_lists_close_names_first():
    with pytest.raises(InvalidExpression) as caught:
        parse_expression("uper(s)", SCHEMA)
    known = caught.value.known.split(", ")
    assert known[0] == "upper"
    assert set(known) == set(FUNCTIONS)


def test_unknown_column_lists_the_columns():
    with pytest.raises(InvalidExpression, match="known: day, d, f, id, ") as caught:
        parse_expression("dayy > ts", SCHEMA)
    assert set(caught.value.known.split(", ")) == set(SCHEMA.names)


def test_clashing_column_names_are_refused():
    with pytest.raises(InvalidExpression, match="ambiguous"):
        parse_expression("aB", schema_of("ab int, AB int"))
    with pytest.raises(InvalidExpression, match="differs from another only in case"):
        parse_expression("ab + AB", schema_of("ab int, AB int"))


def test_predicate_must_be_boolean():
    assert parse_predicate("id > 0", SCHEMA).type == parse_type("boolean")
    with pytest.raises(InvalidExpression, match="found int") as caught:
        parse_predicate("id + 1", SCHEMA, step="keep")
    assert caught.value.code == "EXPR-010"


def test_reference_page_lists_exactly_the_functions():
    page = REFERENCE.read_text()
    for title, functions in GROUPS.items():
        section = page.split(f"### {title}\n")[1].split("\n#")[0]
        listed = dict(re.findall(r"^\| `((?:[^`])+)` \| (.*) \|$", section, re.MULTILINE))
        assert {usage.split("(")[0] for usage in listed} == set(functions)
        for name, function in functions.items():
            usage = f"{name}({function.usage.split('(', 1)[1]}"
            assert listed[usage] == function.doc


def accepted(text):
    """The expression, or `None` where it is refused."""
    try:
        return parse_expression(text, SCHEMA)
    except InvalidExpression:
        return None


_LEAVES = st.sampled_from(
    ["id", "n", "x", "d", "1", "2.5", "NULL", "s", "'it\\'s'", "ok", "ts", "day", "who.age", "tags[0]"]
)
_TEXTS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/", "=", "<", "AND", "OR", "<=>", "||"]), inner).map(
            lambda parts: f"({parts[0]} {parts[1]} {parts[2]})"
        ),
        st.tuples(st.sampled_from(sorted(FUNCTIONS)), st.lists(inner, min_size=1, max_size=3)).map(
            lambda parts: f"{parts[0]}({', '.join(parts[1])})"
        ),
        inner.map(lambda text: f"NOT {text}"),
        inner.map(lambda text: f"CAST({text} AS string)"),
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(_TEXTS)
def test_any_text_is_refused_or_parses_to_the_same_expression_again(text):
    parsed = accepted(text)
    if parsed is None:
        return
    assert parse_expression(f"({parsed.text})", SCHEMA).sql == parsed.sql
    assert set(parsed.columns) <= set(SCHEMA.names)


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_no_text_escapes_the_error_tree(text):
    accepted(text)  # any other exception than a refusal fails the test
