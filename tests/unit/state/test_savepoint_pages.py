"""State leaves through a savepoint and comes back at another parallelism as it was."""

import random
import time

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.state.savepoints import Subtasks, column_layout, entry_layout, restored, savepoint_of, slot

from millstream.checkpoint import failpoint
from millstream.checkpoint.savepoint import create_savepoint, read_savepoint
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.records.key_groups import key_group, owner, page_of, stable_hash
from millstream.state.pages import NEVER, Due, EntryPage, PageId, StepPages, entry_count
from millstream.state.transfer.export import export_pages, export_sources
from millstream.state.transfer.load import load_pages, load_sources, owned_groups

LAYOUT = entry_layout(slot("n"), slot("items", {"type": "array", "items": {"type": "integer"}}))
TYPES = (int, list[int])


def content(keys, seed=3):
    chance = random.Random(seed)
    return {
        key: (
            (chance.randrange(100), [chance.randrange(9)] * chance.randrange(1, 20)),
            sorted(chance.sample(range(500), chance.randrange(3))),
            sorted(chance.sample(range(500), chance.randrange(2))),
            chance.choice([NEVER, 700]),
        )
        for key in range(keys)
    }


def first_dues(subtasks, uid):
    return [StepPages(store, uid).flush() for store in subtasks]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5, 16])
def test_entries_come_back_at_any_parallelism(tmp_path, parallelism):
    expected = content(700)
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, expected)
    assert max(StepPages(before.stores[0], "s").division(group) for group in range(16)) > 1
    made = savepoint_of(tmp_path, before, {"s": LAYOUT})
    create_savepoint(tmp_path, made)
    assert verify_savepoint(tmp_path).savepoint.entries("s") == 700
    after, loaded = restored(tmp_path, read_savepoint(tmp_path), {"s": LAYOUT}, parallelism)
    assert after.read(LAYOUT, TYPES) == expected
    assert loaded == {"s": (sum(file.pages for file in made.state["s"]), 700)}
    assert min(first_dues(after, "s"), key=lambda due: due.event).event == min(
        at for _, event, _, _ in expected.values() for at in event
    )


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
def test_columns_come_back_at_any_parallelism(tmp_path, parallelism):
    layout = column_layout()
    rows = [{"k": k, "bin": b * 10, "n": k * b} for k in range(300) for b in range(3)]
    before = Subtasks(2)
    before.fill_columns(layout, rows)
    made = savepoint_of(tmp_path, before, {"c": layout})
    assert made.entries("c") == 900
    after, _ = restored(tmp_path, made, {"c": layout}, parallelism)
    assert after.read_columns(layout) == rows
    assert {due.event for due in first_dues(after, "c")} == {0}


def test_a_savepoint_of_restored_state_holds_the_same_state(tmp_path):
    expected = content(200)
    subtasks = Subtasks(2)
    subtasks.fill(LAYOUT, TYPES, expected)
    for number, parallelism in enumerate((3, 1, 4)):
        made = savepoint_of(tmp_path / str(number), subtasks, {"s": LAYOUT})
        subtasks, _ = restored(tmp_path / str(number), made, {"s": LAYOUT}, parallelism)
    assert subtasks.read(LAYOUT, TYPES) == expected


def test_restored_state_goes_on_as_before(tmp_path):
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, content(100))
    made = savepoint_of(tmp_path, before, {"s": LAYOUT})
    after, _ = restored(tmp_path, made, {"s": LAYOUT}, 3)
    for subtasks in (before, after):
        subtasks.fill(LAYOUT, TYPES, content(400, seed=8), limit=1000)
    assert after.read(LAYOUT, TYPES) == before.read(LAYOUT, TYPES) == content(400, seed=8)


def test_key_groups_belong_to_the_subtasks_that_rows_are_sent_to():
    for groups in (1, 7, 16, 128):
        for parallelism in (1, 2, 3, 5, 7):
            owners = owner(np.arange(groups), groups, parallelism).tolist()
            mine = [list(owned_groups(subtask, parallelism, groups)) for subtask in range(parallelism)]
            assert mine == [[g for g in range(groups) if owners[g] == subtask] for subtask in range(parallelism)]


def test_steps_of_other_levels_and_unknown_steps_are_left_alone(tmp_path):
    second, fresh = entry_layout(slot("n"), uid="t", level=2), entry_layout(slot("n"), uid="new")
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, content(10))
    before.fill(second, (int,), {1: ((4,), [], [], NEVER)})
    made = savepoint_of(tmp_path, before, {"s": LAYOUT, "t": second})
    assert {file.path.split("/")[1:][0] for files in made.state.values() for file in files} == {"s", "t"}
    assert export_pages(before.stores[0], {"s": LAYOUT}, tmp_path, level=2, subtask=0, attempt="b") == {}
    after, loaded = restored(tmp_path, made, {"t": second, "new": fresh}, 1)
    assert loaded == {"t": (1, 1)}
    assert set(after.stores[0].content) == {name for name in after.stores[0].content if name.startswith("t/")}


def test_a_step_may_move_to_another_level(tmp_path):
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, content(10))
    made = savepoint_of(tmp_path, before, {"s": LAYOUT})
    moved = entry_layout(*LAYOUT.slots, level=3)
    after, _ = restored(tmp_path, made, {"s": moved}, 2)
    assert after.read(moved, TYPES) == content(10)


def test_loading_twice_is_loading_once(tmp_path):
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, content(50))
    made = savepoint_of(tmp_path, before, {"s": LAYOUT})
    after, _ = restored(tmp_path, made, {"s": LAYOUT}, 3)
    after.fill(LAYOUT, TYPES, content(400, seed=9), limit=300)
    restored(tmp_path, made, {"s": LAYOUT}, 3, subtasks=after)
    assert after.read(LAYOUT, TYPES) == content(50)


def test_a_repeated_attempt_writes_files_of_its_own(tmp_path):
    before = Subtasks(1)
    before.fill(LAYOUT, TYPES, content(20))
    first = savepoint_of(tmp_path, before, {"s": LAYOUT}, attempt="a")
    second = savepoint_of(tmp_path, before, {"s": LAYOUT}, attempt="b")
    assert first.state["s"][0].path != second.state["s"][0].path
    create_savepoint(tmp_path, second)
    assert verify_savepoint(tmp_path).files == 1


def test_a_step_without_state_has_no_file(tmp_path):
    made = savepoint_of(tmp_path, Subtasks(3), {"s": LAYOUT})
    assert made.state == {}
    after, loaded = restored(tmp_path, made, {"s": LAYOUT}, 2)
    assert loaded == {"s": (0, 0)}
    assert [store.content for store in after] == [{}, {}]


def test_a_crash_between_two_files_leaves_no_savepoint(tmp_path, monkeypatch):
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, content(20))
    failpoint.reset()
    monkeypatch.setenv(failpoint.VARIABLE, "savepoint_files:1:raise")
    with pytest.raises(ExternalFailure):
        savepoint_of(tmp_path, before, {"s": LAYOUT})
    assert len(list(tmp_path.rglob("*.pages"))) == 1
    with pytest.raises(CheckpointRefused) as caught:
        read_savepoint(tmp_path)
    assert caught.value.code == "SAVE-001"


def test_a_failed_export_leaves_no_half_file(tmp_path):
    before = Subtasks(1)
    before.fill(LAYOUT, TYPES, content(20))
    before.stores[0].content["s/5/0"] = None
    with pytest.raises(CheckpointRefused, match="CKPT-009"):
        savepoint_of(tmp_path, before, {"s": LAYOUT})
    assert list(tmp_path.rglob("*.pages")) == []


def test_damaged_and_missing_files_stop_the_load(tmp_path):
    before = Subtasks(2)
    before.fill(LAYOUT, TYPES, content(300))
    made = savepoint_of(tmp_path, before, {"s": LAYOUT})
    path = tmp_path / made.state["s"][1].path
    whole = path.read_bytes()
    for changed, code in ((whole[:-5], "SAVE-005"), (whole[:100] + b"?" + whole[101:], "SAVE-005"), (None, "SAVE-004")):
        path.unlink() if changed is None else path.write_bytes(changed)
        with pytest.raises(CheckpointRefused) as caught:
            restored(tmp_path, made, {"s": LAYOUT}, 1)
        assert caught.value.code == code
    # The first half of the key groups lies in the other file.
    pages = StepPages(Subtasks(1).stores[0], "s")
    assert load_pages(tmp_path, made.state["s"], pages, range(8)).entries > 0


def test_logs_of_sources_travel(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    (log / "files.jsonl").write_text("{}\n")
    copied = export_sources({"in": log}, tmp_path / "s", attempt="a")
    made = savepoint_of(tmp_path / "s", Subtasks(1), {})
    made = type(made)(**{name: getattr(made, name) for name in made.__struct_fields__} | {"sources": copied})
    load_sources(tmp_path / "s", made, {"in": tmp_path / "new", "other": tmp_path / "other"})
    assert (tmp_path / "new/files.jsonl").read_text() == "{}\n"
    assert not (tmp_path / "other").exists()


def test_entries_are_counted_without_decoding():
    for keys in (0, 1, 15, 16, 17, 65_535, 65_536):
        page = EntryPage({str(key).encode(): msgspec.Raw(b"\xc0") for key in range(keys)}, {})
        assert entry_count(msgspec.msgpack.encode(page)) == keys


def test_a_restored_page_keeps_the_division_of_its_group():
    store = Subtasks(1).stores[0]
    pages = StepPages(store, "s")
    pages.restore(PageId(3, 1), b"one", Due(event=4), division=4)
    pages.restore(PageId(3, 2), b"two", Due(), division=4)
    pages.restore(PageId(5, 0), b"other", Due(), division=1)
    pages.flush()
    again = StepPages(store, "s")
    assert (again.division(3), again.division(5)) == (4, 1)
    assert [page for page, _ in again] == [PageId(3, 1), PageId(3, 2), PageId(5, 0)]
    again.clear()
    again.flush()
    assert store.content == {}


def fill_at_once(subtasks, keys, division=8):
    """Many keys with equal content, page by page: far faster than row by row."""
    hashes = stable_hash([pa.array(range(keys), pa.int64())])
    groups, pages = key_group(hashes, 16), page_of(hashes, np.full(keys, division, np.int64))
    raw = msgspec.Raw(msgspec.msgpack.encode((7, [1, 2, 3], [5], [], NEVER)))
    held = {}
    for key, place in enumerate(zip(groups.tolist(), pages.tolist(), strict=True)):
        encoded = msgspec.msgpack.encode((key,))
        page = held.setdefault(place, EntryPage({}, {}))
        page.entries[encoded], page.due[encoded] = raw, Due(event=5)
    opened = [StepPages(store, "s") for store in subtasks]
    for (group, page), content in held.items():
        pages = opened[int(owner(np.array([group]), 16, subtasks.parallelism)[0])]
        pages.restore(PageId(group, page), msgspec.msgpack.encode(content), Due(event=5), division=division)
    for pages in opened:
        pages.flush()


def test_the_cost_per_key_is_shown(tmp_path, capsys):
    lines = []
    for keys in (20_000, 200_000):
        subtasks = Subtasks(2)
        fill_at_once(subtasks, keys)
        start = time.perf_counter()
        made = savepoint_of(tmp_path / str(keys), subtasks, {"s": LAYOUT})
        middle = time.perf_counter()
        _, loaded = restored(tmp_path / str(keys), made, {"s": LAYOUT}, 3)
        end = time.perf_counter()
        assert loaded["s"][1] == keys
        lines.append(
            f"{keys} keys: export {(middle - start) / keys * 1e6:.2f} us, load {(end - middle) / keys * 1e6:.2f} us per key"
        )
    with capsys.disabled():
        print("\n" + "\n".join(lines))
