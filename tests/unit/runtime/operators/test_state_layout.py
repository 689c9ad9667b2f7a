"""Layouts say what operators store: types by their fields, columns by their Arrow schema, everything under the uid."""

import collections
import dataclasses
import datetime as dt
import decimal
import enum
import typing

import msgspec
import pyarrow as pa
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.graph.stored_type import canonical, schema_text, stored_schema
from millstream.runtime.operators.kinds import stores_of
from millstream.runtime.operators.layouts import layouts_of
from millstream.state.layout import SlotLayout, StateLayout
from millstream.state.slots import Slot

SCHEMA = "k string, v long, at long"
ROWS = [{"k": "a", "v": 1, "at": 5}, {"k": "b", "v": 2, "at": 6}, {"k": "a", "v": 3, "at": 7}]


@dataclasses.dataclass
class Price:
    amount: int
    currency: str = "EUR"


@dataclasses.dataclass
class Cost:
    amount: int
    currency: str = "USD"


class PriceStruct(msgspec.Struct):
    amount: int
    currency: str = "EUR"


class PriceDict(typing.TypedDict):
    amount: int
    currency: typing.NotRequired[str]


class PriceTuple(typing.NamedTuple):
    amount: int
    currency: str = "EUR"


class PriceRow(msgspec.Struct, array_like=True):
    amount: int
    currency: str = "EUR"


@dataclasses.dataclass
class Tree:
    value: int
    children: list["Tree"] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Bush:
    value: int
    children: list["Bush"] = dataclasses.field(default_factory=list)


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


OBJECT = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "currency": {"type": "string"}},
    "required": ["amount"],
}
FIELDS = [{"type": "integer", "title": "amount"}, {"type": "string", "title": "currency"}]
TYPES = [
    (int, {"type": "integer"}, "integer"),
    (float, {"type": "number"}, "number"),
    (bool, {"type": "boolean"}, "boolean"),
    (str, {"type": "string"}, "string"),
    (bytes, {"type": "string", "format": "binary"}, "binary"),
    (dt.datetime, {"type": "string", "format": "date-time"}, "date-time"),
    (dt.date, {"type": "string", "format": "date"}, "date"),
    (decimal.Decimal, {"type": "string", "format": "decimal"}, "decimal"),
    (typing.Any, {}, "anything"),
    (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
    (list[int], {"type": "array", "items": {"type": "integer"}}, "array of integer"),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}, "array of integer"),
    (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}, "set of string"),
    (
        dict[int, str],
        {"type": "object", "propertyNames": {"type": "integer"}, "additionalProperties": {"type": "string"}},
        "map of integer to string",
    ),
    (
        tuple[int, str],
        {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "items": False},
        "tuple (integer, string)",
    ),
    (typing.Literal["b", "a"], {"enum": ["a", "b"]}, "one of 'a', 'b'"),
    (Colour, {"enum": ["blue", "red"]}, "one of 'blue', 'red'"),
    (Price, OBJECT, "object {amount, currency}"),
    (PriceStruct, OBJECT, "object {amount, currency}"),
    (PriceDict, OBJECT, "object {amount, currency}"),
    (
        PriceTuple,
        {"type": "array", "prefixItems": FIELDS, "minItems": 1, "items": False},
        "tuple (integer, string)",
    ),
    (PriceRow, {"type": "array", "prefixItems": FIELDS, "minItems": 1}, "tuple (integer, string)"),
    (
        typing.Annotated[int, msgspec.Meta(ge=0)],
        {"type": "integer", "minimum": 0},
        "integer (minimum 0)",
    ),
]


@pytest.mark.parametrize(("kind", "schema", "text"), TYPES, ids=lambda value: str(value)[:40])
def test_the_schema_of_a_type(kind, schema, text):
    assert stored_schema(kind) == schema
    assert schema_text(schema) == text


def test_the_names_of_classes_do_not_matter():
    assert stored_schema(list[Price]) == stored_schema(list[Cost])
    assert stored_schema(Tree) == stored_schema(Bush)


def test_a_class_may_hold_itself():
    assert stored_schema(Tree)["properties"]["children"] == {"type": "array", "items": {"$ref": "#"}}
    assert stored_schema(dict[str, Tree])["additionalProperties"]["properties"]["children"] == {
        "type": "array",
        "items": {"$ref": "#/additionalProperties"},
    }


def test_maps_by_different_keys_differ():
    """msgspec's own JSON schema does not tell them apart."""
    assert canonical(stored_schema(dict[int, int])) != canonical(stored_schema(dict[str, int]))
    assert stored_schema(str) != stored_schema(dt.datetime)


def up(content, version):
    return content


class Function(ms.ProcessFunction):
    total = ms.ValueState(Price, version=3, migrate=up)
    recent = ms.ListState(int, ttl="1h")
    names = ms.MapState(str, float)

    def process(self, row, ctx):
        self.total.update(Price(row["v"]))
        self.recent.add(row["v"])
        self.names.put("x", 1.0)
        ctx.event_timer(10**9)


def latest(held, came):
    return came


def collected(key, window, rows):
    yield from rows


def job(uid=None):
    made = ms.Job("layouts", max_parallelism=16)
    keyed = made.source("in", ms.memory([]), schema=SCHEMA).event_time("at").key_by("k")
    hour = keyed.window(ms.tumbling("1h"))
    steps = [
        keyed.process(Function, schema=SCHEMA, id="process", uid=uid),
        keyed.reduce(latest, id="reduce"),
        keyed.aggregate(n=ms.count(), top=ms.max("v"), emit="row", id="running"),
        keyed.aggregate(n=ms.count(), total=ms.sum("v"), emit="end", id="aggregate"),
        hour.aggregate(mean=ms.avg("v"), id="window"),
        hour.reduce(latest, id="reduced"),
        hour.process(collected, schema=SCHEMA, id="collected"),
        keyed.window(ms.session("1h")).aggregate(n=ms.count(), id="sessions"),
        keyed.window(ms.session("1h")).aggregate(v=ms.first("v"), id="ordered"),
    ]
    for step in steps:
        step.sink(f"{step.step}-out", ms.collect("o"))
    return made


LAYOUTS = layouts_of(job().compile().deployment)
NULLABLE = [{"anyOf": [{"type": kind}, {"type": "null"}]} for kind in ("string", "integer", "integer")]
ROW = {"type": "array", "prefixItems": NULLABLE, "minItems": 3, "items": False}
DDL = "k string, v long, at long"


def test_every_keyed_step_has_one():
    names = ["process", "reduce", "running", "aggregate", "window", "reduced", "collected", "sessions", "ordered"]
    assert list(LAYOUTS) == names
    for name, layout in LAYOUTS.items():
        assert (layout.uid, layout.keys, layout.key_groups, layout.level) == (name, "k string", 16, 1)


def test_the_slots_of_a_process_function():
    assert LAYOUTS["process"].form == "entries"
    assert LAYOUTS["process"].slots == [
        SlotLayout(name="total", kind="value", type=OBJECT, version=3),
        SlotLayout(name="recent", kind="list", type={"type": "array", "items": {"type": "integer"}}, expires=True),
        SlotLayout(
            name="names",
            kind="map",
            type={"type": "object", "propertyNames": {"type": "string"}, "additionalProperties": {"type": "number"}},
        ),
    ]


@pytest.mark.parametrize(
    ("step", "slot", "settings"),
    [
        ("reduce", "running", {"row": DDL}),
        ("running", "running", {"aggregates": ["n = count as long", "top = max as long"]}),
        ("reduced", "windows", {"closed_by": "reduce", "row": DDL}),
        ("collected", "windows", {"closed_by": "process", "row": DDL}),
        ("ordered", "windows", {"closed_by": "aggregates", "aggregates": ["v = first as long"]}),
    ],
)
def test_operators_of_ours_have_one_slot(step, slot, settings):
    layout = LAYOUTS[step]
    assert layout.form == "entries"
    assert [(s.name, s.kind) for s in layout.slots] == [(slot, slot)]
    assert {key: value for key, value in layout.settings.items() if key != "window"} == settings


def test_the_content_of_kept_rows():
    assert LAYOUTS["reduce"].slots[0].type == ROW
    window = LAYOUTS["collected"].slots[0].type["items"]["prefixItems"]
    assert window == [{"type": "integer"}, {"type": "integer"}, {"type": "array", "items": ROW}]


@pytest.mark.parametrize(
    ("step", "columns"),
    [
        ("aggregate", ["k", "__ms_part0_0", "__ms_part1_0", "__ms_time"]),
        ("window", ["k", "__ms_bin", "__ms_part0_0", "__ms_part0_1"]),
        ("sessions", ["k", "__ms_start", "__ms_end", "__ms_part0_0"]),
    ],
)
def test_columnar_steps_tell_their_columns(step, columns):
    layout = LAYOUTS[step]
    assert (layout.form, layout.slots) == ("columns", [])
    assert layout.column_schema.names == columns
    assert layout.column_schema.field("k").type == pa.string()


def test_windows_are_settings():
    assert LAYOUTS["window"].settings["window"]["size"] == 3_600_000
    assert LAYOUTS["sessions"].settings["window"]["kind"] == "session"


def test_layouts_are_json():
    text = msgspec.json.encode(LAYOUTS)
    assert msgspec.json.decode(text, type=dict[str, StateLayout]) == LAYOUTS


def test_nullability_of_keys_does_not_matter():
    def keys(schema):
        made = ms.Job("keys")
        rows = made.source("in", ms.memory([]), schema=schema)
        rows.key_by("k").reduce(latest, id="r").sink("out", ms.collect("o"))
        return layouts_of(made.compile().deployment)["r"]

    assert keys("k string not null, v long") == keys("k string, v long not null")


def test_operators_store_what_their_layout_says():
    """Every slot and column that is written decodes as the shared definition says, under the step's uid."""
    epochs = Epochs(job(uid="renamed"))
    epochs.run(ROWS, watermark=0)
    nodes = {v.vertex.head.uid: v.vertex.head for v in epochs.deployment.plan.vertices if v.vertex.is_keyed}
    pages = collections.defaultdict(list)
    for store in epochs.stores.values():
        for key in store:
            uid, rest = key.split("/", 1)
            if rest != "directory":
                pages[uid].append(store.get(key))
    assert set(pages) == set(nodes)
    assert "renamed" in pages
    for uid, contents in pages.items():
        stored = next(store.content for store in stores_of(nodes[uid]) if store.uid == uid)
        keys = sum(_entries(content, stored) for content in contents)
        assert keys == 2, uid


def _entries(content, stored):
    if isinstance(stored, pa.Schema):
        return pa.ipc.read_record_batch(pa.py_buffer(content), stored).num_rows
    assert all(isinstance(slot, Slot) for slot in stored)
    entries = msgspec.msgpack.decode(content)[0].values()
    for entry in entries:
        for slot, found in zip(stored, entry, strict=False):
            msgspec.convert(found, slot.stored_type, strict=False)
        assert len(entry) == len(stored) + 3
    return len(entries)
