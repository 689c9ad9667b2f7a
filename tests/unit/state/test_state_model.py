"""Every kind of state against plain Python, with and without a time to live, over random calls, epochs and clock steps."""

import dataclasses
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.testing import ADVANCE_CLOCK, run_job

TTL = 10
KINDS = ("value", "list", "map", "reducing", "aggregating")
LIVES = {"": {}, "_write": {"ttl": TTL / 1000}, "_read": {"ttl": TTL / 1000, "ttl_update": "read"}}


def _appended(items, item):
    return [*items, item]


def _declared(kind, options):
    match kind:
        case "value":
            return ms.ValueState(int, **options)
        case "list":
            return ms.ListState(int, **options)
        case "map":
            return ms.MapState(int, int, **options)
        case "reducing":
            return ms.ReducingState(int, int.__add__, **options)
    return ms.AggregatingState(list[int], create=list, add=_appended, result=tuple, **options)


class Everything(ms.ProcessFunction):
    """One state of every kind and life; a row says what is done with one of them, and gets what is found there."""

    def process(self, row, ctx):
        state, kind, value = getattr(self, row["state"]), row["state"].partition("_")[0], row["v"]
        match row["call"]:
            case "add" if kind == "value":
                state.update(value)
            case "add" if kind == "map":
                state.put(value % 3, value)
            case "add":
                state.add(value)
            case "remove" if kind == "map":
                state.remove(value % 3)
            case "clear":
                state.clear()
            case _:
                found = state.value() if kind == "value" else state.items() if kind == "map" else state.get()
                yield {"k": row["k"], "found": repr(found)}


for _kind in KINDS:
    for _name, _options in LIVES.items():
        _state = _declared(_kind, _options)
        setattr(Everything, _kind + _name, _state)
        _state.__set_name__(Everything, _kind + _name)


@dataclasses.dataclass
class Model:
    """What a state should hold: its content and when it was written."""

    name: str
    content: Any = None
    written: int = 0

    @property
    def kind(self):
        return self.name.partition("_")[0]

    def load(self, now):
        if self.content is None or (self.name != self.kind and self.written + TTL <= now):
            return None
        if self.name.endswith("_read"):
            self.written = now
        return self.content

    def call(self, call, value, now):
        """What is read, or `...` for a call that reads nothing."""
        held = None if call == "clear" else self.load(now)
        if call == "clear":
            made = None
        elif call == "add":
            made = {
                "value": lambda: value,
                "list": lambda: [*(held or []), value],
                "map": lambda: {**(held or {}), value % 3: value},
                "reducing": lambda: value if held is None else held + value,
                "aggregating": lambda: [*(held or []), value],
            }[self.kind]()
        elif call == "remove" and self.kind == "map":
            made = {key: each for key, each in (held or {}).items() if key != value % 3} or None
        else:
            return self.read(held)
        self.content, self.written = made, now
        return ...

    def read(self, held):
        empty = {"list": [], "map": []}.get(self.kind)
        if held is None:
            return empty
        return list(held.items()) if self.kind == "map" else tuple(held) if self.kind == "aggregating" else held


STATES = [kind + name for kind in KINDS for name in LIVES]
call_ = st.tuples(
    st.sampled_from("ab"),
    st.sampled_from(STATES),
    st.sampled_from(["add", "add", "read", "remove", "clear"]),
    st.integers(-9, 9),
)
pause_ = st.sampled_from([1, TTL - 1, TTL, TTL + 1])
script_ = st.lists(st.one_of(call_, call_, call_, pause_), max_size=60)


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(script_, st.integers(1, 7), st.sampled_from(["rocksdb", "memory"]))
def test_states_hold_what_they_should(script, rows_per_epoch, backend):
    job = ms.Job("states")
    rows = job.source("in", ms.memory([]), schema="k string, state string, call string, v long")
    made = rows.key_by("k").process(Everything(), schema="k string, found string", id="everything")
    made.sink("out", ms.collect("out"))
    marks, expected, models, now = [], {"a": [], "b": []}, {}, 0
    for each in script:
        if isinstance(each, int):
            marks.append(dict(ADVANCE_CLOCK(each / 1000)))
            now += each
            continue
        key, name, call, value = each
        marks.append({"k": key, "state": name, "call": call, "v": value})
        found = models.setdefault((key, name), Model(name)).call(call, value, now)
        if found is not ...:
            expected[key].append(repr(found))
    output = run_job(job, {"in": marks}, rows_per_epoch=rows_per_epoch, state_backend=backend)
    assert {key: [row["found"] for row in output["out"] if row["k"] == key] for key in "ab"} == expected


def test_the_model_forgets():
    model = Model("list_write")
    model.call("add", 1, 0)
    assert (model.call("read", 0, TTL - 1), model.call("read", 0, TTL)) == ([1], [])
    model = Model("list_read")
    model.call("add", 1, 0)
    assert (model.call("read", 0, TTL - 1), model.call("read", 0, TTL)) == ([1], [1])
