"""Values as they stand in json and csv, good and bad, for columns of every kind."""

from hypothesis import strategies as st

KINDS = [
    *("long", "int", "tinyint", "double", "float", "boolean", "string", "binary"),
    *("date", "timestamp", "timestamp_ntz", "decimal(10,2)"),
]
NESTED = ["array<double>", "array<float>", "struct<x:float,y:long>", "map<string,double>", "array<array<string>>"]

whole_numbers = st.integers(-(2**70), 2**70) | st.integers(-200, 200) | st.integers(2**53 - 3, 2**53 + 3)
numbers = st.one_of(
    whole_numbers.map(str),
    st.floats().map(repr),
    st.floats(width=32).map(repr),
    st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str),
    st.sampled_from(
        ["-0", "-0.0", "16777217", "1e400", "1e39", "1e-400", "0.1", "1.00000017881393432617187500001", "1" * 320]
    ),
)
times = st.one_of(
    st.datetimes().map(str),
    st.datetimes().map(lambda time: time.isoformat() + "Z"),
    st.dates().map(str),
    st.integers(-(10**12), 10**13).map(str),
    st.sampled_from(
        ["0000-01-01", "0000-05-01T00:00:00Z", "2024-05-01T12:30:00.123456789", "2024-05-01T12+02", "20240501"]
    ),
)
words = st.sampled_from(["", "true", "False", "tRue", "1", "NaN", "inf", "-Infinity", "AP8=", "ünï", "x y", "null"])

cells = st.one_of(
    numbers,
    times,
    words,
    words.map(lambda word: f'"{word}"'),
    st.sampled_from(["0x10", "0XfF", "-0x1", "+5", " 5 ", "\t1.5", " 2024-05-01 ", "1_0", '"a""b,\nc"', 'a"b', '"a"b']),
)
scalars = st.one_of(
    numbers,
    (times | words | numbers).map(lambda text: f'"{text}"'),
    st.sampled_from(
        ["null", "true", "false", "NaN", "Infinity", "-Infinity", "Inf", "-Inf", '"\\ud800"', '"\\u00e9"', "01"]
    ),
)
values = st.one_of(
    scalars,
    st.lists(scalars, max_size=3).map(lambda each: f"[{','.join(each)}]"),
    st.lists(st.tuples(st.sampled_from(["x", "y", "z"]), scalars), max_size=3, unique_by=lambda pair: pair[0]).map(
        lambda pairs: "{" + ",".join(f'"{name}":{value}' for name, value in pairs) + "}"
    ),
    st.sampled_from(["[" * 3000 + "]" * 3000, "[[null], null]", '[["a"]]']),
)


def text_of(fields):
    return "{" + ", ".join(f'"{name}": {value}' for name, value in fields.items()) + "}"
