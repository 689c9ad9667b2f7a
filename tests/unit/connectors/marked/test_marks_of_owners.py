"""The mark of a sink, as values: what each owner may do with what it finds."""

import pytest

from millstream.connectors.marked.marks import KEPT_EPOCHS, MarkOwner, SinkMark, read_mark
from millstream.errors import CheckpointRefused, Fenced


def owner(lineage="one", token=1):
    return MarkOwner(lineage=lineage, step="out", token=token)


def epoch(digest, rows=1):
    return {"digest": digest, "rows": rows}


def written(*numbers, who=None, found=SinkMark()):
    who = who or owner()
    found = who.fence(found) or found
    for number in numbers:
        found = who.publish(found, number, epoch(f"d{number}")) or found
    return found


def test_a_mark_comes_back_as_it_was_kept():
    mark = owner("two", 3).succeed(written(0, 1), {"one": 1}, "refuse")
    assert read_mark(mark.text(), step="out") == mark
    assert read_mark(mark.text().encode(), step="out") == mark
    assert read_mark(None, step="out") == SinkMark()


@pytest.mark.parametrize("stored", ["", "7", "null", "{}", '{"format": 2, "lineages": {}}', b"\xff"])
def test_what_is_no_mark_is_refused(stored):
    with pytest.raises(CheckpointRefused, match="CONSUMER-005"):
        read_mark(stored, step="out")


def test_an_owner_leaves_its_token_once():
    mark = owner(token=2).fence(SinkMark())
    assert mark.of("one").token == 2
    assert owner(token=2).fence(mark) is None
    with pytest.raises(Fenced):
        owner(token=1).fence(mark)


def test_an_epoch_is_written_once_and_only_with_the_same_rows():
    mark = written(0, 1)
    assert owner().publish(mark, 1, epoch("d1")) is None
    with pytest.raises(CheckpointRefused, match="SINK-001"):
        owner().publish(mark, 1, epoch("other"))


def test_epochs_far_behind_count_as_written():
    mark = written(*range(KEPT_EPOCHS + 5))
    assert len(mark.of("one").digests) == KEPT_EPOCHS
    assert owner().publish(mark, 2, epoch("forgotten")) is None


def test_a_mark_without_the_token_of_its_owner_was_lost():
    with pytest.raises(CheckpointRefused, match="CONSUMER-006"):
        owner().publish(SinkMark(), 0, epoch("d0"))


def test_a_closed_lineage_writes_nothing_more():
    mark = owner("two", 2).succeed(written(0), {"one": 0}, "refuse")
    with pytest.raises(Fenced, match="closed"):
        owner(token=9).publish(mark, 1, epoch("d1"))


def test_a_lineage_of_the_history_that_never_came_may_not_begin():
    mark = owner("two", 2).succeed(SinkMark(), {"one": 0}, "refuse")
    with pytest.raises(Fenced):
        owner(token=9).fence(mark)


@pytest.mark.parametrize(("newer", "code"), [("refuse", "SINK-003"), ("truncate", "SINK-004")])
def test_newer_output_is_refused_unless_it_is_kept(newer, code):
    mark = written(0, 1, 2)
    with pytest.raises(CheckpointRefused, match=code):
        owner("two", 2).succeed(mark, {"one": 1}, newer)
    assert owner("two", 2).succeed(mark, {"one": 1}, "keep").of("one").is_closed


def test_epochs_without_rows_are_no_output():
    who = owner()
    mark = who.publish(written(0), 1, epoch("empty", rows=0))
    owner("two", 2).refuse_newer(mark, {"one": 0})
