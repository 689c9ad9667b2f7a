"""The directory of a savepoint: what is valid, what is refused, what is left after a crash."""

import json

import msgspec
import pytest

from millstream.checkpoint import failpoint
from millstream.checkpoint.page_file import PageReader, PageWriter, StoredPage
from millstream.checkpoint.savepoint import (
    RECORD,
    Savepoint,
    create_savepoint,
    dispose_savepoint,
    existing_savepoint,
    list_savepoints,
    read_savepoint,
    safe_name,
    state_path,
)
from millstream.checkpoint.savepoint_files import copy_back, copy_folder, damages, verify_savepoint
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.inspect.savepoint_diff import diff_savepoints

NEVER = 2**63 - 1


def page(group, number=0, content=b"x", division=1):
    return StoredPage(group, number, division, (5, NEVER, NEVER), content)


def written(root, groups=(0, 1, 5), name="1-0-a", content=b"some content " * 60):
    writer = PageWriter(root, state_path("count", name))
    for group in groups:
        for number in range(2):
            writer.add(page(group, number, content + bytes([group, number]), 2), 3)
    return writer.finish()


def savepoint(**fields):
    given = {
        "id": "t1",
        "kind": "canonical",
        "job": "j",
        "lineage": "l2",
        "history": [("l1", 7), ("l2", 3)],
        "epoch": 3,
        "token": 2,
        "guarantee": "exactly_once",
        "fingerprint": "f",
        "fingerprint_steps": {"count": "c"},
        "parallelism": 2,
        "key_groups": 8,
        "engine": "local",
        "plan": {"epoch": 3, "sources": {"in": {"at": 9}}, "watermarks": {"times": 4}},
        "planner": {"started": 0},
        "layouts": {"count": {"uid": "count"}},
        "created_at": "2026-01-02T03:04:05.678+00:00",
        "version": "0.1.0",
    }
    return Savepoint(**(given | fields))


def taken(root, **fields):
    """A whole savepoint on disk."""
    log = root.parent / f"{root.name}-log"
    (log / "deep").mkdir(parents=True)
    (log / "files.jsonl").write_text("one\ntwo\n")
    (log / "deep/more").write_bytes(bytes(range(256)))
    (log / ".temporary").write_text("half")
    state = {"count": [written(root), written(root, (2, 4), "1-1-b")]}
    sources = {"in": copy_folder(log, root, "sources/in/a")}
    return create_savepoint(root, savepoint(state=state, sources=sources, **fields))


def refusal(act, *arguments):
    with pytest.raises(CheckpointRefused) as caught:
        act(*arguments)
    return caught.value


# Files of pages


def test_pages_come_back_and_only_the_groups_asked_for_are_read(tmp_path):
    file = written(tmp_path)
    assert (file.groups, file.pages, file.entries) == ((0, 5), 6, 18)
    assert file.bytes == (tmp_path / file.path).stat().st_size
    assert file.bytes < 6 * 200, "repeated content is compressed"
    with PageReader(tmp_path, file) as reader:
        found = list(reader.pages())
        assert [(p.group, p.page, p.division, p.due) for p in found] == [
            (g, n, 2, (5, NEVER, NEVER)) for g in (0, 1, 5) for n in (0, 1)
        ]
        assert [p.content[-2:] for p in found] == [bytes([g, n]) for g in (0, 1, 5) for n in (0, 1)]
        assert [(p.group, p.page) for p in reader.pages(range(1, 5))] == [(1, 0), (1, 1)]


def test_content_that_does_not_compress_is_kept_as_it_is(tmp_path):
    import random

    noise = random.Random(1).randbytes(5000)
    writer = PageWriter(tmp_path, state_path("s", "0"))
    writer.add(page(0, 0, noise), 1)
    file = writer.finish()
    assert noise in (tmp_path / file.path).read_bytes()
    with PageReader(tmp_path, file) as reader:
        assert [p.content for p in reader.pages()] == [noise]


def test_an_attempt_never_writes_over_the_file_of_another(tmp_path):
    written(tmp_path)
    with pytest.raises(FileExistsError):
        written(tmp_path)


def test_every_damaged_byte_and_every_cut_is_noticed(tmp_path):
    file = written(tmp_path, content=b"short")
    path = tmp_path / file.path
    whole = path.read_bytes()

    def read():
        with PageReader(tmp_path, file) as reader:
            return list(reader.pages())

    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x41]) + whole[place + 1 :])
        assert refusal(read).code == "SAVE-005", place
        path.write_bytes(whole[:place])
        assert refusal(read).code == "SAVE-005", place
    path.unlink()
    assert refusal(read).code == "SAVE-004"


def test_a_sound_file_of_another_savepoint_is_noticed(tmp_path):
    file = written(tmp_path / "a", content=b"one")
    (tmp_path / "a" / file.path).write_bytes(
        (tmp_path / "b" / written(tmp_path / "b", (0, 1, 6), content=b"two").path).read_bytes()
    )
    assert refusal(lambda: PageReader(tmp_path / "a", file)).code == "SAVE-005"


@pytest.mark.parametrize("uid", ["plain", "a/b", "..", ".hidden", "späte Zeilen", "x" * 60])
def test_any_uid_becomes_one_component_of_a_path(tmp_path, uid):
    name = safe_name(uid)
    assert "/" not in name
    assert not name.startswith(".")
    writer = PageWriter(tmp_path, state_path(uid, "0"))
    writer.add(page(0), 1)
    path = tmp_path / writer.finish().path
    assert path.parent.parent == tmp_path / "state"


# The record


def test_a_savepoint_reads_back_as_it_was_written(tmp_path):
    made = taken(tmp_path / "s")
    assert read_savepoint(tmp_path / "s") == made
    assert made.entries("count") == 30
    assert made.entries("unknown") == 0


def test_a_repeat_with_the_same_id_gives_the_first_one(tmp_path):
    first = create_savepoint(tmp_path / "s", savepoint())
    assert create_savepoint(tmp_path / "s", savepoint(epoch=9)) == first
    assert existing_savepoint(tmp_path / "s", "t1") == first
    assert existing_savepoint(tmp_path / "other", "t1") is None


def test_another_savepoint_in_the_directory_is_refused(tmp_path):
    create_savepoint(tmp_path / "s", savepoint())
    problem = refusal(create_savepoint, tmp_path / "s", savepoint(id="t2"))
    assert (problem.code, problem.found, problem.known) == ("SAVE-006", "t1", "t2")
    assert refusal(existing_savepoint, tmp_path / "s", "t2").code == "SAVE-006"
    assert read_savepoint(tmp_path / "s").id == "t1"


def test_a_path_without_a_savepoint_is_an_error(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "none", tmp_path / "file"):
        assert refusal(read_savepoint, path).code == "SAVE-001"


def test_a_changed_record_is_refused_before_it_is_believed(tmp_path):
    create_savepoint(tmp_path, savepoint())
    path = tmp_path / RECORD
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"epoch":3', b'"epoch":4', 1))
    assert refusal(read_savepoint, tmp_path).code == "SAVE-003"
    for cut in (0, 1, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert refusal(read_savepoint, tmp_path).code == "SAVE-003", cut
    path.write_bytes(msgspec.json.encode(json.loads(whole) | {"format": 2}))
    assert refusal(read_savepoint, tmp_path).code == "SAVE-002"


def test_a_crash_before_the_record_leaves_no_savepoint(tmp_path, monkeypatch):
    failpoint.reset()
    monkeypatch.setenv(failpoint.VARIABLE, "savepoint_written:1:raise")
    with pytest.raises(ExternalFailure):
        taken(tmp_path / "s")
    assert refusal(read_savepoint, tmp_path / "s").code == "SAVE-001"
    assert list_savepoints(tmp_path) == []


# All files together


def test_a_sound_savepoint_is_verified(tmp_path):
    made = taken(tmp_path / "s")
    found = verify_savepoint(tmp_path / "s")
    assert found.savepoint == made
    assert found.files == 4
    assert found.bytes == sum(p.stat().st_size for p in (tmp_path / "s").rglob("*") if p.is_file() and p.name != RECORD)


@pytest.mark.parametrize("action", ["flip", "cut", "remove"])
def test_damage_of_any_file_is_found(tmp_path, action):
    taken(tmp_path / "s")
    for path in sorted(p for p in (tmp_path / "s").rglob("*") if p.is_file() and p.name != RECORD):
        whole = path.read_bytes()
        changed = {"flip": whole[:-1] + bytes([whole[-1] ^ 1]), "cut": whole[:-1]}.get(action)
        path.unlink() if changed is None else path.write_bytes(changed)
        assert refusal(verify_savepoint, tmp_path / "s").code == ("SAVE-004" if changed is None else "SAVE-005")
        path.write_bytes(whole)
    verify_savepoint(tmp_path / "s")


def test_all_problems_are_reported_at_once(tmp_path):
    taken(tmp_path / "s")
    paths = [p for p in (tmp_path / "s").rglob("*") if p.is_file() and p.name != RECORD]
    for path in paths:
        path.unlink()
    problem = refusal(verify_savepoint, tmp_path / "s")
    assert problem.message.count("is missing") == len(paths) == 4


def test_a_key_group_in_two_files_is_found(tmp_path):
    files = [written(tmp_path), written(tmp_path, (5,), "1-1-b")]
    made = savepoint(state={"count": files})
    assert ["[5]" in each.message for each in damages(tmp_path, made)] == [True]
    assert list(damages(tmp_path, savepoint(state={"count": files[:1]}))) == []
    lost = savepoint(state={"other": files[:1]})
    assert [each.code for each in damages(tmp_path, lost)] == ["SAVE-005"]


def test_counts_that_do_not_fit_the_file_are_found(tmp_path):
    file = written(tmp_path)
    for field, value in (("entries", 17), ("pages", 5), ("groups", (0, 4))):
        wrong = savepoint(state={"count": [msgspec.structs.replace(file, **{field: value})]})
        assert [each.code for each in damages(tmp_path, wrong)] == ["SAVE-005"], field


def test_copied_logs_come_back_under_their_names(tmp_path):
    made = taken(tmp_path / "s")
    assert [file.name for file in made.sources["in"]] == ["deep/more", "files.jsonl"]
    copy_back(tmp_path / "s", made.sources["in"], tmp_path / "new")
    assert (tmp_path / "new/files.jsonl").read_text() == "one\ntwo\n"
    assert (tmp_path / "new/deep/more").read_bytes() == bytes(range(256))
    path = tmp_path / "s" / made.sources["in"][1].path
    path.write_text("one\nTWO\n")
    assert refusal(copy_back, tmp_path / "s", made.sources["in"], tmp_path / "n2").code == "SAVE-005"
    assert not (tmp_path / "n2/files.jsonl").exists()
    path.unlink()
    assert refusal(copy_back, tmp_path / "s", made.sources["in"], tmp_path / "n3").code == "SAVE-004"


# Lists, disposal, differences


def test_savepoints_are_listed_oldest_first_and_damaged_ones_with_their_reason(tmp_path):
    create_savepoint(tmp_path / "a", savepoint(id="new", created_at="2026-02-01"))
    create_savepoint(tmp_path / "b", savepoint(id="old", created_at="2026-01-01"))
    create_savepoint(tmp_path / "c", savepoint())
    (tmp_path / "c" / RECORD).write_text("{")
    (tmp_path / "d").mkdir()
    found = list_savepoints(tmp_path)
    assert [each.path.name for each in found] == ["b", "a", "c"]
    assert [each.savepoint and each.savepoint.id for each in found] == ["old", "new", None]
    assert found[2].problem.code == "SAVE-003"
    assert list_savepoints(tmp_path / "none") == []


def test_disposal_removes_a_savepoint_and_nothing_else(tmp_path):
    taken(tmp_path / "s")
    (tmp_path / "s" / "mine.txt").write_text("keep")
    dispose_savepoint(tmp_path / "s")
    assert [p.name for p in (tmp_path / "s").iterdir()] == ["mine.txt"]
    assert refusal(dispose_savepoint, tmp_path / "s").code == "SAVE-001"
    assert (tmp_path / "s/mine.txt").exists()
    taken(tmp_path / "t")
    dispose_savepoint(tmp_path / "t")
    assert not (tmp_path / "t").exists()


def test_a_disposal_that_was_cut_short_leaves_no_savepoint_and_can_be_repeated(tmp_path, monkeypatch):
    taken(tmp_path / "s")

    def failing(path):
        raise OSError(path)

    with monkeypatch.context() as patched:
        patched.setattr("millstream.checkpoint.savepoint.shutil.rmtree", failing)
        with pytest.raises(OSError):
            dispose_savepoint(tmp_path / "s")
    assert refusal(read_savepoint, tmp_path / "s").code == "SAVE-001"
    dispose_savepoint(tmp_path / "s")
    assert not (tmp_path / "s").exists()


def slot(name, **more):
    return {"name": name, "kind": "value", "type": {"type": "integer"}, "version": 1, "expires": False} | more


def test_a_difference_names_steps_layouts_entries_positions_and_watermarks(tmp_path):
    file = written(tmp_path)
    a = savepoint(
        layouts={
            "count": {"keys": "k long", "slots": [slot("x"), slot("y"), slot("z")]},
            "gone": {},
            "same": {"keys": "k"},
        },
        state={"count": [file]},
    )
    b = savepoint(
        layouts={
            "count": {"keys": "k string", "slots": [slot("z", version=2), slot("x"), slot("w")]},
            "same": {"keys": "k"},
        },
        plan={"sources": {"in": {"at": 12}, "new": 1}, "watermarks": {"times": 4}},
        epoch=5,
    )
    found = diff_savepoints(a, b)
    assert found.general == {"epoch": (3, 5)}
    assert found.sources == {"in": ({"at": 9}, {"at": 12}), "new": (None, 1)}
    assert found.watermarks == {}
    assert [(s.uid, s.presence, s.entries) for s in found.steps] == [
        ("count", "both", (18, 0)),
        ("gone", "only in a", (0, 0)),
        ("same", "both", (0, 0)),
    ]
    assert found.steps[0].layout == [
        "keys: 'k long' became 'k string'",
        "slot 'y' is gone",
        "slot 'w' is new",
        "slot 'z', version: 1 became 2",
        "slots stand in another order",
    ]
    assert found.steps[2].layout == []
