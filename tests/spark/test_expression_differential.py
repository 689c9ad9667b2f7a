"""Every documented operator and function gives the same values, types and errors in Spark SQL and in `Projection`."""

from __future__ import annotations

import datetime as dt
import math
import re
from decimal import Decimal as D

import pyarrow as pa
import pytest

from millstream.errors import StepFailed
from millstream.graph.expressions.catalogue import FUNCTIONS
from millstream.graph.expressions.expression import parse_expression
from millstream.model.schema import schema_of
from millstream.model.types import canonical, type_name
from millstream.runtime.expressions import Projection

pytestmark = pytest.mark.spark

SCHEMA = schema_of(
    "b byte, h short, i int, j int, l long, x double, y double, f float,"
    " d decimal(10,2), e decimal(20,5), w decimal(38,18), s string, q string, num string, day string, moment string,"
    " word string, p boolean, r boolean, dt date, ts timestamp, nt timestamp_ntz, arr array<int>, mp map<string,int>,"
    " st:struct<u:int,v:string,k:struct<z:timestamp>>"
)


def at(*parts):
    return dt.datetime(*parts, tzinfo=dt.UTC)


def plain(*parts):
    return at(*parts).replace(tzinfo=None)


def row(**values):
    return {name: values.get(name) for name in SCHEMA.names}


ROWS = [
    row(
        b=1, h=2, i=3, j=2, l=4, x=1.5, y=2.0, f=0.1, d=D("12.34"), e=D("3.00001"), w=D("1.5"), s="hello world",
        q="o", num=" 42 ", day="2024-02-29", moment="2024-02-29 12:34:56.789", word="true", p=True, r=False,
        dt=dt.date(2024, 2, 29), ts=at(2024, 2, 29, 12, 34, 56, 789123), nt=plain(2024, 2, 29, 12, 34, 56, 789123),
        arr=[10, None, 30], mp={"k": 7, "z": None}, st={"u": 5, "v": "x", "k": {"z": at(2020, 1, 1)}},
    ),
    row(),
    row(
        b=-1, h=-2, i=-7, j=-3, l=-4000000000, x=-2.5, y=-0.5, f=-1.25, d=D("-0.05"), e=D("-99999.99999"),
        w=D("-0.000000000000000001"), s="  Straße ǅ İstanbul ΣΑΣ  ", q="ß", num="-7", day="1969-12-31",
        moment="1969-12-31T23:59:59.5Z", word=" NO ", p=False, r=True, dt=dt.date(1969, 12, 31),
        ts=at(1969, 12, 31, 23, 59, 59, 500000), nt=plain(1969, 12, 31, 23, 59, 59, 999999), arr=[1], mp={},
        st={"u": None, "v": "", "k": None},
    ),
    row(
        b=127, h=32767, i=1000000, j=1, l=4611686018427387903, x=1e10, y=3.0, f=16777216.0, d=D("99999999.99"),
        e=D("1.00000"), w=D("12345.678901234567890123"), s="e\u0301a😀b", q="😀", num="+0012", day="2000-1-1",
        moment="2000-1-1 1:2:3+05:30", word="y", p=True, r=True, dt=dt.date(2000, 1, 1),
        ts=at(1900, 3, 1, 0, 0, 0, 1), nt=plain(9999, 12, 31, 23, 59, 59), arr=[5, 6, 7, 8], mp={"k": -1},
        st={"u": -1, "v": "yy", "k": {"z": None}},
    ),
    row(
        b=-127, h=-32767, i=0, j=5, l=0, x=0.0, y=1.0, f=-0.0, d=D("0.00"), e=D("0.00001"), w=D("0"), s="", q="",
        num="0", day="1999", moment="1999-07-04", word="0", p=False, r=False, dt=dt.date(1, 6, 1), ts=at(1, 2, 1),
        nt=plain(1582, 10, 4), arr=[0], mp={"": 0}, st={"u": 0, "v": None, "k": {"z": None}},
    ),
    row(
        b=5, h=-5, i=2147483, j=7, l=1, x=math.nan, y=-1.0, f=math.nan, d=D("1.005").quantize(D("0.01")),
        e=D("2.50000"), w=D("2.345"), s="a%b_c\\d\ne\tf", q="%", num="9", day="2023-05", moment="2023-05-06 07:08",
        word="F", p=None, r=True, dt=dt.date(9999, 1, 1), ts=at(2038, 1, 19, 3, 14, 8), nt=None, arr=[3, 2, 1],
        mp={"k": None}, st=None,
    ),
    row(
        b=6, h=7, i=-1, j=-1, l=-1, x=1.005, y=0.25, f=3.5, d=D("-1.25"), e=D("-2.50000"), w=D("-2.345"),
        s="Hello World 123", q="l", num="123", day="2016-12-31 foo", moment="2016-12-31 23:59:59.123456", word="TRUE",
        p=True, r=None, dt=dt.date(2016, 12, 31), ts=at(2016, 12, 31, 23, 59, 59, 999999), nt=plain(2016, 12, 31),
        arr=[-1, -2], mp={"k": 1}, st={"u": 9, "v": "z", "k": {"z": None}},
    ),
    row(
        b=7, h=8, i=10, j=3, l=10, x=math.inf, y=2.5, f=math.inf, d=D("7.77"), e=D("10.12345"), w=D("100"), s="x\r\n",
        q="x", num="7", day="0001-01-01", moment="2020-02-29T00:00:00-01:00", word="n", p=False, r=None,
        dt=dt.date(2020, 3, 1), ts=at(2020, 3, 1), nt=plain(2020, 3, 1), arr=[100], mp={"k": 100, "j": 2},
        st={"u": 1, "v": "ß", "k": {"z": None}},
    ),
]  # fmt: skip

UNITS = (
    "year", "YYYY", "quarter", "month", "mm", "week", "day", "dd", "hour", "minute", "second", "millisecond",
    "microsecond",
)  # fmt: skip
GROUPS: dict[str, list[str]] = {
    "arithmetic": [
        "i + 1", "i + j", "i - l", "b - CAST(1 AS byte)", "b * CAST(1 AS byte)", "h - 1S + 1Y", "i * 2", "i / j", "NULL / d",
        "mp['k'] / i", "mp['k'] % i", "mp['k'] div i", "CAST(mp['k'] AS decimal(5,2)) / i",

        "l / j", "i % j", "l % 7", "i div j", "l div 3", "-i", "-x", "-d", "x + y", "x * y", "x / y", "x % y",
        "f + f", "f + i", "f * 2", "f + x", "i + 1.5", "x + 1.5", "i + 1e0", "1L + i", "2.5D * i", "-7 % 3",
        "7 div -2", "1 / 3", "i + x", "f + d", "1.5F * 2", "- (i)", "(i + 1) * (j - 9)", "2147483648 + 1",
        "-2147483648", "-9223372036854775808",
    ],
    "decimals": [
        "d + d", "d * 2L", "d + 5S", "d * CAST(2 AS long)", "d * -3L", "1e2BD", "0.1F = f", "f > 0.05F", "x > 1.5D",
        "d - e", "d * d", "d * e", "d + 1", "d * 2", "d * -2", "2 - d", "d / 3", "d / e", "e / 7", "1 / 3.0", "d % 7",
        "d % 0.3", "e % 1.5", "d + i", "d + l", "l * d", "d + b", "d + x", "d * f", "w + w", "w * 2", "w - 1.5",
        "w * d", "w / 2", "d / 7.00", "0.05", "1.50", "100", ".5", "0.00", "i * 1.10", "i / 4.0", "l / 4.0",
        "1.5BD + d", "-d / 3", "round(d, 1)", "round(d)", "round(e, 3)", "round(w, 5)", "round(d, 5)", "abs(d)",
        "ceil(d)", "floor(d)", "ceil(e)", "floor(w)",
    ],
    "comparison": [
        "i = j", "i <> j", "i != j", "i == 3", "i < j", "i <= l", "i > 0", "i >= -1", "x = y", "x > 1", "x <= 1.5",
        "x < y", "f = 0.1", "f > x", "d = 12.34", "d > 1", "d < l", "d >= e", "w < d", "s = 'hello world'", "s < 'b'",
        "s > q", "s <> q", "p = r", "p <> true", "p > r", "dt = '2024-02-29'", "dt > date '2000-01-01'",
        "ts > '2000-01-01'", "ts <= '2024-02-29 12:34:56.789123'", "dt < ts", "nt > dt", "nt = ts",
        "ts >= timestamp '1969-12-31 23:59:59.5'", "i <=> j", "s <=> NULL", "d <=> 0", "x <=> y",
        "i IS DISTINCT FROM j", "i IS NOT DISTINCT FROM 3", "b = i", "l = x", "i = NULL", "d = NULL", "x = x",
        "f = f", "st.u = 5",
    ],
    "logic": [
        "p AND r", "p OR r", "NOT p", "!p", "p AND i / j > 0", "i <> 0 AND 10 / i > 1", "i = 0 OR 10 / i > 1",
        "p IS NULL", "p IS NOT NULL", "p IS TRUE", "p IS NOT TRUE", "p IS FALSE", "p IS NOT FALSE", "i IN (1, 2, 3)",
        "i NOT IN (3, 0)", "i IN (3, NULL)", "i NOT IN (3, NULL)", "s IN ('', 'x')",
        "dt IN ('2024-02-29', '2000-01-01')", "d IN (0, 12.34)", "i IN (j, l)", "i BETWEEN 0 AND 10",
        "i NOT BETWEEN j AND 5", "d BETWEEN -1 AND 7.77", "ts BETWEEN '2000-01-01' AND '2030-01-01'", "x IN (1.5, 2)",
        "NULL AND p", "NULL OR p", "p AND NULL",
    ],
    "patterns": [
        "s LIKE 'hello%'", "s LIKE '%o w%'", "s NOT LIKE '%o%'", "s LIKE 'a\\\\%b%'", "s LIKE 'a!%b!_%' ESCAPE '!'",
        "s LIKE ''", "s LIKE '_____ _____'", "s LIKE '%\\n%'", "s LIKE '__a_b'", "s ILIKE 'HELLO%'",
        "s NOT ILIKE '%STRASSE%'", "s ILIKE '%straße%'", "s RLIKE 'o w'", "s RLIKE '^h.*d$'", "s RLIKE 'x$'",
        "s REGEXP '[a-e]+\\\\d'", "s NOT RLIKE '\\\\d{3}$'", "s RLIKE r'\\s'", "s RLIKE r'\\S+\\s\\S+'",
        "s RLIKE 'a.b'", "s RLIKE 'a|😀'", "s RLIKE '^$'", "s RLIKE 'x.'", "s RLIKE r'[\\w%]+_c\\\\'",
        "s RLIKE '[^a-z ]'", "s RLIKE '(l+)o'", "regexp_extract(s, '(\\\\w+) (\\\\w+)', 2)",
        "regexp_extract(s, 'l+', 0)", "regexp_extract(s, '(\\\\d+)')", "regexp_extract(s, '(x)?b', 1)",
        "regexp_extract(s, '([a-z])(o)?', 2)", "regexp_replace(s, 'o', '0')", "regexp_replace(s, '(l+)', '<$1>')",
        "regexp_replace(s, '\\\\s+', '\\\\$')", "regexp_replace(s, '[aeiou]', '')", "regexp_replace(s, '.', 'é')",
        "regexp_replace(s, 'l+?', 'L')", "regexp_replace(s, 'he|hel', '-')",
    ],
    "choices": [
        "CASE WHEN i > 0 THEN 'pos' WHEN i < 0 THEN 'neg' ELSE 'zero' END", "CASE i WHEN 3 THEN 1 WHEN 0 THEN 2 END",
        "CASE WHEN i <> 0 THEN 10 / i ELSE 0 END", "CASE WHEN p THEN i ELSE l END", "p = (i IS NULL)",
        "(i = j) IN (r, p)", "CASE WHEN p THEN d ELSE i END", "CASE WHEN p THEN d ELSE e END",
        "CASE WHEN p THEN f ELSE i END", "CASE WHEN p THEN dt ELSE ts END", "CASE WHEN p THEN NULL ELSE 1 END",
        "if(p, i, 0)", "if(i <> 0, 10 / i, -1)", "if(p, 1, 2.5)", "coalesce(i, 0)", "coalesce(d, 0)",
        "coalesce(NULL, s, 'x')", "coalesce(x, i)", "coalesce(i, j, 5)", "nvl(s, 'none')", "ifnull(i, 5)",
        "nvl2(s, 'yes', 'no')", "nullif(i, 0)", "nullif(s, '')", "nullif(d, 0)", "nullif(i, 3.0)", "greatest(i, j)",
        "greatest(i, l, 5)", "greatest(x, y)", "least(x, y)", "least(s, q)", "greatest(d, e)",
        "least(dt, date '2000-01-01')", "greatest(i, NULL)", "least(d, 1)", "greatest(ts, dt)", "greatest(p, r)",
    ],
    "casts": [
        "CAST(i AS long)", "CAST(i AS double)", "CAST(i AS float)", "CAST(l AS float)", "CAST(l AS double)",
        "CAST(b AS int)", "CAST(i % 100 AS byte)", "CAST(i AS decimal(12,2))", "CAST(i AS string)",
        "CAST(i AS boolean)", "CAST(l AS string)", "CAST(y AS int)", "CAST(y AS long)", "CAST(y AS decimal(10,1))",
        "CAST(y AS boolean)", "CAST(f AS double)", "CAST(x AS float)", "CAST(f AS decimal(38,10))",
        "CAST(1.005D AS decimal(10,2))", "CAST(1e20 AS decimal(30,2))", "CAST(1.5e300 AS float)",
        "CAST(-1.5e300 AS float)", "CAST(d AS int)", "CAST(d AS double)", "CAST(w AS double)", "CAST(w AS float)",
        "CAST(e AS float)", "CAST(d AS string)", "CAST(w AS string)", "CAST(e AS decimal(10,1))", "CAST(d AS long)",
        "CAST(d AS boolean)", "CAST(num AS int)", "CAST(num AS long)", "CAST(num AS double)",
        "CAST(num AS decimal(10,2))", "CAST(num AS byte)", "CAST(day AS date)", "CAST(moment AS timestamp)",
        "CAST(moment AS timestamp_ntz)", "CAST(word AS boolean)", "CAST(p AS int)", "CAST(p AS string)",
        "CAST(p AS double)", "CAST(p AS decimal(3,1))", "TRY_CAST(s AS int)", "TRY_CAST(s AS double)",
        "TRY_CAST(s AS decimal(5,2))", "TRY_CAST(s AS date)", "TRY_CAST(s AS timestamp)", "TRY_CAST(s AS boolean)",
        "TRY_CAST(l AS int)", "TRY_CAST(i AS byte)", "TRY_CAST(x AS int)", "TRY_CAST(w AS decimal(5,1))",
        "TRY_CAST(d AS byte)", "TRY_CAST(x AS decimal(5,1))", "TRY_CAST('2021-02-30' AS date)",
        "TRY_CAST('1.5' AS int)", "TRY_CAST('1e3' AS int)", "TRY_CAST('1e3' AS double)",
        "TRY_CAST('1e3' AS decimal(10,1))", "TRY_CAST('.5' AS double)", "TRY_CAST('NaN' AS double)",
        "TRY_CAST('-Infinity' AS double)", "TRY_CAST('+inf' AS double)", "TRY_CAST('INF' AS double)",
        "TRY_CAST('1.5d' AS double)", "TRY_CAST('1F' AS double)", "TRY_CAST('1.5d' AS decimal(5,1))",
        "TRY_CAST('1l' AS int)", "TRY_CAST('5.' AS double)", "TRY_CAST('1_0' AS int)", "TRY_CAST('0x1' AS int)",
        "TRY_CAST('' AS int)", "TRY_CAST('2020-01-01 24:00:00' AS timestamp)", "TRY_CAST('999' AS byte)",
        "TRY_CAST('2020-13-01' AS date)", "TRY_CAST('2020-01-01x' AS date)", "TRY_CAST('x2020-01-01' AS date)",
        "TRY_CAST('2020-01-01T' AS date)", "TRY_CAST('2020/01/01' AS date)", "TRY_CAST('1.255' AS decimal(5,2))",
        "TRY_CAST('123456' AS decimal(5,2))", "CAST(dt AS string)", "CAST(ts AS string)", "CAST(nt AS string)",
        "CAST(dt AS timestamp)", "CAST(ts AS date)", "CAST(ts AS long)", "CAST(i AS timestamp)",
        "CAST(ts AS timestamp_ntz)", "CAST(nt AS timestamp)", "CAST(nt AS date)", "CAST(dt AS timestamp_ntz)",
        "CAST(NULL AS int)", "i::long", "date '2020-02-29'", "timestamp '2020-01-01 01:02:03'",
        "CAST('  12  ' AS int)",
    ],
    "strings": [
        "upper(s)", "lower(s)", "trim(s)", "ltrim(s)", "rtrim(s)", "trim(BOTH 'hd ' FROM s)",
        "trim(LEADING 'h' FROM s)", "trim(TRAILING 'd' FROM s)", "length(s)", "length(i)", "substring(s, 1, 3)",
        "substring(s, 0, 3)", "substring(s, -3, 2)", "substring(s, -30, 25)", "substring(s, 4)", "substr(s, j, 2)",
        "substring(s, j)", "substring(s, 2, -1)", "substring(s, i, j)", "substring(s, -2)", "substring(s, 1, i)",
        "substring(q, st.u)", "concat(s, q)", "concat(s, '-', i, dt)", "concat(s)", "concat(0.01, -0.50, j)",
        "s || q || 'x'", "s || i", "concat_ws(',', s, q, NULL)", "concat_ws('', s, i)", "concat_ws(q, 'a', 'b')",
        "replace(s, 'l', 'L')", "replace(s, q, '')", "replace(s, q)", "startswith(s, 'h')", "startswith(s, q)",
        "endswith(s, 'd')", "endswith(s, q)", "contains(s, q)", "contains(s, 'ß')", "lpad(s, 15, '*-')", "lpad(s, 3)",
        "lpad(s, j, 'ß')", "rpad(s, 15, '*-')", "rpad(s, 3)", "rpad(s, -1)", "rpad(s, 15)", "repeat(s, 2)",
        "repeat(s, 0)", "repeat(s, -1)", "reverse(s)", "instr(s, q)", "instr(s, 'b')", "locate(q, s)",
        "'it\\'s \\u00e9 \\\\ \\q'", "\"double\"", "r'raw\\n'", "'a\\nb\\tc'", "'x\\101'", "''",
    ],
    "numbers": [
        "abs(i)", "abs(x)", "abs(l)", "abs(f)", "abs(b)", "round(x)", "round(x, 2)", "round(y, 1)", "round(i)",
        "round(x * 1.1D, 3)", "round(1.005D, 2)", "round(2.5D)", "round(-2.5D)", "round(0.285D, 2)", "round(1e20, 2)",
        "round(123456789.125D, 2)", "if(abs(x) < 1e18, ceil(x), 0)", "floor(CAST('NaN' AS double))", "floor(y)",
        "ceil(y * 1000)", "ceil(i)", "floor(y)", "floor(-2.5F)", "floor(l)", "sqrt(x)", "sqrt(i)", "sign(x)",
        "sign(i)", "sign(d)", "mod(i, j)", "mod(x, y)", "exp(y)", "ln(x)", "ln(i)", "log10(x)", "log10(l)",
        "pow(x, y)", "power(i, 2)", "pow(2, j)", "pow(x, 0)", "exp(d / 1000000)", "sqrt(d)",
    ],
    "dates": [
        "year(dt)", "year(ts)", "quarter(dt)", "month(ts)", "day(nt)", "dayofmonth(dt)", "dayofweek(dt)",
        "dayofyear(ts)", "hour(ts)", "minute(ts)", "second(ts)", "hour(nt)", "hour(dt)",
        *(f"date_trunc('{unit}', ts)" for unit in UNITS), "date_trunc('month', dt)", "date_trunc('hour', nt)",
        "trunc(dt, 'year')", "trunc(dt, 'month')", "trunc(dt, 'week')", "trunc(ts, 'quarter')", "date_add(dt, 1)",
        "date_add(dt, b)", "date_sub(dt, -1)", "date_sub(ts, 1)", "datediff(dt, ts)",
        "datediff(ts, '2000-01-01'::date)", "datediff(nt, dt)", "unix_millis(ts)", "unix_micros(ts)",
        "unix_seconds(ts)", "timestamp_millis(i)", "timestamp_millis(l % 1000000000000)", "timestamp_micros(l)",
        "timestamp_seconds(i)", "timestamp_seconds(b)", "date_format(ts, 'yyyy-MM-dd HH:mm:ss.SSS')",
        "date_format(ts, 'yyyyMMdd')", "date_format(dt, \"yyyy/MM/dd'T'HH\")", "date_format(nt, 'HH:mm:ss.SSSSSS')",
        "to_date(day)", "to_date(ts)", "to_timestamp(moment)", "to_timestamp(dt)",
        "to_date(date_format(dt, 'dd.MM.yyyy'), 'dd.MM.yyyy')",
        "to_timestamp(date_format(ts, 'yyyyMMdd HHmmss'), 'yyyyMMdd HHmmss')",
        "to_timestamp('2020-02-29T01:02:03.456', \"yyyy-MM-dd'T'HH:mm:ss.SSS\")", "to_date('20200229', 'yyyyMMdd')",
    ],
    "nested": [
        "st.u", "st.v", "st.k.z", "st", "arr", "mp", "st.u + 1", "arr[0]", "arr[size(arr) - 1]", "get(arr, 0)",
        "get(arr, 1)", "get(arr, -1)", "get(arr, j)", "size(arr)", "size(mp)", "mp['k']", "mp['nope']", "mp[q]",
        "year(st.k.z)", "ST.U", "I",
    ],
}  # fmt: skip

ERRORS = [
    "CAST(127 AS byte) + CAST(1 AS byte)", "2147483647 + 1", "-2147483648 - 1", "9223372036854775807 + 1",
    "2147483647 * 2", "1 / 0", "1.5D / 0", "0 / 0", "1 % 0", "1.5D % 0", "1.5 / 0", "1 div 0", "mod(1, 0)",
    "-CAST(-128 AS byte)", "abs(CAST(-2147483648 AS int))", "CAST('x' AS int)", "CAST('1.5' AS int)",
    "CAST('' AS double)", "CAST('300' AS byte)", "CAST(300 AS byte)", "CAST(3e9 AS int)",
    "CAST('NaN' AS double) + CAST('q' AS int)", "CAST(123456 AS decimal(5,2))", "CAST('abc' AS date)",
    "CAST('2021-02-30' AS date)", "CAST('2021-01-01 25:00:00' AS timestamp)", "CAST('maybe' AS boolean)",
    "CAST('1x' AS decimal(5,2))", "arr[5]", "arr[-1]", "to_date('2021-13-01', 'yyyy-MM-dd')",
    "to_date('2021-1-01', 'yyyy-MM-dd')", "to_timestamp('garbage')", "timestamp_millis(9223372036854775807)",
    "timestamp_seconds(9223372036854775807)", "99999999.99BD * 99999999999999999999999999999999.0BD",
    "i + 2147483647", "l * 9223372036854775807", "CASE WHEN i = 3 THEN 1 / 0 END", "p AND 1 / (j - 2) > 0",
    "CAST(1e40 AS decimal(38,2))", "cast(x / 0 as int)", "ceil(CAST('inf' AS double))", "ceil(1e19)",
    "CAST(CAST('nan' AS double) AS int)", "to_date('2021-02-30', 'yyyy-MM-dd')",
]  # fmt: skip
SHARING = "spark.sql.subexpressionElimination.enabled"
LAST_BIT = re.compile(r"\b(exp|ln|log10|pow|power)\(")


def batch() -> pa.RecordBatch:
    rows = [
        {name: list(v.items()) if isinstance(v, dict) and name == "mp" else v for name, v in r.items()} for r in ROWS
    ]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA.arrow)


@pytest.fixture(scope="module")
def frame(spark):
    # Sharing subexpressions between columns makes Spark evaluate what AND and CASE would skip
    shared = spark.conf.get(SHARING)
    spark.conf.set(SHARING, "false")
    yield spark.createDataFrame(pa.Table.from_batches([batch()]), schema=SCHEMA.ddl)
    spark.conf.set(SHARING, shared)


def values(column):
    """Python values; dates and timestamps as numbers, because Python's own end with the year 9999."""
    kind = column.type
    if pa.types.is_date(kind):
        column = column.cast(pa.int32())
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.int64())
    return column.to_pylist()


def is_same(ours, theirs, expression) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        if LAST_BIT.search(expression):
            return math.isclose(ours, theirs, rel_tol=1e-15) or (math.isnan(ours) and math.isnan(theirs))
        return (math.isnan(ours) and math.isnan(theirs)) or repr(ours) == repr(theirs)
    return type(ours) is type(theirs) and ours == theirs


@pytest.mark.parametrize("group", GROUPS)
def test_values_and_types_equal_spark(frame, group):
    texts = GROUPS[group]
    theirs = frame.selectExpr(*(f"{text} AS c{i}" for i, text in enumerate(texts))).toArrow()
    columns = [(f"c{i}", parse_expression(text, SCHEMA)) for i, text in enumerate(texts)]
    ours = Projection(columns).apply(batch())
    problems = []
    for i, text in enumerate(texts):
        expected, found = canonical(theirs.column(i).type), ours.column(i).type
        if not found.equals(expected):
            problems.append(f"{text}: type {type_name(found)}, Spark says {type_name(expected)}")
        pairs = zip(values(ours.column(i)), values(theirs.column(i).combine_chunks()), strict=True)
        problems += [
            f"{text}: row {n}: {a!r}, Spark says {b!r}" for n, (a, b) in enumerate(pairs) if not is_same(a, b, text)
        ]
    assert not problems, "\n".join(problems)


def test_both_raise(spark, frame):
    first = frame.limit(1)
    silent = []
    for text in ERRORS:
        try:
            first.selectExpr(text).collect()
            silent.append(f"Spark: {text}")
        except Exception:
            pass
        try:
            Projection([("r", parse_expression(text, SCHEMA))]).apply(batch().slice(0, 1))
            silent.append(f"Projection: {text}")
        except StepFailed:
            pass
    assert not silent, "\n".join(silent)


def test_every_function_is_compared():
    text = " ".join(expression.lower() for group in GROUPS.values() for expression in group)
    assert [name for name in FUNCTIONS if f"{name}(" not in text] == []
