"""Evaluation of expressions on Arrow batches."""

from __future__ import annotations

import datetime as dt
import threading
from decimal import Decimal

import pyarrow as pa
import pytest

from millstream.errors import StepFailed
from millstream.graph.expressions.expression import parse_expression, parse_predicate
from millstream.model.schema import schema_of
from millstream.runtime.expressions import MAX_BOUND, Predicate, Projection

SCHEMA = schema_of(
    "id int, x double, d decimal(10,2), s string, ok boolean, ts timestamp, nt timestamp_ntz, day date,"
    " tags array<string>, m map<string,int>, who:struct<name:string,seen:timestamp>"
)
MOMENT = dt.datetime(2024, 2, 29, 23, 59, 59, 500000, tzinfo=dt.UTC)
EARLY = dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=dt.UTC)
ROWS = [
    {
        "id": 1, "x": 1.005, "d": Decimal("12.34"), "s": "Straße", "ok": True, "ts": MOMENT,
        "nt": MOMENT.replace(tzinfo=None), "day": MOMENT.date(), "tags": ["a", None], "m": [("k", 1)],
        "who": {"name": "Ann", "seen": EARLY},
    },
    dict.fromkeys(SCHEMA.names),
    {
        "id": -7, "x": float("nan"), "d": Decimal("-0.05"), "s": "", "ok": False, "ts": EARLY,
        "nt": EARLY.replace(tzinfo=None), "day": dt.date(1, 1, 1), "tags": [], "m": [],
        "who": {"name": None, "seen": None},
    },
]  # fmt: skip
BATCH = pa.RecordBatch.from_pylist(ROWS, schema=SCHEMA.arrow)


def evaluate(text, batch=BATCH):
    column = Projection([("r", parse_expression(text, SCHEMA))]).apply(batch).column(0)
    assert column.type == parse_expression(text, SCHEMA).type
    return column.to_pylist()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("id + 1", [2, None, -6]),
        ("id / 2", [0.5, None, -3.5]),
        ("id % 4", [1, None, -3]),
        ("d / 3", [Decimal("4.113333"), None, Decimal("-0.016667")]),
        ("d * 2 + 0.005", [Decimal("24.685"), None, Decimal("-0.095")]),
        ("round(d, 1)", [Decimal("12.3"), None, Decimal("-0.1")]),
        ("upper(s)", ["STRASSE", None, ""]),
        ("length(s)", [6, None, 0]),
        ("reverse(s)", ["eßartS", None, ""]),
        ("substring(s, -3, 2)", ["aß", None, ""]),
        ("s || '-' || id", ["Straße-1", None, "--7"]),
        ("s RLIKE '^S.*e$'", [True, None, False]),
        ("x > 1", [True, None, True]),
        ("x = x", [True, None, True]),
        ("x <> 1", [True, None, True]),
        ("ok AND NULL", [None, None, False]),
        ("ok OR NULL", [True, None, None]),
        ("id <=> NULL", [False, True, False]),
        ("id IN (1, NULL)", [True, None, None]),
        ("coalesce(s, 'none')", ["Straße", "none", ""]),
        ("CASE WHEN id > 0 THEN 10 div id END", [10, None, None]),
        ("ts > '2000-01-01'", [True, None, False]),
        ("ts = '2024-02-29T20:59:59.5-03:00'", [True, None, False]),
        ("unix_millis(ts)", [1709251199500, None, -1]),
        ("CAST(ts AS long)", [1709251199, None, -1]),
        ("date_trunc('day', ts)", [MOMENT.replace(hour=0, minute=0, second=0, microsecond=0), None,
                                   dt.datetime(1969, 12, 31, tzinfo=dt.UTC)]),
        ("ts", [MOMENT, None, EARLY]),
        ("who.seen", [EARLY, None, None]),
        ("who", [ROWS[0]["who"], None, ROWS[2]["who"]]),
        ("date_add(day, 1)", [dt.date(2024, 3, 1), None, dt.date(1, 1, 2)]),
        ("date_format(ts, 'yyyyMMdd HH.mm')", ["20240229 23.59", None, "19691231 23.59"]),
        ("get(tags, 0)", ["a", None, None]),
        ("size(tags)", [2, None, 0]),
        ("m['k']", [1, None, None]),
        ("TRY_CAST(s AS int)", [None, None, None]),
        ("1.5", [Decimal("1.5")] * 3),
        ("CAST(NULL AS string)", [None] * 3),
        ("pow(2, 10)", [1024.0] * 3),
    ],
)  # fmt: skip
def test_values(text, expected):
    assert evaluate(text) == expected


@pytest.mark.parametrize(
    "text",
    ["1 / 0", "id % 0", "1.5 / (d - d)", "id + 2147483647", "CAST(s AS int)", "CAST(id * 1000 AS byte)", "tags[5]",
     "abs(id - 2147483641 - 1)", "to_date(s, 'yyyy-MM-dd')", "timestamp_millis(9223372036854775807)"],
)  # fmt: skip
def test_failure_names_the_expression(text):
    with pytest.raises(StepFailed) as caught:
        evaluate(text)
    assert caught.value.code == "RUN-004"
    assert text in caught.value.message
    assert caught.value.found


def test_failure_among_several_names_only_the_culprit():
    columns = [
        (f"c{n}", parse_expression(text, SCHEMA)) for n, text in enumerate(["id + 1", "CAST(s AS int)", "upper(s)"])
    ]
    with pytest.raises(StepFailed) as caught:
        Projection(columns).apply(BATCH)
    assert caught.value.message.endswith("CAST(s AS int)")
    assert "Straße" in str(caught.value)


@pytest.mark.parametrize(
    "text", ["ok AND 1 / (id + 7) > 0", "id = -7 OR 1 / (id + 7) > 0", "if(id = -7, 0, 1 / (id + 7)) > 0"]
)
def test_skipped_parts_are_not_evaluated(text):
    assert evaluate(text)[2] in {True, False}


def test_projection_has_exactly_its_columns_and_a_column_is_not_copied():
    columns = [("b", "id"), ("a", "id + 1"), ("c", "'x'")]
    result = Projection([(name, parse_expression(text, SCHEMA)) for name, text in columns]).apply(BATCH)
    assert result.schema == pa.schema([("b", pa.int32()), ("a", pa.int32()), ("c", pa.string())])
    assert result.column("b").buffers()[1].address == BATCH.column("id").buffers()[1].address


@pytest.mark.parametrize("text", ["id > 0", "id + 0 > 0", "upper(s) = 'STRASSE'"])
def test_mask_counts_null_as_false(text):
    mask = Predicate(parse_predicate(text, SCHEMA)).mask(BATCH)
    assert mask.type == pa.bool_()
    assert mask.to_pylist() == [True, False, False]


@pytest.mark.parametrize("text", ["id", "id + 1", "1 + 1", "who", "1"])
def test_empty_batch_gives_an_empty_column(text):
    assert evaluate(text, BATCH.slice(0, 0)) == []


def test_slices_and_many_rows_keep_their_order():
    batch = pa.RecordBatch.from_pylist(ROWS * 3000, schema=SCHEMA.arrow).slice(1)
    assert evaluate("id * 2", batch) == ([2, None, -14] * 3000)[1:]


def test_direct_and_queried_forms_agree():
    tests = ["id > 0", "id = -7", "s < 'T'", "d >= 0", "x < 2", "x >= 1.005D", "ts <= '1970-01-01'",
             "day <> '2024-02-29'", "ok = false", "id IS NULL", "NOT ok", "nt > '2000-01-01'", "id IN (1, 2)",
             "s BETWEEN '' AND 'z'"]  # fmt: skip
    for text in tests:
        assert parse_expression(text, SCHEMA).direct is not None, text
        assert evaluate(text) == evaluate(f"CASE WHEN true THEN {text} END"), text


def test_other_types_of_the_same_column_are_bound_anew():
    projection = Projection([("r", parse_expression("concat(s, '!')", schema_of("s string")))])
    for kind in (pa.string(), pa.large_string(), pa.string()):
        assert projection.apply(pa.record_batch({"s": pa.array(["é"], kind)})).column(0).to_pylist() == ["é!"]


def test_more_projections_than_are_kept_bound():
    for n in range(MAX_BOUND + 3):
        assert evaluate(f"id + {n}")[0] == n + 1
    assert evaluate("id + 0") == [1, None, -7]


def test_threads_evaluate_independently():
    expressions = [parse_expression(f"id + {n}", SCHEMA) for n in range(4)]
    found: dict[int, list[int | None]] = {}

    def work(n):
        projection = Projection([("r", expressions[n])])
        for _ in range(20):
            found[n] = projection.apply(BATCH).column(0).to_pylist()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {n: [1 + n, None, -7 + n] for n in range(4)}
