"""State comes back into a step whose declared state changed."""

import dataclasses

import msgspec
import pyarrow as pa
import pytest
from tests.unit.state.savepoints import COLUMNS, Subtasks, column_layout, entry_layout, restored, savepoint_of, slot

from millstream.errors import CheckpointRefused, StepFailed
from millstream.model.time import MIN_TIME
from millstream.state.pages import NEVER, Due, StepPages
from millstream.state.transfer.evolve import SlotCode, evolution

TEXT = {"type": "string"}
NOW = 1000


def carried(tmp_path, old, new, slots=None):
    """`old` and `new` are (layout, types, content): store, export, load, compare."""
    before = Subtasks(2)
    before.fill(old[0], old[1], old[2])
    made = savepoint_of(tmp_path, before, {"s": old[0]})
    after, _ = restored(tmp_path, made, {"s": new[0]}, 3, now=NOW, slots=slots)
    assert after.read(new[0], new[1]) == new[2]
    return after


def test_equal_layouts_need_nothing():
    layout = entry_layout(slot("a"))
    assert evolution(layout, entry_layout(slot("a")), lambda _: pytest.fail("not asked"), now=NOW) is None
    assert evolution(column_layout(), column_layout(), lambda _: {}, now=NOW) is None


def test_slots_are_added_removed_and_reordered_by_name(tmp_path):
    old = entry_layout(slot("a"), slot("b", TEXT), slot("c")), (int, str, int)
    new = entry_layout(slot("c"), slot("d"), slot("b", TEXT)), (int, int, str)
    content = {k: ((k, f"b{k}", -k), [k + 1], [k + 2], NEVER) for k in range(200)}
    expected = {k: ((-k, None, f"b{k}"), [k + 1], [k + 2], NEVER) for k in range(200)}
    carried(tmp_path, (*old, content), (*new, expected))


def test_keys_of_which_nothing_is_left_are_gone_unless_they_have_timers(tmp_path):
    old, new = entry_layout(slot("a"), slot("b")), entry_layout(slot("b"))
    content = {1: ((1, None), [], [], NEVER), 2: ((1, None), [7], [], NEVER), 3: ((1, 5), [], [], NEVER)}
    expected = {2: ((None,), [7], [], NEVER), 3: ((5,), [], [], NEVER)}
    after = carried(tmp_path, (old, (int, int), content), (new, (int,), expected))
    dues = [StepPages(store, "s").flush() for store in after]
    assert sorted(due.event for due in dues) == [7, NEVER, NEVER]


def test_pages_of_which_nothing_is_left_are_gone(tmp_path):
    old, new = entry_layout(slot("a")), entry_layout(slot("b"))
    after = carried(tmp_path, (old, (int,), {k: ((k,), [], [], NEVER) for k in range(50)}), (new, (int,), {}))
    assert [store.content for store in after] == [{}, {}, {}]


@dataclasses.dataclass
class Cart:
    items: int


@dataclasses.dataclass
class RichCart:
    items: int
    currency: str = "EUR"


def test_fields_with_defaults_need_no_migration(tmp_path):
    old, new = slot("cart", {"properties": {"items": 1}}), slot("cart", {"properties": {"items": 1, "currency": 2}})
    carried(
        tmp_path,
        (entry_layout(old), (Cart,), {1: ((Cart(3),), [], [], NEVER)}),
        (entry_layout(new), (RichCart,), {1: ((RichCart(3),), [], [], NEVER)}),
        {"cart": SlotCode(type=RichCart)},
    )


def test_a_new_version_is_migrated_from_plain_values(tmp_path):
    seen = []

    def migrate(content, version):
        seen.append((content, version))
        return RichCart(content["items"] * 10, "USD")

    content = {k: ((Cart(k), k), [5], [], NEVER) for k in range(4)} | {9: ((None, 9), [], [], NEVER)}
    expected = {k: ((RichCart(k * 10, "USD"), k), [5], [], NEVER) for k in range(4)} | {9: content[9]}
    carried(
        tmp_path,
        (entry_layout(slot("cart", version=2), slot("n")), (Cart, int), content),
        (entry_layout(slot("cart", version=4), slot("n")), (RichCart, int), expected),
        {"cart": SlotCode(type=RichCart, migrate=migrate)},
    )
    assert sorted(seen, key=str) == [({"items": k}, 2) for k in range(4)]


def test_a_migration_may_drop_content(tmp_path):
    content = {k: ((k,), [], [], NEVER) for k in range(10)}
    carried(
        tmp_path,
        (entry_layout(slot("n")), (int,), content),
        (entry_layout(slot("n", version=2)), (int,), {k: content[k] for k in range(0, 10, 2)}),
        {"n": SlotCode(type=int, migrate=lambda n, _: None if n % 2 else n)},
    )


@pytest.mark.parametrize("migrate", [lambda n, _: f"{n}!", lambda n, _: 1 // 0, None, lambda n, _: object()])
def test_a_migration_that_fails_or_gives_another_type_names_key_and_state(tmp_path, migrate):
    old, new = entry_layout(slot("n", TEXT)), entry_layout(slot("n", version=2))
    before = Subtasks(1)
    before.fill(old, (str,), {41: (("x",), [], [], NEVER)})
    made = savepoint_of(tmp_path, before, {"s": old})
    with pytest.raises(StepFailed) as caught:
        restored(tmp_path, made, {"s": new}, 1, slots={"n": SlotCode(type=int, migrate=migrate)})
    assert (caught.value.code, caught.value.step) == ("SAVE-008", "s")
    assert "'n' of key [41]" in caught.value.message


def test_state_with_another_type_and_no_migration_is_noticed_at_the_load(tmp_path):
    old, new = entry_layout(slot("n", TEXT)), entry_layout(slot("n"))
    before = Subtasks(1)
    before.fill(old, (str,), {1: (("x",), [], [], NEVER)})
    made = savepoint_of(tmp_path, before, {"s": old})
    with pytest.raises(StepFailed) as caught:
        restored(tmp_path, made, {"s": new}, 1, slots={"n": SlotCode(type=int)})
    assert caught.value.code == "SAVE-008"


def test_expiring_content_is_migrated_and_keeps_the_time_it_was_written(tmp_path):
    after = carried(
        tmp_path,
        (entry_layout(slot("n", expires=True)), (tuple[int, int],), {1: (((50, 7),), [], [], 90)}),
        (entry_layout(slot("n", expires=True, version=2)), (tuple[int, int],), {1: (((50, 8),), [], [], 90)}),
        {"n": SlotCode(type=int, migrate=lambda n, _: n + 1)},
    )
    assert min(StepPages(store, "s").flush().expiry for store in after) == 90


def test_state_that_stops_to_expire_loses_its_times(tmp_path):
    carried(
        tmp_path,
        (entry_layout(slot("n", expires=True), slot("m")), (tuple[int, int], int), {1: (((50, 7), 3), [4], [], 90)}),
        (entry_layout(slot("n"), slot("m")), (int, int), {1: ((7, 3), [4], [], NEVER)}),
    )


def test_state_that_begins_to_expire_counts_from_now_and_is_swept_at_once(tmp_path):
    after = carried(
        tmp_path,
        (entry_layout(slot("n"), slot("m")), (int, int), {1: ((7, 3), [], [], NEVER), 2: ((None, 3), [], [], NEVER)}),
        (
            entry_layout(slot("n", expires=True), slot("m")),
            (tuple[int, int], int),
            {1: (((NOW, 7), 3), [], [], NOW), 2: ((None, 3), [], [], NOW)},
        ),
    )
    assert min(StepPages(store, "s").flush().expiry for store in after) == NOW


def test_state_that_changes_its_clock_is_dated_anew(tmp_path):
    event = entry_layout(slot("n", expires=True, clock="event"))
    clock = entry_layout(slot("n", expires=True))
    types = (tuple[int, int],)
    old = {1: (((50, 7),), [4], [], 90)}
    after = carried(tmp_path / "a", (clock, types, old), (event, types, {1: (((MIN_TIME, 7),), [4], [], NOW)}))
    assert min(StepPages(store, "s").flush().event for store in after) == MIN_TIME + 1
    after = carried(tmp_path / "b", (event, types, old), (clock, types, {1: (((NOW, 7),), [4], [], NOW)}))
    assert min(StepPages(store, "s").flush().event for store in after) == 4


def test_columns_are_taken_by_name_and_cast(tmp_path):
    wide = pa.schema([("n", pa.float64()), ("k", pa.int64()), ("bin", pa.int64())])
    before = Subtasks(2)
    rows = [{"k": k, "bin": k * 10, "n": k} for k in range(100)]
    before.fill_columns(column_layout(), rows)
    made = savepoint_of(tmp_path, before, {"c": column_layout()})
    after, _ = restored(tmp_path, made, {"c": column_layout(wide)}, 3)
    found = after.read_columns(column_layout(wide), wide)
    assert found == rows
    assert isinstance(found[0]["n"], float)
    assert min(StepPages(store, "c").flush().event for store in after) == 0


def test_columns_that_the_savepoint_lacks_are_refused():
    more = COLUMNS.append(pa.field("top", pa.int64()))
    with pytest.raises(CheckpointRefused) as caught:
        evolution(column_layout(), column_layout(more), lambda _: {}, now=NOW)
    assert (caught.value.code, caught.value.step) == ("SAVE-009", "c")
    assert "top" in caught.value.found


@pytest.mark.parametrize(
    "new",
    [entry_layout(slot("a"), keys="k string"), entry_layout(slot("a"), key_groups=32), column_layout(uid="s")],
    ids=["keys", "key groups", "form"],
)
def test_another_key_number_of_key_groups_or_form_is_refused(new):
    with pytest.raises(CheckpointRefused) as caught:
        evolution(entry_layout(slot("a")), new, lambda _: {}, now=NOW)
    assert (caught.value.code, caught.value.step) == ("SAVE-007", "s")


def test_a_page_of_another_layout_keeps_its_due_times():
    old, new = entry_layout(slot("a"), slot("b")), entry_layout(slot("b"))
    evolve = evolution(old, new, lambda _: {}, now=NOW)
    page = [{b"\x91\x01": [1, 2, [30], [40], NEVER]}, {b"\x91\x01": Due(30, 40)}]
    content, due = evolve(msgspec.msgpack.encode(page), Due(30, 40))
    assert due == Due(30, 40)
    assert msgspec.msgpack.decode(content, strict=False)[1] == {b"\x91\x01": [30, 40, NEVER]}


def test_fields_that_are_gone_do_not_come_back_with_a_later_field_of_their_name(tmp_path):
    rich, poor = slot("cart", {"properties": {"items": 1, "currency": 2}}), slot("cart", {"properties": {"items": 1}})
    before = Subtasks(1)
    before.fill(entry_layout(rich), (RichCart,), {1: ((RichCart(3, "USD"),), [], [], NEVER)})
    made = savepoint_of(tmp_path / "a", before, {"s": entry_layout(rich)})
    after, _ = restored(tmp_path / "a", made, {"s": entry_layout(poor)}, 1, slots={"cart": SlotCode(type=Cart)})
    again = savepoint_of(tmp_path / "b", after, {"s": entry_layout(poor)})
    last, _ = restored(tmp_path / "b", again, {"s": entry_layout(rich)}, 1, slots={"cart": SlotCode(type=RichCart)})
    assert last.read(entry_layout(rich), (RichCart,)) == {1: ((RichCart(3, "EUR"),), [], [], NEVER)}


def test_many_slots_and_timers_are_carried_over(tmp_path):
    old, new = ([slot(f"s{n}") for n in range(count)] for count in (17, 20))
    content = {1: (tuple(range(17)), list(range(40)), list(range(20)), NEVER)}
    expected = {1: ((*range(17), None, None, None), list(range(40)), list(range(20)), NEVER)}
    carried(tmp_path, (entry_layout(*old), (int,) * 17, content), (entry_layout(*new), (int,) * 20, expected))
