"""How the way of a load function is cut, and whether its digest notices what a digest must notice."""

import itertools

import pyarrow as pa
import pytest

from millstream.connectors.loader.chained import ChainedDigest, digest_of_part
from millstream.connectors.loader.promise import admitted, path_of
from millstream.connectors.loader.walk import WalkMark
from millstream.contract.source import BadRecord

BATCH = pa.record_batch({"n": [1, 2, 2, 3, None], "text": ["a", "b", "", None, "c"]})


def marks(*rows):
    return [WalkMark(position=f"p{number}", rows=count) for number, count in enumerate(rows, 1)]


@pytest.mark.parametrize(
    ("rows", "credit", "taken"),
    [
        ([5, 5, 5], 10, 2),
        ([5, 5, 5], 14, 2),
        ([5, 5, 5], 100, 3),
        ([5, 5], 1, 1),
        ([5, 5], 0, 0),
        ([], 9, 0),
        ([0, 0, 5], 4, 2),
    ],
)
def test_a_credit_admits_whole_pages_and_at_least_one(rows, credit, taken):
    assert len(admitted(marks(*rows), credit)) == taken


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [[4], [1, 1, 1, 1], [9, 1, 1], [0, 0], [1, 9, 1, 9, 1]])
def test_a_path_leads_from_start_to_end_without_a_gap(rows, parts):
    path = path_of("p0", marks(*rows), parts)
    assert path[0]["from"] == "p0"
    assert path[-1]["to"] == f"p{len(rows)}"
    assert all(before["to"] == after["from"] for before, after in itertools.pairwise(path))
    assert sum(part["rows"] for part in path) == sum(rows)
    assert len(path) <= min(parts, len(rows))
    assert [part["promised"] for part in path] == [str(part["rows"]) for part in path]


def test_rows_that_nobody_counted_promise_nothing():
    told = [WalkMark(position=1, rows=100, is_counted=False)]
    assert path_of(0, told, 2) == [{"from": 0, "to": 1, "rows": 100, "promised": None}]


def test_a_digest_is_the_same_wherever_rows_are_cut():
    whole = digest_of_part(BATCH)
    for cut in range(BATCH.num_rows + 1):
        assert digest_of_part(BATCH.slice(0, cut)).then(digest_of_part(BATCH.slice(cut))) == whole
    assert ChainedDigest().then(whole) == whole.then(ChainedDigest()) == whole


@pytest.mark.parametrize(
    "other",
    [
        BATCH.slice(0, 4),
        BATCH.take(pa.array([1, 0, 2, 3, 4])),
        pa.record_batch({"n": [1, 2, 2, 3, 0], "text": ["a", "b", "", None, "c"]}),
        pa.record_batch({"n": [1, 2, 2, 3, None], "text": ["a", "b", None, None, "c"]}),
        BadRecord("[1]", "not a row"),
    ],
    ids=["fewer", "other order", "null", "empty text", "bad record"],
)
def test_other_rows_have_another_digest(other):
    assert digest_of_part(other).text() != digest_of_part(BATCH).text()
