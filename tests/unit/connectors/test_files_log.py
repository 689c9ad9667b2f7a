import json
import os

import pytest
from tests.unit.connectors.reading import everything, opened, read

from millstream.connectors.files import source as files_source
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced

START = {"unit": 0}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def write(folder, *numbers):
    for n in numbers:
        path = folder / f"{n}.json"
        path.write_text(json.dumps({"n": n, "name": f"name {n}"}) + "\n")
        os.utime(path, (n, n))


def numbers(source, start, end):
    return [row["n"] for row in read(*source, start, end)]


def advanced(source, start=START):
    return source[0].advance(start, 1000).position


def logs(log):
    return sorted(path.name for path in log.iterdir())


def watching(folder, log, token):
    return opened(folder, log_dir=log, token=token, watch=True)


def test_a_new_owner_goes_on_in_a_log_of_its_own(folder, log):
    write(folder, 1, 2)
    first = watching(folder, log, 1)
    middle = advanced(first)
    before = (log / "files-000001.jsonl").read_bytes()
    second = watching(folder, log, 2)
    write(folder, 3)
    end = advanced(second, middle)
    assert numbers(second, START, end) == [1, 2, 3]
    assert (log / "files-000001.jsonl").read_bytes() == before
    assert (log / "files-000002.jsonl").read_bytes().startswith(before)


def test_what_a_replaced_owner_still_finds_is_nobody_elses(folder, log):
    write(folder, 1)
    stale, fresh = watching(folder, log, 1), watching(folder, log, 2)
    write(folder, 3)
    end = advanced(fresh)
    write(folder, 2)
    advanced(stale)
    reopened = watching(folder, log, 3)
    assert numbers(reopened, START, end) == numbers(fresh, START, end) == [1, 3]
    assert numbers(reopened, end, advanced(reopened, end)) == [2]


def test_a_log_without_a_token_is_the_first(folder, log):
    write(folder, 2, 3)
    end = advanced(watching(folder, log, 1))
    (log / "files-000001.jsonl").rename(log / "files.jsonl")
    write(folder, 1)
    source = watching(folder, log, 1)
    assert logs(log) == ["files-000001.jsonl", "files.jsonl"]
    assert numbers(source, START, end) == [2, 3]


def test_a_torn_line_is_not_copied(folder, log):
    write(folder, 1, 2)
    end = advanced(watching(folder, log, 1))
    file = log / "files-000001.jsonl"
    whole = file.read_bytes()
    file.write_bytes(whole[:-5])
    source = watching(folder, log, 2)
    assert (log / "files-000002.jsonl").read_bytes() == whole[: whole.index(b"\n") + 1]
    assert advanced(source) == end
    assert (log / "files-000002.jsonl").read_bytes() == whole


def test_what_a_failed_append_left_is_overwritten(folder, log):
    write(folder, 1)
    source = watching(folder, log, 1)
    middle = advanced(source)
    with (log / "files-000001.jsonl").open("ab") as file:
        file.write(b'{"path": "torn')
    write(folder, 2)
    end = advanced(source, middle)
    assert numbers(watching(folder, log, 2), START, end) == [1, 2]


def test_earlier_logs_are_cleared_away(folder, log):
    write(folder, 1)
    owners = [watching(folder, log, token) for token in (1, 2, 5, 6)]
    assert logs(log) == ["files-000002.jsonl", "files-000005.jsonl", "files-000006.jsonl"]
    with pytest.raises(Fenced):
        advanced(owners[0])
    assert logs(log) == ["files-000002.jsonl", "files-000005.jsonl", "files-000006.jsonl"]


def test_a_later_log_does_not_count_for_an_earlier_owner(folder, log):
    write(folder, 1)
    advanced(watching(folder, log, 7))
    stale, _ = watching(folder, log, 3)
    with pytest.raises(CheckpointRefused):
        stale.splits(START, {"unit": 1})
    assert logs(log) == ["files-000003.jsonl", "files-000007.jsonl"]


def test_a_position_that_the_predecessor_handed_out_late_is_found(folder, log):
    write(folder, 1)
    stale = watching(folder, log, 1)
    middle = advanced(stale)
    fresh = watching(folder, log, 2)
    write(folder, 5)
    end = advanced(stale, middle)
    write(folder, 3)
    assert numbers(fresh, START, end) == [1, 5]
    assert numbers(fresh, end, advanced(fresh, end)) == [3]
    assert numbers(watching(folder, log, 3), START, end) == [1, 5]


def test_a_position_beyond_logs_that_went_apart_is_refused(folder, log):
    write(folder, 1)
    stale, fresh = watching(folder, log, 1), watching(folder, log, 2)
    write(folder, 3)
    advanced(fresh)
    write(folder, 2, 4)
    end = advanced(stale)
    with pytest.raises(CheckpointRefused, match="unit 4") as refused:
        fresh[0].splits(START, end)
    assert refused.value.code == "FILES-007"
    assert "restore the folder" in refused.value.hint
    with pytest.raises(CheckpointRefused):
        fresh[0].advance(end, 10)


def test_a_position_without_any_log_is_refused(folder, log):
    write(folder, 1)
    source, _ = watching(folder, log, 1)
    with pytest.raises(CheckpointRefused) as refused:
        source.splits(START, {"unit": 1})
    assert refused.value.code == "FILES-007"


def test_a_finished_source_stays_finished_for_the_next_owner(folder, log):
    write(folder, 1)
    assert len(everything(*opened(folder, log_dir=log, token=1))) == 1
    write(folder, 2)
    assert [row["n"] for row in everything(*opened(folder, log_dir=log, token=2))] == [1]


@pytest.mark.parametrize("line", [b"{}\n", b"[]\n", b"7\n", b"{\n"])
def test_a_line_that_is_no_entry_is_refused(folder, log, line):
    log.mkdir()
    (log / "files-000001.jsonl").write_bytes(line)
    with pytest.raises(CheckpointRefused, match="line 1") as refused:
        watching(folder, log, 2)
    assert refused.value.code == "FILES-003"
    assert logs(log) == ["files-000001.jsonl"]


@pytest.mark.parametrize(("right", "wrong"), [(b'"1.json"', b'"9.json"'), (b"[[0, 0,", b"[[0, 8,")])
def test_a_changed_line_is_refused(folder, log, right, wrong):
    """A file that was read would be found again, or read in part."""
    write(folder, 1, 2)
    advanced(watching(folder, log, 1))
    file = log / "files-000001.jsonl"
    whole = file.read_bytes()
    assert right in whole
    file.write_bytes(whole.replace(right, wrong, 1))
    with pytest.raises(CheckpointRefused, match="line 1") as refused:
        watching(folder, log, 2)
    assert refused.value.code == "FILES-003"


def test_a_missing_line_is_refused(folder, log):
    write(folder, 1, 2, 3)
    advanced(watching(folder, log, 1))
    file = log / "files-000001.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([lines[0], *lines[2:]]))
    with pytest.raises(CheckpointRefused, match="line 2"):
        watching(folder, log, 2)


def test_lines_from_before_there_were_checksums_are_taken(folder, log):
    write(folder, 1)
    end = advanced(watching(folder, log, 1))
    file = log / "files-000001.jsonl"
    entry = json.loads(file.read_bytes())
    del entry["sum"]
    file.write_text(json.dumps(entry) + "\n")
    second = watching(folder, log, 2)
    write(folder, 2)
    end = advanced(second, end)
    assert numbers(watching(folder, log, 3), START, end) == [1, 2]


def test_a_file_modified_after_discovery_is_refused_by_every_owner(folder, log):
    write(folder, 1)
    end = advanced(watching(folder, log, 1))
    (folder / "1.json").write_text('{"n": 100, "name": "other"}\n')
    with pytest.raises(ExternalFailure) as refused:
        numbers(watching(folder, log, 2), START, end)
    assert refused.value.code == "FILES-002"


def test_a_file_deleted_after_discovery_is_refused(folder, log):
    write(folder, 1)
    end = advanced(watching(folder, log, 1))
    (folder / "1.json").unlink()
    with pytest.raises(ExternalFailure) as refused:
        numbers(watching(folder, log, 2), START, end)
    assert refused.value.code == "FILES-001"


def test_a_file_modified_while_it_is_read_is_refused(folder, monkeypatch):
    write(folder, 1)
    source = opened(folder)
    end = advanced(source)

    def modifying(stream, schema, **part):
        (folder / "1.json").write_text('{"n": 100, "name": "other"}\n')
        yield from real(stream, schema, **part)

    real = files_source.json_parts
    monkeypatch.setattr(files_source, "json_parts", modifying)
    with pytest.raises(ExternalFailure) as refused:
        numbers(source, START, end)
    assert refused.value.code == "FILES-002"
