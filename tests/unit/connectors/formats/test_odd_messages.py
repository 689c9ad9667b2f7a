"""Messages put together at random of what readers trip over: each is a row or bad, alone as next to others, and nothing ends."""

import random

import pytest
from tests.unit.connectors.formats.messages import check_neighbours, opened

from millstream.model.schema import schema_of

NUMBERS = [
    "0",
    "-0",
    "-0.0",
    "1.5",
    "1.0",
    "1e5",
    "1E400",
    "1e-400",
    "12345678901234567890",
    "9007199254740993",
    "01",
    "1_0",
]
TIMES = [
    "2024-01-01",
    "20240101",
    "2024-W01-1",
    "2024-01-01T24:00",
    "2024-01-01 00:00:00.123456789+01:30",
    "2024-01-01T00:00:00Z",
]
WORDS = [
    "",
    "a",
    " 1",
    "+1",
    "NaN",
    "nan",
    "sNaN",
    "Infinity",
    "-inf",
    "true",
    "TRUE",
    "NULL",
    "AQ==",
    "AQ=",
    "\u0661",
    "1E+400",
    "0x1F",
]
PARTS = [
    *(word.encode() for word in [*NUMBERS, *TIMES, *WORDS, "null", "\ufeff", "\x00", "\u2028", "'"]),
    *(
        b'"%s"' % word.encode()
        for word in [*NUMBERS, *TIMES, *WORDS, "\\ud800", "\\u0000", "__debezium_unavailable_value"]
    ),
    *(
        b"[%s]" % word.encode()
        for word in ["", "1", "1.5", "-0.0", "12345678901234567890", "null", '"x"', '"AQ=="', "[]", "{}"]
    ),
    *(
        b'{"%s":1}' % word.encode()
        for word in ["x", "true", "maybe", "1", "1.5", "1_0", "12345678901234567890", "2024-01-01"]
    ),
    *(b'{"scale":%s,"value":"AQ=="}' % scale for scale in [b"1", b"400", b"-400", b'"x"', b"12345678901234567890"]),
    *(b"\xff", b"\n", b"\r\n", b" ", b"{", b"}", b'"', b'""', b":", b","),
]
KINDS = [
    *(
        "long",
        "byte",
        "double",
        "float",
        "decimal(10,2)",
        "string",
        "binary",
        "boolean",
        "date",
        "timestamp",
        "timestamp_ntz",
    ),
]
NESTED = [
    *(
        "array<double>",
        "array<timestamp>",
        "array<decimal(5,1)>",
        "map<boolean,long>",
        "map<long,date>",
        "map<decimal(5,2),binary>",
    ),
    *(
        "map<timestamp,float>",
        "struct<x:timestamp,y:binary>",
        "struct<x:array<decimal(3,1)>>",
        "map<date,map<int,double>>",
    ),
]
ROUNDS = 400


def some(chance, at_most):
    return b"".join(chance.choice(PARTS) for _ in range(chance.randint(0, at_most)))


def json_message(chance):
    if chance.random() < 0.2:
        return some(chance, 5)
    return b'{"a":%s,"b":%s}' % (chance.choice(PARTS), chance.choice(PARTS))


def debezium_message(chance):
    if chance.random() < 0.1:
        return chance.choice([None, json_message(chance)])
    images = [chance.choice([b"null", b"{}", json_message(chance)]) for _ in range(2)]
    op = chance.choice([b'"c"', b'"u"', b'"d"', b'"r"', b'"t"', b'"m"', b"1"])
    message = b'{"op":%s,"before":%s,"after":%s,"source":{"ts_ms":%s}}' % (op, *images, chance.choice([b"5", *PARTS]))
    return b'{"schema":null,"payload":%s}' % message if chance.random() < 0.2 else message


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("format", ["json", "csv", "debezium"])
def test_odd_messages_are_rows_or_bad_wherever_they_stand(format, seed):
    chance = random.Random(seed)
    for _ in range(ROUNDS):
        kinds = chance.choices(KINDS if format == "csv" else [*KINDS, *NESTED], k=2)
        ddl = ", ".join(f"{name} {kind}" for name, kind in zip("ab", kinds, strict=True))
        if format == "debezium":
            options = {"envelope": {"op": "op", "at": "ts"}, "times": chance.choice(["ms", "us", "ns"])}
            messages, make = opened(format, schema_of(f"{ddl}, op string, at timestamp"), **options), debezium_message
        else:
            messages = opened(format, schema_of(ddl))
            make = json_message if format == "json" else (lambda drawn: some(drawn, 5))
        check_neighbours(messages, [make(chance) for _ in range(chance.randint(2, 5))])
