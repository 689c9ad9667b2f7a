"""One verdict per step, source and sink when a changed job meets what an earlier version of it stored."""

import dataclasses
import typing

import msgspec
import pytest

import millstream as ms
from millstream.graph.stored_type import stored_schema
from millstream.jobmaster.compatibility import JobShape, compare, obstacles_in_place, shape_of
from millstream.state.compat.layout_changes import layout_changes
from millstream.state.compat.type_changes import type_changes

SCHEMA = "k string, v long, at long"
Optional, NotRequired = typing.Optional, typing.NotRequired


def record(**fields):
    """A dataclass; a field is a type, or (type, default)."""
    made = [(n, f[0], dataclasses.field(default=f[1])) if isinstance(f, tuple) else (n, f) for n, f in fields.items()]
    return dataclasses.make_dataclass("Record", made)


def row(**fields):
    """A struct that is stored as an array: fields by position."""
    made = [(name, *field) if isinstance(field, tuple) else (name, field) for name, field in fields.items()]
    return msgspec.defstruct("Row", made, array_like=True)


def named(**fields):
    return typing.NamedTuple("Named", list(fields.items()))


def closed(**fields):
    return msgspec.defstruct("Closed", list(fields.items()), forbid_unknown_fields=True)


def at_least(bound):
    return typing.Annotated[int, msgspec.Meta(ge=bound)]


READABLE = [
    (int, float, "x: integer → number"),
    (int, int | None, "x: integer → integer or null"),
    (int, typing.Any, "x: integer → anything"),
    (list[int], list[float], "x[]: integer → number"),
    (dict[str, int], dict[str, float], "x.*: integer → number"),
    (Optional[int], Optional[float], "x: integer → number"),
    (typing.Literal["a"], typing.Literal["a", "b"], "x: one of 'a' → one of 'a', 'b'"),
    (record(a=int), record(a=int, b=(str, "")), "x.b: nothing → string with a default"),
    (record(a=int, b=str), record(a=int), "x.b: string → nothing"),
    (record(a=int), record(a=float), "x.a: integer → number"),
    (record(a=record(b=int)), record(a=record(b=float)), "x.a.b: integer → number"),
    (Optional[record(a=int)], Optional[record(a=float)], "x.a: integer → number"),
    (tuple[int, str], tuple[float, str], "x[0]: integer → number"),
    (row(a=int), row(a=int, b=(str, "")), "x.b: nothing → string with a default"),
    (row(a=int, b=str), row(a=int), "x.b: string → nothing"),
    (named(a=int), named(a=float), "x.a: integer → number"),
    (closed(a=int), record(a=int), None),
    (record(a=int), record(a=(int, 0)), None),
    (int | None, None | int, None),
]
UNREADABLE = [
    (int, str, "x: integer → string"),
    (float, int, "x: number → integer"),
    (int | None, int, "x: integer or null → integer"),
    (typing.Any, int, "x: anything → integer"),
    (str, bytes, "x: string → binary"),
    (list[int], set[int], "x[]: array of integer → set of integer"),
    (list[int], dict[str, int], "x: array of integer → map of string to integer"),
    (list[int], tuple[int, int], "x: array of integer → tuple (integer, integer)"),
    (dict[int, int], dict[str, int], "x: map of integer to integer → map of string to integer"),
    (dict[str, int], record(a=int), "x: map of string to integer → object {a}"),
    (typing.Literal["a", "b"], typing.Literal["a"], "x: one of 'a', 'b' → one of 'a'"),
    (record(amount=int), record(amount=str), "x.amount: integer → string"),
    (record(a=record(b=int)), record(a=record(b=str)), "x.a.b: integer → string"),
    (Optional[record(a=int)], Optional[record(a=str)], "x.a: integer → string"),
    (list[record(a=int)], list[record(a=str)], "x[].a: integer → string"),
    (record(a=int), record(a=int, b=str), "x.b: nothing → string without a default"),
    (record(a=(int, 0)), record(a=int), "x.a: optional → integer without a default"),
    (record(a=int, b=int), closed(a=int), "x.b: integer → nothing, and unknown fields are forbidden"),
    (tuple[int, str], tuple[int], "x[1]: string → nothing"),
    (tuple[int], tuple[int, str], "x[1]: nothing → string without a default"),
    (row(a=int, b=int), row(b=int, a=int), "x[0]: a (integer) → b (integer)"),
    (row(a=int, b=(int, 0)), row(a=int, b=int), "x.b: optional → integer without a default"),
    (named(a=int, b=str), named(a=int), "x.b: string → nothing"),
    (named(a=int), named(a=int, b=str), "x.b: nothing → string without a default"),
    (at_least(0), at_least(1), "x: integer (minimum 0) → integer (minimum 1)"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "change"), READABLE)
def test_types_that_read_each_other(old, new, change):
    changes = type_changes(stored_schema(old), stored_schema(new), "x")
    assert {found.verdict for found in changes} <= {"compatible"}
    assert change is None or change in map(str, changes)


@pytest.mark.parametrize(("old", "new", "change"), UNREADABLE)
def test_types_that_do_not(old, new, change):
    changes = type_changes(stored_schema(old), stored_schema(new), "x")
    assert change in [str(found) for found in changes if found.verdict == "incompatible"]


SAMPLES = {
    int: [3], str: ["a"], float: [2.5], int | None: [3, None], list[int]: [[1, 2], []], dict[str, int]: [{"a": 1}],
    typing.Literal["a"]: ["a"], Optional[int]: [None, 4], tuple[int, str]: [(1, "x")],
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [(old, new) for old, new, _ in READABLE])
def test_what_is_called_readable_is(old, new):
    """The verdict against msgspec itself: content of the old type decodes as the new one."""
    for content in SAMPLES.get(old) or [_sample(old)]:
        msgspec.msgpack.decode(msgspec.msgpack.encode(content), type=new)


def _sample(kind):
    if typing.get_args(kind):
        return _sample(typing.get_args(kind)[0])
    if kind in SAMPLES:
        return SAMPLES[kind][0]
    return kind(**{name: _sample(hint) for name, hint in typing.get_type_hints(kind).items()})


# Whole jobs


def upgrade(content, version):
    return content


def function(**states):
    members = {"process": lambda self, row, ctx: [row], **states}
    return type("Function", (ms.ProcessFunction,), members)


def latest(held, came):
    return came


BASE = {
    "states": {"total": ms.ValueState(record(amount=int)), "recent": ms.ListState(int)},
    "keys": ("k",),
    "window": ms.tumbling("1m"),
    "lateness": 0,
    "aggregates": {"n": ms.count(), "x": ms.sum("v")},
    "emit": "epoch",
    "schema": SCHEMA,
    "source": ms.memory([]),
    "job": {},
    "process": {"id": "p"},
    "reduce": {"id": "r"},
    "sink": ms.collect("o"),
    "more": lambda stream: stream,
    "where": "v > 0",
}


def shape(**changes):
    given = BASE | changes
    job = ms.Job("job", guarantee="at_least_once", **given["job"])
    stream = job.source("in", given["source"], schema=given["schema"]).event_time("at", id="time")
    stream = given["more"](stream.filter(given["where"], id="filter"))
    keyed = stream.key_by(*given["keys"])
    out = keyed.process(function(**given["states"]), schema=SCHEMA, **given["process"])
    out.sink("out", given["sink"])
    window = keyed.window(given["window"], allowed_lateness=given["lateness"])
    window.aggregate(**given["aggregates"], id="w").sink("w-out", ms.collect("o"))
    keyed.aggregate(**given["aggregates"], emit=given["emit"], id="a").sink("a-out", ms.collect("o"))
    if given["reduce"]:
        keyed.reduce(latest, **given["reduce"]).sink("r-out", ms.collect("o"))
    return shape_of(job.compile().deployment)


def states(**changed):
    return {"states": {name: state for name, state in (BASE["states"] | changed).items() if state is not None}}


STATE = ("p", "w", "a", "r")
# (changes, the lines that are not identical, with the details of each)
CASES = {
    "nothing": ({}, {}),
    "stateless steps": ({"where": "v > 7", "more": lambda s: s.with_columns(w="v").select("k", "v", "at")}, {}),
    "lateness": ({"lateness": "5s"}, {}),
    "emit at the end": ({"emit": "end"}, {}),
    "interval": ({"job": {"epoch_interval": "9s"}}, {}),
    "renamed with a uid": ({"process": {"id": "new", "uid": "p"}}, {}),
    "renamed without": (
        {"process": {"id": "new"}},
        {"state new": ("new", ["starts without state"]), "state p": ("dropped", ["its state is left behind"])},
    ),
    "a step less": (
        {"reduce": None},
        {"state r": ("dropped", ["its state is left behind"]), "sink r-out": ("dropped", ["what it wrote stays as it is"])},
    ),
    "a state more": (states(extra=ms.ValueState(int)), {"state p": ("compatible", ["extra: nothing → integer"])}),
    "a state less": (states(recent=None), {"state p": ("dropped", ["recent: array of integer → nothing"])}),
    "states in another order": (
        {"states": dict(reversed(BASE["states"].items()))},
        {"state p": ("compatible", ["order of states: total, recent → recent, total"])},
    ),
    "a field with a default": (
        states(total=ms.ValueState(record(amount=int, note=(str, "")))),
        {"state p": ("compatible", ["total.note: nothing → string with a default"])},
    ),
    "another type": (
        states(total=ms.ValueState(record(amount=str))),
        {"state p": ("incompatible", ["total.amount: integer → string"])},
    ),
    "another type, raised without migrate": (
        states(total=ms.ValueState(record(amount=str), version=2)),
        {"state p": ("incompatible", ["total.amount: integer → string", "total version: 1 → 2 without migrate="])},
    ),
    "another type, migrate without a raise": (
        states(total=ms.ValueState(record(amount=str), migrate=upgrade)),
        {"state p": ("incompatible", ["total.amount: integer → string"])},
    ),
    "another type, migrated": (
        states(total=ms.ValueState(record(amount=str), version=2, migrate=upgrade)),
        {"state p": ("compatible", ["total version: 1 → 2, migrated", "total.amount: integer → string"])},
    ),
    "raised only": (
        states(total=ms.ValueState(record(amount=int), version=2)),
        {"state p": ("compatible", ["total version: 1 → 2"])},
    ),
    "one migrated, one not": (
        {"states": {
            "total": ms.ValueState(record(amount=str), version=2, migrate=upgrade), "recent": ms.ListState(str)}},
        {"state p": ("incompatible", [
            "recent[]: integer → string", "total version: 1 → 2, migrated", "total.amount: integer → string"])},
    ),
    "begins to expire": (
        states(recent=ms.ListState(int, ttl="1h")),
        {"state p": ("compatible", ["recent ttl: stays → expires"])},
    ),
    "value of a list for a list": (
        states(recent=ms.ValueState(list[int])),
        {"state p": ("compatible", ["recent kind: list → value"])},
    ),
    "window": (
        {"window": ms.sliding("2m", "1m")},
        {"state w": ("incompatible", ["window kind: tumbling → sliding", "window size: 1m → 2m"])},
    ),
    "session": (
        {"window": ms.session("1m")},
        {"state w": ("incompatible", [
            "window gap: 0s → 1m", "window kind: tumbling → session",
            "window size: 1m → 0s", "window slide: 1m → 0s"])},
    ),
    "aggregates": (
        {"aggregates": {"n": ms.count(), "x": ms.max("v")}},
        {name: ("incompatible", ["aggregates: n = count as long, x = sum as long → n = count as long, x = max as long"])
         for name in ("state w", "state a")},
    ),
    "type of an aggregate": (
        {"aggregates": {"n": ms.count(), "x": ms.sum("CAST(v AS double)")}},
        {name: ("incompatible", ["aggregates: n = count as long, x = sum as long → n = count as long, x = sum as double"])
         for name in ("state w", "state a")},
    ),
    "what is aggregated": ({"aggregates": {"n": ms.count(), "x": ms.sum("v * 2")}}, {}),
    "emit per row": ({"emit": "row"}, {"state a": ("incompatible", ["form: columns → entries"])}),
    "keys": (
        {"keys": ("k", "v")},
        {f"state {uid}": ("incompatible", ["keys: k string → k string, v long"]) for uid in STATE},
    ),
    "key groups": (
        {"job": {"max_parallelism": 64}},
        {f"state {uid}": ("incompatible", ["key_groups: 128 → 64"]) for uid in STATE},
    ),
    "kept rows": (
        {"schema": "k string, v long, at long, more string"},
        {"state r": ("incompatible", ["row: k string, v long, at long → k string, v long, at long, more string"])},
    ),
    "another connector": ({"source": ms.files("in/")}, {"source in": ("incompatible", ["connector: memory → files"])}),
}  # fmt: skip
STORED = shape()


@pytest.mark.parametrize("case", CASES)
def test_the_verdict_on_each_step_and_what_is_refused(case):
    changes, expected = CASES[case]
    mine = shape(**changes)
    report = compare(STORED, mine)
    differing = {f"{line.kind} {line.uid}": line for line in report.lines if line.level != "identical"}
    assert differing.keys() == expected.keys()
    for name, (level, details) in expected.items():
        assert (differing[name].level, differing[name].details[: len(details)]) == (level, details)
    is_incompatible = any(level == "incompatible" for level, _ in expected.values())
    is_lost = any(level == "dropped" and not name.startswith("sink") for name, (level, _) in expected.items())
    assert (report.refusal() is not None) == (is_incompatible or is_lost)
    assert (compare(STORED, mine, allow_dropped=True).refusal() is not None) == is_incompatible


def test_a_changed_protocol_is_reported():
    mine = msgspec.structs.replace(STORED, sinks=STORED.sinks | {"out": "direct"})
    line = next(line for line in compare(STORED, mine).lines if line.uid == "out")
    assert (line.level, line.details) == ("compatible", ["protocol: STAGED_ATOMIC_COMMIT → direct"])
    assert obstacles_in_place(STORED, mine) == []


def test_the_protocol_follows_the_connector():
    assert STORED.sinks["out"] == "STAGED_ATOMIC_COMMIT"
    assert shape(sink=ms.print()).sinks["out"] != STORED.sinks["out"]


def only(uids, stored):
    """A shape with some of its sources and sinks."""
    return msgspec.structs.replace(
        stored,
        sources={uid: name for uid, name in stored.sources.items() if uid in uids},
        sinks={uid: name for uid, name in stored.sinks.items() if uid in uids},
    )


def test_sources_that_come_and_go():
    whole = STORED
    without = only({"out"}, whole)
    assert [str(line) for line in compare(without, whole).lines if line.kind == "source"] == [
        "source 'in' is new (starts at its beginning)"
    ]
    assert compare(without, whole).refusal() is None
    gone = compare(whole, without)
    assert "source 'in' is dropped (its position is left behind)" in gone.refusal().message
    assert compare(whole, without, allow_dropped=True).refusal() is None


def test_sinks_that_come_and_go_are_only_reported():
    whole = STORED
    without = only({"in"}, whole)
    assert {line.level for line in compare(whole, without).lines if line.kind == "sink"} == {"dropped"}
    assert {line.level for line in compare(without, whole).lines if line.kind == "sink"} == {"new"}
    assert compare(whole, without).refusal() is compare(without, whole).refusal() is None


def test_a_refusal_names_every_problem_and_the_ways_out():
    mine = shape(**states(total=ms.ValueState(record(amount=str)), recent=None), window=ms.tumbling("2m"), reduce=None)
    error = compare(STORED, mine).refusal()
    assert error.code == "CKPT-040"
    for part in ("total.amount: integer → string", "recent: array", "window size: 1m → 2m", "state 'r' is dropped"):
        assert part in error.message
    assert "--allow-dropped-state" in error.hint
    assert "migrate=" in error.hint
    assert error.step is None


def test_a_refusal_about_one_step_names_it():
    error = compare(STORED, shape(**states(total=ms.ValueState(record(amount=str), version=2)))).refusal()
    assert error.step == "p"
    assert "identical" not in error.message


def test_a_version_that_falls_is_refused_whatever_the_type():
    stored = shape(**states(total=ms.ValueState(record(amount=int), version=3)))
    for version, migrate in ((2, None), (1, upgrade)):
        mine = shape(**states(total=ms.ValueState(record(amount=int), version=version, migrate=migrate)))
        assert f"total version: 3 → {version}" in compare(stored, mine).refusal().message


def test_the_report_is_a_table():
    mine = shape(**states(total=ms.ValueState(record(amount=str)), recent=None), reduce={"id": "new"})
    assert compare(STORED, mine).text().splitlines() == [
        "the plan has changed",
        "state   p      incompatible  total.amount: integer → string",
        "                             recent: array of integer → nothing",
        "state   w      identical",
        "state   a      identical",
        "state   new    new           starts without state",
        "state   r      dropped       its state is left behind",
        "source  in     identical",
        "sink    out    identical",
        "sink    w-out  identical",
        "sink    a-out  identical",
        "sink    r-out  identical",
    ]
    assert compare(STORED, shape()).text().startswith("the same plan\n")


def deeper(stream):
    return stream.rebalance().filter("v > 1", id="spread")


IN_PLACE = {
    "nothing": ({}, None),
    "stateless steps": ({"where": "v > 7", "more": lambda s: s.with_columns(w="v").select("k", "v", "at")}, None),
    "renamed with a uid": ({"process": {"id": "new", "uid": "p"}}, None),
    "a field with a default": (states(total=ms.ValueState(record(amount=int, note=(str, "")))), None),
    "a wider field": (states(total=ms.ValueState(record(amount=float))), None),
    "a field less": (states(total=ms.ValueState(record())), "state 'p' must be rewritten (total.amount: integer → nothing)"),
    "a state more": (states(extra=ms.ValueState(int)), "state 'p' must be rewritten (extra: nothing → integer)"),
    "migrated": (
        states(total=ms.ValueState(record(amount=int), version=2, migrate=upgrade)),
        "state 'p' must be rewritten (total version: 1 → 2, migrated)",
    ),
    "expiry": (
        states(recent=ms.ListState(int, ttl="1h")), "state 'p' must be rewritten (recent ttl: stays → expires)"),
    "parallelism": ({"job": {"parallelism": 3}}, "parallelism: 2 → 3"),
    "depth": ({"more": deeper}, "depth: 1 → 2"),
    "level": ({"more": deeper}, "state 'p' moves from level 1 to 2"),
    "key groups": ({"job": {"max_parallelism": 64}}, "state 'p' is incompatible (key_groups: 128 → 64)"),
    "a new step": ({"reduce": {"id": "new"}}, "state 'new' is new (starts without state)"),
    "a step less": ({"reduce": None}, "state 'r' is dropped (its state is left behind)"),
    "window": ({"window": ms.tumbling("2m")}, "state 'w' is incompatible (window size: 1m → 2m, window slide: 1m → 2m)"),
    "connector": ({"source": ms.files("in/")}, "source 'in' is incompatible (connector: memory → files)"),
}  # fmt: skip


@pytest.mark.parametrize("case", IN_PLACE)
def test_what_may_go_on_in_place(case):
    changes, reason = IN_PLACE[case]
    reasons = obstacles_in_place(STORED, shape(**changes))
    assert reason in reasons if reason else reasons == []


def test_sources_and_sinks_come_and_go_in_place():
    whole = STORED
    assert obstacles_in_place(whole, only((), whole)) == obstacles_in_place(only((), whole), whole) == []


def test_a_shape_is_json():
    made = shape(**states(total=ms.ValueState(record(amount=int), version=2, migrate=upgrade)))
    assert made.migrations == {"p": ["total"]}
    assert msgspec.json.decode(msgspec.json.encode(made), type=JobShape) == made


def kept_row(**options):
    """The layouts of a step that keeps a row of each key."""
    job = ms.Job("kept-row")
    rows = job.source("in", ms.memory([]), schema="k string, v long, at long").event_time("at")
    rows.key_by("k").deduplicate(**options, id="d").sink("out", ms.collect("out"))
    return shape_of(job.compile().deployment)


@pytest.mark.parametrize(
    ("old", "new", "is_alike"),
    [
        ({"keep": "first", "by": "at desc"}, {"keep": "last", "by": "`at` asc"}, True),
        ({"keep": "last", "by": "at"}, {"keep": "first", "by": "at desc"}, True),
        ({"keep": "first", "by": "at desc, v"}, {"keep": "last", "by": "at, v desc"}, True),
        ({"keep": "first", "by": "at"}, {"keep": "last", "by": "at"}, False),
        ({"keep": "first", "by": "at desc"}, {"keep": "last", "by": "v"}, False),
        ({"keep": "last"}, {"keep": "last", "by": "at"}, False),
    ],
)
def test_the_last_row_in_an_order_is_the_first_in_the_opposite_one(old, new, is_alike):
    before, after = kept_row(**old), kept_row(**new)
    changes = [
        change for uid, layout in before.layouts.items() for change in layout_changes(layout, after.layouts[uid], ())
    ]
    assert (not changes) == is_alike
