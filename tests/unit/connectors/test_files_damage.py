"""What was cut, emptied or changed is refused with our own error, which names it."""

import base64
import gzip
import json

import pytest
from tests.unit.connectors.reading import everything, opened
from tests.unit.connectors.test_files_sink import Sink, read_back, rows

from millstream.connectors.files.reader import read_files
from millstream.errors import ExternalFailure, MillstreamError

FORMATS = ["parquet", "json", "csv", "arrow"]


def published(path, kind="json"):
    """A directory with ten rows; gives its data file and its list."""
    (file,) = Sink(path, format=kind).published(rows(*range(10)))["files"]
    (listing,) = path.rglob("0000000001.json")
    return path / file["path"], listing


def refused(read, *names):
    with pytest.raises(MillstreamError) as problem:
        read()
    assert all(name in str(problem.value) for name in names)
    return problem.value.code


@pytest.mark.parametrize("kind", FORMATS)
@pytest.mark.parametrize("share", [0, 0.5])
def test_a_cut_data_file_is_refused(tmp_path, kind, share):
    data, _ = published(tmp_path, kind)
    content = data.read_bytes()
    data.write_bytes(content[: int(len(content) * share)])
    assert refused(lambda: read_files(tmp_path), data.name, f"{len(content)} bytes") == "FILES-043"
    assert refused(lambda: everything(*opened(tmp_path, format=kind)), data.name, "step 'in'") == "FILES-043"


def test_a_data_file_of_the_same_size_with_fewer_rows_is_refused(tmp_path):
    data, _ = published(tmp_path)
    first, *others = data.read_bytes().splitlines(keepends=True)
    data.write_bytes(b" " * (len(first) - 1) + b"\n" + b"".join(others))
    assert refused(lambda: read_files(tmp_path), data.name, "found 9 rows; known: 10 rows") == "FILES-043"


def test_any_changed_byte_of_a_list_is_refused_or_changes_nothing(tmp_path):
    _, listing = published(tmp_path)
    content = listing.read_bytes()
    for place in range(len(content)):
        listing.write_bytes(content[:place] + bytes([content[place] ^ 0x5A]) + content[place + 1 :])
        try:
            assert read_back(tmp_path) == rows(*range(10))
        except MillstreamError as problem:
            assert problem.code in {"FILES-010", "CKPT-061"}
            assert problem.code != "FILES-010" or listing.name in str(problem)


@pytest.mark.parametrize(
    "damage",
    [
        {"schema": "!!!!"},
        {"schema": "AAAA"},
        {"schema": base64.b64encode(b"\xff" * 40).decode()},
        {"schema": 5},
        {"encoding": {}},
        {"encoding": []},
        {"encoding": {"format": "other"}},
        {"encoding": {"format": "csv", "header": "no", "delimiter": ","}},
        {"files": [[]]},
        {"files": [{"path": []}]},
        {"epoch": None},
        {"job": None},
    ],
)
def test_a_damaged_list_from_before_checksums_is_refused(tmp_path, damage):
    _, listing = published(tmp_path)
    content = json.loads(listing.read_bytes())
    del content["checksum"]
    listing.write_text(json.dumps(content))
    assert read_back(tmp_path) == rows(*range(10))
    listing.write_text(json.dumps({**content, **damage}))
    assert refused(lambda: read_files(tmp_path), listing.name) == "FILES-010"


@pytest.mark.parametrize("name", ["f.json.gz", "f.csv.gz"])
@pytest.mark.parametrize("count", [10, 200_000])
def test_a_cut_packed_file_is_named(tmp_path, name, count):
    content = b"n,name\n" + b"1,x\n" * count if "csv" in name else b'{"n": 1, "name": "x"}\n' * count
    (tmp_path / name).write_bytes(gzip.compress(content)[:-20])
    with pytest.raises(ExternalFailure) as problem:
        everything(*opened(tmp_path))
    assert problem.value.code == "FILES-006"
    assert problem.value.step == "in"
    assert name in str(problem.value)


def test_a_packed_file_that_is_none_is_named_with_its_step(tmp_path):
    (tmp_path / "f.json.gz").write_bytes(b"this is not gzip")
    assert refused(lambda: everything(*opened(tmp_path)), "f.json.gz", "step 'in'") == "FILES-006"


def epochs(path, *numbers):
    sink = Sink(path, format="json")
    for epoch in numbers:
        sink.published(rows(epoch), epoch=epoch)
    return {int(listing.stem): listing for listing in path.rglob("0*.json")}


def test_a_list_that_is_missing_between_others_is_named(tmp_path):
    lists = epochs(tmp_path, 0, 1, 2, 3)
    lists[1].unlink()
    assert refused(lambda: read_files(tmp_path), lists[1].name) == "FILES-012"
    assert refused(lambda: everything(*opened(tmp_path, format="json")), lists[1].name) == "FILES-012"
    lists[2].unlink()
    assert refused(lambda: read_files(tmp_path), lists[2].name) == "FILES-012"


def test_lists_that_are_missing_at_an_end_or_never_were_are_no_gap(tmp_path):
    lists = epochs(tmp_path, 0, 1, 2, 5, 6)
    assert read_back(tmp_path) == rows(0, 1, 2, 5, 6)
    lists[6].unlink()
    lists[0].unlink()
    assert read_back(tmp_path) == rows(1, 2, 5)
    assert everything(*opened(tmp_path, format="json")) == rows(1, 2, 5)
