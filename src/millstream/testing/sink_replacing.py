"""The contract of sinks that take `write="replace"`: the result of a run is seen as a whole, or the one before is.

A test file plugs a sink in by a class that inherits `ReplacingContract` and has a fixture `sink` with a `SinkUnderTest` that
was opened with `write="replace"`. They are played by pytest.
"""

from __future__ import annotations

import contextlib

import pytest

from millstream.errors import Fenced
from millstream.model.ids import Epoch
from millstream.testing.sink_under_test import OpenedSink, SinkUnderTest, ids, rows, seen


class ReplacingContract:
    """Stories of runs that follow each other in one target."""

    def test_a_run_is_seen_at_its_end_and_all_at_once(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        for epoch in range(3):
            owner.run(epoch, rows(epoch * 10, 5), rows(epoch * 10 + 5, 5))
            assert seen(sink) == []
        owner.run(3, rows(30), ends=True)
        assert seen(sink) == rows(0, 40)

    def test_a_run_takes_the_place_of_the_one_before(self, sink: SinkUnderTest) -> None:
        for number, lineage in enumerate(("one", "two", "three", "four")):
            owner = OpenedSink(sink, lineage=lineage, token=number + 1)
            before = seen(sink)
            owner.committer.recover(None)
            owner.run(0, rows(number))
            owner.run(1)
            assert seen(sink) == before
            owner.run(2, rows(100 + number), ends=True)
            assert ids(sink) == [*range(number, number + 10), *range(100 + number, 110 + number)]

    def test_a_run_without_rows_leaves_none(self, sink: SinkUnderTest) -> None:
        one_run(sink)
        OpenedSink(sink, lineage="two", token=2).run(0, ends=True)
        assert seen(sink) == []

    def test_showing_it_again_changes_nothing(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        first, last = owner.run(0, rows(0)), owner.run(1, rows(10), ends=True)
        for _ in range(2):
            owner.publish(0, first)
            owner.publish(1, last)
        fresh = OpenedSink(sink, token=2)
        fresh.publish(1, last)
        fresh.committer.recover(Epoch(1))
        assert seen(sink) == rows(0, 20)

    def test_a_run_that_was_interrupted_goes_on_with_what_it_had(self, sink: SinkUnderTest) -> None:
        one_run(sink)
        first = OpenedSink(sink, lineage="two", token=2)
        first.run(0, rows(100))
        last = first.prepare(1, rows(110), ends=True)
        first.stage(2, rows(120))
        fresh = OpenedSink(sink, lineage="two", token=3)
        fresh.publish(1, last)
        fresh.committer.recover(Epoch(1))
        assert seen(sink) == rows(100, 20)
        assert sink.staged() == 0

    def test_nothing_that_waits_is_taken_for_a_leftover(self, sink: SinkUnderTest) -> None:
        OpenedSink(sink).run(0, rows(0))
        fresh = OpenedSink(sink, token=2)
        fresh.committer.recover(Epoch(0))
        fresh.run(1, rows(10), ends=True)
        assert seen(sink) == rows(0, 20)

    def test_an_owner_that_was_replaced_shows_nothing(self, sink: SinkUnderTest) -> None:
        one_run(sink)
        stale = OpenedSink(sink, lineage="two", token=2)
        last = stale.prepare(0, rows(100), ends=True)
        fresh = OpenedSink(sink, lineage="two", token=3)
        with pytest.raises(Fenced):
            stale.publish(0, last)
        assert seen(sink) == rows(0, 20)
        fresh.publish(0, last)
        assert seen(sink) == rows(100)

    def test_an_owner_of_an_earlier_run_that_wakes_up_late_changes_nothing(self, sink: SinkUnderTest) -> None:
        late, last = one_run(sink)
        OpenedSink(sink, lineage="two", token=2).run(0, rows(100), ends=True)
        with contextlib.suppress(Fenced):
            late.publish(1, last)
        assert seen(sink) == rows(100)

    def test_a_savepoint_inside_a_run_goes_on_with_its_result(self, sink: SinkUnderTest) -> None:
        one_run(sink, lineage="before")
        first = OpenedSink(sink, token=2)
        for epoch in range(3):
            first.run(epoch, rows(100 + epoch * 10))
        second = OpenedSink(sink, lineage="two", token=3, same_run=(("one", 1),))
        history = [("before", 1), ("one", 1)]
        second.committer.check_newer(history)
        second.committer.succeed(history, "refuse")
        second.committer.recover(None)
        with pytest.raises(Fenced):
            first.run(3, rows(900), ends=True)
        assert seen(sink) == rows(0, 20), "the result before stays until the end"
        second.run(0, rows(200))
        second.run(1, ends=True)
        assert ids(sink) == [*range(100, 120), *range(200, 210)]

    @pytest.mark.parametrize("newer", ["refuse", "keep", "truncate"])
    def test_a_run_that_is_given_up_leaves_the_result_before(self, sink: SinkUnderTest, newer: str) -> None:
        one_run(sink, lineage="before")
        OpenedSink(sink, token=2).run(0, rows(100))
        fresh = OpenedSink(sink, lineage="two", token=3)
        for _ in range(2):
            fresh.committer.succeed([("before", 1), ("one", -1)], newer)  # type: ignore[arg-type]
        assert seen(sink) == rows(0, 20)
        fresh.run(0, rows(300), ends=True)
        assert seen(sink) == rows(300)


def one_run(sink: SinkUnderTest, lineage: str = "one") -> tuple[OpenedSink, object]:
    """A complete run of twenty rows: who owns it, and its last transaction."""
    owner = OpenedSink(sink, lineage=lineage)
    owner.run(0, rows(0))
    return owner, owner.run(1, rows(10), ends=True)
