"""State is read as a table, by key, and compared, without running a job."""

import datetime as dt

import pyarrow as pa
import pytest
from tests.unit.state.savepoints import COLUMNS, Subtasks, column_layout, entry_layout, savepoint_of, slot

from millstream.errors import CheckpointRefused, InvalidSchema
from millstream.inspect.state.view import SavepointState, StoreState, state_diff, state_get, state_table
from millstream.state.pages import NEVER

INTS = {"type": "array", "items": {"type": "integer"}}
CART = {
    "type": "object",
    "properties": {"items": {"type": "integer"}, "note": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
}
MAP = {"type": "object", "propertyNames": {"type": "integer"}, "additionalProperties": {"type": "number"}}
EITHER = {"anyOf": [{"type": "string"}, {"type": "integer"}]}


def states(tmp_path, layout, types, content):
    """The same state in stores and in a savepoint."""
    subtasks = Subtasks(2)
    subtasks.fill(layout, types, content)
    made = savepoint_of(tmp_path, subtasks, {layout.uid: layout})
    return [StoreState(list(subtasks), layout), SavepointState(tmp_path, made, layout.uid)]


def by_key(table):
    return {row["k"]: {name: value for name, value in row.items() if name != "k"} for row in table.to_pylist()}


def timers(event=(), processing=(), expiry=None):
    return {"event": list(event), "processing": list(processing), "expiry": expiry}


def test_slots_become_columns(tmp_path):
    layout = entry_layout(
        slot("n"),
        slot("items", INTS),
        slot("cart", CART),
        slot("prices", MAP),
        slot("mixed", EITHER),
        slot("seen", expires=True),
    )
    types = (int, list[int], dict, dict[int, float], str | int, tuple[int, int])
    content = {
        1: ((5, [1, 2], {"items": 3, "note": "x"}, {7: 1.5}, "a", (40, 9)), [10, 20], [30], 99),
        2: ((None, None, {"items": 1}, None, 4, None), [], [], NEVER),
    }
    for state in states(tmp_path, layout, types, content):
        table = state_table(state)
        assert table.column_names == ["k", "n", "items", "cart", "prices", "mixed", "seen", "timers"]
        assert table.schema.field("prices").type == pa.map_(pa.int64(), pa.float64())
        assert by_key(table) == {
            1: {
                "n": 5,
                "items": [1, 2],
                "cart": {"items": 3, "note": "x"},
                "prices": [(7, 1.5)],
                "mixed": '"a"',
                "seen": 9,
                "timers": timers([10, 20], [30], 99),
            },
            2: {
                "n": None,
                "items": None,
                "cart": {"items": 1, "note": None},
                "prices": None,
                "mixed": "4",
                "seen": None,
                "timers": timers(),
            },
        }


def test_values_beyond_arrow_make_the_whole_column_text(tmp_path):
    layout = entry_layout(slot("n"))
    content = {k: ((2**63 + k if k == 7 else k,), [], [], NEVER) for k in range(60)}
    for state in states(tmp_path, layout, (int,), content):
        found = by_key(state_table(state))
        assert {k: row["n"] for k, row in found.items()} == {k: str(content[k][0][0]) for k in content}


def test_times_are_times(tmp_path):
    layout = entry_layout(
        slot("at", {"type": "string", "format": "date-time"}), slot("raw", {"type": "string", "format": "binary"})
    )
    at = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
    for state in states(tmp_path, layout, (dt.datetime, bytes), {1: ((at, b"\x00\xff"), [], [], NEVER)}):
        assert by_key(state_table(state)) == {1: {"at": at, "raw": b"\x00\xff", "timers": timers()}}


def test_a_slot_named_like_a_key_gets_a_name_of_its_own(tmp_path):
    layout = entry_layout(slot("k"), slot("timers"))
    for state in states(tmp_path, layout, (int, int), {1: ((2, 3), [4], [], NEVER)}):
        row = state_table(state).to_pylist()
        assert row == [{"k": 1, "state.k": 2, "timers": 3, "state.timers": timers([4])}]


def test_no_state_is_an_empty_table(tmp_path):
    layout = entry_layout(slot("n"))
    for state in states(tmp_path, layout, (int,), {}):
        table = state_table(state)
        assert (table.num_rows, table.column_names) == (0, ["k", "n", "timers"])
        assert table.schema.field("n").type == pa.int64()


def test_one_key_is_found_by_value_or_by_text(tmp_path):
    layout = entry_layout(slot("n"), keys="k long")
    content = {k: ((k * 2,), [], [], NEVER) for k in range(100)}
    for state in states(tmp_path, layout, (int,), content):
        assert [row["n"] for row in state_get(state, [37]).to_pylist()] == [74]
        assert [row["n"] for row in state_get(state, ["37"]).to_pylist()] == [74]
        assert state_get(state, [1000]).num_rows == 0
        for wrong in (["x"], [1, 2], []):
            with pytest.raises(InvalidSchema) as caught:
                state_get(state, wrong)
            assert caught.value.code == "SAVE-011"


@pytest.mark.parametrize("key", [0.0, -0.0, "-0.0"])
def test_a_floating_point_key_is_found_by_any_of_its_forms(tmp_path, key):
    """An earlier version stored both zeros."""
    layout = entry_layout(slot("n"), keys="k double")
    content = {-0.0: ((1,), [], [], NEVER), float("nan"): ((2,), [], [], NEVER)}
    for state in states(tmp_path, layout, (int,), content):
        assert [row["n"] for row in state_get(state, [key]).to_pylist()] == [1]
        assert [row["n"] for row in state_get(state, ["nan"]).to_pylist()] == [2]


def test_text_keys_and_columns_are_found(tmp_path):
    layout = entry_layout(slot("n"), keys="k string")
    content = {f"user-{k}": ((k,), [], [], NEVER) for k in range(30)}
    for state in states(tmp_path / "e", layout, (int,), content):
        assert [row["n"] for row in state_get(state, ["user-7"]).to_pylist()] == [7]
    subtasks, columns = Subtasks(2), column_layout()
    subtasks.fill_columns(columns, [{"k": k, "bin": b, "n": k + b} for k in range(40) for b in (0, 10)])
    made = savepoint_of(tmp_path / "c", subtasks, {"c": columns})
    for state in (StoreState(list(subtasks), columns), SavepointState(tmp_path / "c", made, "c")):
        assert state_table(state).schema == COLUMNS
        assert state_table(state).num_rows == 80
        assert sorted(row["n"] for row in state_get(state, ["7"]).to_pylist()) == [7, 17]


def test_a_step_that_the_savepoint_does_not_hold_is_named(tmp_path):
    made = savepoint_of(tmp_path, Subtasks(1), {"s": entry_layout(slot("n"))})
    with pytest.raises(CheckpointRefused) as caught:
        SavepointState(tmp_path, made, "t")
    assert (caught.value.code, caught.value.step, caught.value.known) == ("SAVE-010", "t", "s")


def test_a_difference_shows_keys_of_either_side_and_changed_ones_twice(tmp_path):
    layout = entry_layout(slot("n"))
    a = {k: ((k,), [], [], NEVER) for k in range(50)}
    b = {k: ((-k if k == 7 else k,), [5] if k == 9 else [], [], NEVER) for k in range(3, 52)}
    left, right = states(tmp_path / "a", layout, (int,), a)[0], states(tmp_path / "b", layout, (int,), b)[1]
    found = sorted(
        (row["in"], row["k"], row["n"], row["timers"]["event"]) for row in state_diff(left, right).to_pylist()
    )
    assert found == [
        *(("a", k, k, []) for k in (0, 1, 2, 7, 9)),
        ("b", 7, -7, []),
        ("b", 9, 9, [5]),
        *(("b", k, k, []) for k in (50, 51)),
    ]
    assert state_diff(left, left).num_rows == 0
    assert state_diff(left, left).column_names == ["in", "k", "n", "timers"]


def test_a_difference_of_columns_is_by_row(tmp_path):
    layout, sides = column_layout(), []
    for extra in ([], [{"k": 3, "bin": 0, "n": 9}]):
        subtasks = Subtasks(2)
        subtasks.fill_columns(layout, [{"k": k, "bin": 0, "n": k} for k in range(20) if k != 3 or not extra] + extra)
        sides.append(StoreState(list(subtasks), layout))
    assert sorted(state_diff(*sides).to_pylist(), key=lambda row: row["in"]) == [
        {"in": "a", "k": 3, "bin": 0, "n": 3},
        {"in": "b", "k": 3, "bin": 0, "n": 9},
    ]
