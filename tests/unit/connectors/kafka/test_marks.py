"""Marks, as values: what they say about epochs, tokens and lineages."""

import pytest

from millstream.connectors.kafka.transactions.marks import (
    KEPT_EPOCHS,
    Mark,
    closure,
    decoded_record,
    mark_topic,
    marks_of,
    transactional_id,
)


def through_topic(*records):
    return marks_of(decoded_record(record.encoded()) for record in records)


def test_a_mark_knows_its_last_epochs_and_counts_older_ones_as_published():
    mark = Mark(lineage="one")
    for epoch in range(KEPT_EPOCHS + 50):
        mark = mark.with_epoch(epoch, f"d{epoch}", rows=1)
    assert len(mark.epochs) == KEPT_EPOCHS
    assert mark.standing(KEPT_EPOCHS + 49, f"d{KEPT_EPOCHS + 49}") == "published"
    assert mark.standing(KEPT_EPOCHS + 49, "other") == "other rows"
    assert mark.standing(0, "whatever it was") == "published"
    assert mark.standing(KEPT_EPOCHS + 50, "new") == "new"


def test_epochs_may_come_in_any_order_while_they_are_remembered():
    mark = Mark(lineage="one").with_epoch(5, "five", 1).with_epoch(2, "two", 1)
    assert [mark.standing(epoch, text) for epoch, text in ((2, "two"), (3, "three"), (5, "five"))] == [
        "published",
        "new",
        "published",
    ]


def test_only_epochs_with_rows_count_as_output():
    mark = Mark(lineage="one").with_epoch(0, "a", 3).with_epoch(1, "b", 0)
    assert (mark.last_filled, Mark(lineage="one").last_filled) == (0, -1)


def test_marks_come_back_as_they_were_written():
    mark = Mark(lineage="one").owned(7).with_epoch(3, "abc", 12)
    assert through_topic(mark.message()) == {"one": mark}


def test_the_last_mark_of_a_lineage_counts_and_a_closure_stays():
    first, last = Mark(lineage="one").owned(1), Mark(lineage="one").owned(2)
    marks = through_topic(first.message(), closure("one", "two"), last.message())
    assert (marks["one"].token, marks["one"].is_closed) == (2, True)


def test_a_lineage_that_never_came_is_closed_too():
    assert through_topic(closure("never", "two"))["never"].is_closed


def test_of_two_lineages_that_close_each_other_the_first_goes_on():
    marks = through_topic(closure("two", "one"), closure("one", "two"))
    assert {lineage: mark.is_closed for lineage, mark in marks.items()} == {"two": True}


@pytest.mark.parametrize("value", [b"", b"{}", b"[]", b'{"format":2,"kind":"mark"}', b"\xff"])
def test_something_else_is_no_mark(value):
    with pytest.raises(ValueError):
        decoded_record(value)


def test_names_are_short_and_tell_sinks_apart():
    long = "x" * 128
    names = {transactional_id("millstream", long, long, lineage) for lineage in ("one", "two")}
    assert len(names) == 2
    assert all(len(name) <= 200 and name.startswith("millstream-xxx") for name in names)
    # The parts themselves may hold what stands between them.
    assert mark_topic("p", "a-b", "c") != mark_topic("p", "a", "b-c")
    assert len(mark_topic("p" * 60, long, long)) <= 249
