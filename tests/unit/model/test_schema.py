import dataclasses
import datetime as dt
import decimal
import typing
from typing import Annotated, NotRequired, Optional, TypedDict

import pyarrow as pa
import pytest

from millstream.errors import InvalidSchema
from millstream.model.schema import Field, Schema, schema_of
from millstream.model.types import canonical, parse_type, type_name

PLAIN = [
    "boolean",
    "byte",
    "short",
    "int",
    "long",
    "float",
    "double",
    "string",
    "binary",
    "date",
    "timestamp",
    "timestamp_ntz",
]
NESTED = [
    "decimal(1,0)",
    "decimal(38,38)",
    "array<array<long>>",
    "map<string,array<decimal(10,2)>>",
    "struct<a:int,b:struct<c:map<int,string>>>",
    "array<struct<`two words`:int,`a,b`:string,`x<y>`:date,`tick``ed`:int,`co:lon`:long>>",
]
NAMES = ["a", "größe", "two words", "a,b", "a:b", "x<y", "(", "not null", "tick`ed", "``", "1st", "select"]


@pytest.mark.parametrize("text", PLAIN + NESTED)
def test_the_ddl_of_every_type_reads_back(text):
    assert type_name(parse_type(text)) == text
    schema = schema_of(f"a {text}, b {text} NOT  NULL")
    assert schema.names == ("a", "b")
    assert [field.nullable for field in schema] == [True, False]
    assert schema_of(schema.ddl) == schema
    assert schema_of(schema.ddl).ddl == schema.ddl


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nullable", [True, False])
def test_every_name_survives_ddl(name, nullable):
    schema = Schema((Field(name, pa.int64(), nullable), Field("other", parse_type("map<int,decimal(5,2)>"))))
    assert schema_of(schema.ddl) == schema
    nested = Schema((Field("s", pa.struct([pa.field(name, pa.string())])),))
    assert schema_of(nested.ddl) == nested


@dataclasses.dataclass
class Inner:
    x: int
    tags: list[str]


@dataclasses.dataclass
class Order:
    flag: bool
    n: int
    x: float
    name: str
    raw: bytes
    price: Annotated[decimal.Decimal, "decimal(10,2)"]
    at: dt.datetime
    day: dt.date
    inner: Inner
    sizes: list[int | None]
    by_name: dict[str, float]
    note: str | None
    small: Annotated[int, pa.int16()]
    old: Optional[Annotated[int, "int"]]  # noqa: UP045
    both: Annotated[decimal.Decimal | None, "decimal(4,1)"]
    constant: typing.ClassVar[int] = 3


EXPECTED = (
    "flag boolean not null, n long not null, x double not null, name string not null, raw binary not null,"
    " price decimal(10,2) not null, at timestamp not null, day date not null,"
    " inner struct<x:long,tags:array<string>> not null, sizes array<long> not null, by_name map<string,double> not null,"
    " note string, small short not null, old int, both decimal(4,1)"
)


def test_a_dataclass():
    assert schema_of(Order).ddl == EXPECTED


def test_a_typed_dict_knows_optional_keys():
    class Given(TypedDict):
        a: int
        b: NotRequired[str]
        c: Annotated[decimal.Decimal, "decimal(3,1)"]

    class Loose(TypedDict, total=False):
        a: int

    assert schema_of(Given).ddl == "a long not null, b string, c decimal(3,1) not null"
    assert schema_of(Loose).ddl == "a long"


def test_a_pydantic_model():
    pydantic = pytest.importorskip("pydantic", reason="pydantic is not installed: the form is untested here")

    class Model(pydantic.BaseModel):
        model_config = pydantic.ConfigDict(frozen=True)
        user: str
        amount: Annotated[decimal.Decimal, "decimal(10,2)"]
        note: str | None = None

    assert schema_of(Model).ddl == "user string not null, amount decimal(10,2) not null, note string"


def test_a_mapping_and_an_arrow_schema():
    assert schema_of({"a": "long", "b": int, "c": pa.float16(), "d": list[str]}).ddl == (
        "a long, b long not null, c float, d array<string> not null"
    )
    arrow = pa.schema(
        [pa.field("a", pa.large_string(), nullable=False), pa.field("b", pa.dictionary(pa.int8(), pa.string()))]
    )
    assert schema_of(arrow).ddl == "a string not null, b string"
    assert schema_of(schema_of(arrow).arrow).arrow == schema_of(arrow).arrow


@pytest.mark.parametrize(
    ("arrow", "name"),
    [
        (pa.uint8(), "short"),
        (pa.uint64(), "decimal(20,0)"),
        (pa.date64(), "date"),
        (pa.timestamp("ns", tz="Europe/Berlin"), "timestamp"),
        (pa.timestamp("s"), "timestamp_ntz"),
        (pa.decimal256(38, 2), "decimal(38,2)"),
        (pa.decimal32(5, 2), "decimal(5,2)"),
        (pa.list_(pa.field("element", pa.int32()), 3), "array<int>"),
        (pa.map_(pa.large_string(), pa.uint16()), "map<string,int>"),
        (pa.struct([pa.field("a b", pa.binary(4))]), "struct<`a b`:binary>"),
    ],
)
def test_foreign_arrow_types_are_widened(arrow, name):
    assert type_name(canonical(arrow)) == name


@pytest.mark.parametrize(
    "arrow", [pa.decimal256(40, 2), pa.decimal128(5, -2), pa.decimal128(2, 3), pa.time64("us"), pa.duration("s")]
)
def test_types_that_would_lose_values_are_refused(arrow):
    with pytest.raises(InvalidSchema) as caught:
        canonical(arrow)
    assert caught.value.code == "SCHEMA-002"


@pytest.mark.parametrize(
    "bad",
    [
        "",
        "a",
        "a long,",
        "a longish",
        "a decimal(39,1)",
        "a decimal(2,3)",
        "a array<int",
        "a struct<>",
        "`a long",
        7,
        int,
        "a b c",
    ],
)
def test_what_is_not_a_schema_is_refused(bad):
    with pytest.raises(InvalidSchema):
        schema_of(bad)


@pytest.mark.parametrize(
    ("names", "code"), [(["a", "a"], "SCHEMA-004"), (["__ms_x"], "SCHEMA-003"), ([""], "SCHEMA-003")]
)
def test_names_are_checked(names, code):
    with pytest.raises(InvalidSchema) as caught:
        Schema(tuple(Field(name, pa.int64()) for name in names))
    assert caught.value.code == code


def test_an_unknown_column_lists_the_known_ones():
    with pytest.raises(InvalidSchema, match="known: a, b"):
        schema_of("a long, b long")["c"]
    assert schema_of("a long, b long").select(["b"]).ddl == "b long"
