"""Rows of captured changes: kinds, keys that change, long values that were not sent, columns beside those of the table."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from tests.unit.connectors.postgres_cdc.captured import LONG, MESSAGES

from millstream.connectors.postgres_cdc.columns import holds, typed_column
from millstream.connectors.postgres_cdc.messages import RelationColumn, TableRelation, block_of
from millstream.connectors.postgres_cdc.pgoutput import PgOutputDecoder, TableChanges
from millstream.connectors.postgres_cdc.positions import lsn_text
from millstream.connectors.postgres_cdc.relation import table_columns
from millstream.connectors.postgres_cdc.rows import ChangeRows
from millstream.connectors.postgres_cdc.spec import DECLARATION, postgres_cdc, table_schema
from millstream.contract.source import BadRecord
from millstream.errors import StepFailed
from millstream.model.connector import checked_options
from millstream.model.schema import Field, schema_of
from millstream.model.types import parse_type
from millstream.records.codecs import batch_to_rows

COLUMNS = "id long, customer string, amount decimal(10,2), note string"
FIRST, LAST = MESSAGES[:16], [MESSAGES[0], *MESSAGES[16:23]]
"""Before and behind the point where the table got another column and REPLICA IDENTITY FULL."""


def options_of(**given):
    spec = postgres_cdc("postgresql://ada@localhost/shop", table="orders", keys=["id"], slot="s", **given)
    return checked_options(DECLARATION.source.options, spec.options, step="orders", name="postgres_cdc")


def rows(messages, schema=COLUMNS + ", op string", *, look_up=None, **given):
    options, columns = options_of(**given), schema_of(schema)
    DECLARATION.source.check(options, columns, "orders")
    made = ChangeRows(options, columns, look_up=look_up)
    decoder = PgOutputDecoder(0x4000, lambda them: np.ones(len(them.xid), np.bool_), step="orders")
    found = []
    for part in decoder.decode(block_of([lsn.to_bytes(8) + body for lsn, body in messages], head=8, lsn_at=0)):
        assert isinstance(part, TableChanges)
        fitted = table_columns(part.relation, options, table_schema(options, columns), "orders")
        for rows_or_bad in made.rows(part, fitted):
            found += [rows_or_bad] if isinstance(rows_or_bad, BadRecord) else batch_to_rows(rows_or_bad)
    return found


def order(id, customer=None, amount=None, note=None, *, op):
    amount = None if amount is None else Decimal(amount)
    return {"id": id, "customer": customer, "amount": amount, "note": note, "op": op}


NOTE = LONG.decode()
INSERTS = [order(1, "ada", "4.50", op="insert"), order(2, "", None, NOTE, op="insert")]
KEY_CHANGE = [order(1, op="delete"), order(3, "ada", "4.50", op="insert"), order(3, op="delete")]


def test_by_key_with_a_placeholder():
    found = rows(
        FIRST,
        COLUMNS + ", op string, kept array<string>",
        metadata={"op": "op", "kept": "unchanged"},
        unchanged="placeholder",
        placeholder="?",
    )
    update = order(2, "", "5.00", "?", op="update")
    assert [row.pop("kept") for row in found] == [[], [], ["note"], [], [], []]
    assert found == [*INSERTS, update, *KEY_CHANGE], "a key that changes is a row that goes and one that comes"


def test_a_placeholder_may_be_null():
    metadata = {"op": "op", "kept": "unchanged"}
    found = rows(FIRST, COLUMNS + ", op string, kept array<string>", metadata=metadata, unchanged="placeholder")
    assert (found[2]["note"], found[2]["kept"]) == (None, ["note"])


def test_a_long_value_that_was_not_sent_makes_a_change_bad():
    found = rows(FIRST)
    (bad,) = [part for part in found if isinstance(part, BadRecord)]
    good = [part for part in found if part is not bad]
    assert "left note as it was" in bad.error
    assert bad.origin == f"orders@{lsn_text(MESSAGES[8][0])}"
    assert '"amount": "5.00"' in bad.raw
    assert good == [*INSERTS, *KEY_CHANGE]


def test_a_long_value_that_was_not_sent_is_looked_up():
    asked = []

    def look_up(keys, names):
        asked.append((keys, list(names)))
        return [[b"as it is now"]]

    found = rows(FIRST, look_up=look_up, unchanged="lookup")
    assert asked == [([[b"2"]], ["note"])]
    assert found[2] == order(2, "", "5.00", "as it is now", op="update")


def test_a_column_that_is_not_declared_may_be_unchanged():
    found = rows(FIRST, "id long, amount decimal(10,2), op string", on_ddl="ignore_new")
    assert found[2] == {"id": 2, "amount": Decimal("5.00"), "op": "update"}


def test_a_full_row_fills_what_the_new_one_does_not_repeat():
    found = rows(LAST, COLUMNS + ", extra int, op string")
    assert found == [
        {**order(2, "", "5.00", NOTE, op="update"), "extra": 1},
        {**order(2, op="delete"), "extra": None},
    ]


def test_whole_rows_come_and_go():
    found = rows(LAST, COLUMNS + ", extra int, op string", images="both")
    row = order(2, "", "5.00", NOTE, op="delete")
    assert found == [
        {**row, "extra": None},
        {**row, "extra": 1, "op": "insert"},
        {**row, "extra": 1},
    ]


def test_everything_else_that_is_known_of_a_change():
    schema = "id long, customer string, o string, l long, t timestamp, x long, was struct<customer: string, id: long>"
    metadata = {"o": "op", "l": "lsn", "t": "commit_time", "x": "xid", "was": "before"}
    found = rows(FIRST, schema, metadata=metadata, on_ddl="ignore_new")
    assert [row["was"] for row in found] == [
        None,
        None,
        None,
        *[{"customer": None, "id": 1}] * 2,
        {"customer": None, "id": 3},
    ]
    assert [row["x"] for row in found] == [0x2F4, 0x2F4, 0x2F5, 0x2F6, 0x2F6, 0x2F7]
    assert [row["l"] for row in found[:2]] == [24264208, 24267832]
    assert found[0]["t"].date() == dt.date(2026, 11, 18)


def test_before_holds_the_whole_row_where_it_is_sent():
    schema = COLUMNS + ", extra int, op string, was struct<amount: decimal(10,2), extra: int>"
    update, delete = rows(LAST, schema, metadata={"op": "op", "was": "before"})
    assert update["was"] == {"amount": Decimal("5.00"), "extra": None}
    assert delete["was"] == {"amount": Decimal("5.00"), "extra": 1}


def test_a_value_that_is_none_of_its_column_is_a_bad_record_and_its_neighbours_stay():
    tight = "id long, customer string, amount decimal(2,1), note string, op string"
    found = rows([*FIRST[:3], (1, FIRST[2][1].replace(b"4.50", b"4.55")), FIRST[2]], tight)
    assert [type(part).__name__ for part in found] == ["dict", "BadRecord", "dict"]
    assert found[0]["amount"] == Decimal("4.5"), "a digit that is zero is none too many"
    assert (found[1].origin, "column 'amount'" in found[1].error) == ("orders@0/1", True)


# The contract of columns


def relation(*columns, identity="d"):
    return TableRelation(1, "public", "orders", identity, tuple(RelationColumn(*column) for column in columns))


ID, NAME = ("id", 20, True), ("name", 25, False)


def fitted(found, schema="id long, name string", **given):
    return table_columns(found, options_of(**given), schema_of(schema), "orders")


def test_columns_are_found_by_their_names():
    assert fitted(relation(NAME, ID)).places == (1, 0)
    assert fitted(relation(NAME, ID)).keys == (1,)


@pytest.mark.parametrize(
    ("found", "mode", "code"),
    [
        (relation(ID, NAME, ("new", 23, False)), "fail", "CDC-009"),
        (relation(ID, NAME, ("new", 23, False)), "ignore_new", None),
        (relation(ID, NAME, ("new", 23, False)), "null_missing", None),
        (relation(ID), "fail", "CDC-009"),
        (relation(ID), "ignore_new", "CDC-009"),
        (relation(ID), "null_missing", None),
        (relation(NAME), "null_missing", "CDC-009"),
        (relation(("id", 25, True), NAME), "null_missing", "CDC-009"),
        (relation(("id", 23, True), NAME), "fail", None),
        (relation(("id", 20, False), ("name", 25, True)), "fail", "CDC-010"),
        (relation(ID, NAME, identity="n"), "fail", None),
    ],
)
def test_what_a_table_may_become(found, mode, code):
    if code is None:
        fitted(found, on_ddl=mode)
        return
    with pytest.raises(StepFailed) as refused:
        fitted(found, on_ddl=mode)
    assert refused.value.code == code


def test_whole_rows_need_the_full_identity():
    fitted(relation(ID, NAME, identity="f"), images="both")
    with pytest.raises(StepFailed) as refused:
        fitted(relation(ID, NAME), images="both")
    assert refused.value.code == "CDC-010"
    assert "REPLICA IDENTITY FULL" in refused.value.hint


# Values


@pytest.mark.parametrize(
    ("kind", "texts", "expected"),
    [
        ("boolean", [b"t", b"f", None], [True, False, None]),
        ("boolean", [None, None], [None, None]),
        ("long", [b"-9223372036854775808", None], [-(2**63), None]),
        ("double", [b"NaN", b"Infinity", b"1e-3"], [float("nan"), float("inf"), 0.001]),
        ("decimal(10,2)", [b"1", b"1.5", b"-0.25"], [Decimal("1.00"), Decimal("1.50"), Decimal("-0.25")]),
        ("binary", [b"\\x00ff", b"\\x"], [b"\x00\xff", b""]),
        ("string", ["ü".encode(), b""], ["ü", ""]),
        ("date", [b"2024-02-29"], [dt.date(2024, 2, 29)]),
        ("timestamp_ntz", [b"2024-02-29 01:02:03.5"], [dt.datetime(2024, 2, 29, 1, 2, 3, 500000)]),
        ("timestamp", [b"2024-02-29 01:02:03+00"], [dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.UTC)]),
    ],
)
def test_values_as_the_server_writes_them(kind, texts, expected):
    found = typed_column(pa.array(texts, pa.large_binary()), Field("c", parse_type(kind)))
    assert found.type == parse_type(kind)
    assert str(found.to_pylist()) == str(pa.array(expected, parse_type(kind)).to_pylist())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("boolean", b"yes"),
        ("int", b"3000000000"),
        ("decimal(4,2)", b"123.45"),
        ("decimal(10,2)", b"NaN"),
        ("timestamp", b"infinity"),
        ("timestamp", b"0044-03-15 12:00:00+00 BC"),
        ("date", b"10000-01-01"),
        ("binary", b"abc"),
        ("string", b"\xff"),
    ],
)
def test_values_that_a_column_cannot_hold(kind, text):
    with pytest.raises(ValueError, match="column 'c'"):
        typed_column(pa.array([text], pa.large_binary()), Field("c", parse_type(kind)))


def test_null_where_none_may_be():
    with pytest.raises(ValueError, match="is null"):
        typed_column(pa.array([None], pa.large_binary()), Field("c", pa.int64(), nullable=False))


def test_which_types_a_column_takes():
    oids = (16, 20, 21, 23, 25, 701, 1184, 1700, 2950)
    expected = {
        "string": [16, 20, 21, 23, 25, 701, 1184, 1700, 2950],
        "long": [20, 21, 23],
        "int": [21, 23],
        "double": [701, 1700],
        "decimal(5,1)": [20, 21, 23, 1700],
        "timestamp": [1184],
        "boolean": [16],
    }
    for kind, taken in expected.items():
        assert [oid for oid in oids if holds(Field("c", parse_type(kind)), oid)] == taken, kind
    assert holds(Field("c", pa.int64()), 16385), "values of types that users made tell themselves"
