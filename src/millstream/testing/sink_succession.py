"""Stories of lineages that take over from each other, and of owners at the same time: a part of the sink contract."""

from __future__ import annotations

import pytest

from millstream.errors import CheckpointRefused, Fenced
from millstream.testing.sink_race import race
from millstream.testing.sink_under_test import OpenedSink, SinkUnderTest, ids, rows, seen


class SuccessionStories:
    """How output beyond a savepoint is met, and who may write."""

    def test_a_new_lineage_within_the_history_starts(self, sink: SinkUnderTest) -> None:
        old = four_epochs(sink)
        late = old.prepare(4, rows(40))
        fresh = OpenedSink(sink, lineage="two", token=2)
        fresh.committer.succeed([("one", 3)], "refuse")
        fresh.committer.succeed([("one", 3)], "refuse")
        fresh.run(0, rows(50))
        with pytest.raises(Fenced):
            old.publish(4, late)
        with pytest.raises(Fenced):
            old.committer.fence()
        assert ids(sink) == [*range(40), *range(50, 60)]

    def test_newer_output_is_refused(self, sink: SinkUnderTest) -> None:
        four_epochs(sink)
        fresh = OpenedSink(sink, lineage="two", token=2)
        with pytest.raises(CheckpointRefused) as refused:
            fresh.committer.succeed([("one", 1)], "refuse")
        assert refused.value.code == "SINK-003"
        assert seen(sink) == rows(0, 40)

    def test_output_of_a_lineage_outside_the_history_is_newer(self, sink: SinkUnderTest) -> None:
        four_epochs(sink)
        fresh = OpenedSink(sink, lineage="two", token=2)
        with pytest.raises(CheckpointRefused):
            fresh.committer.succeed([("elsewhere", 9)], "refuse")

    def test_looking_for_newer_output_changes_nothing(self, sink: SinkUnderTest) -> None:
        old = four_epochs(sink)
        fresh = OpenedSink(sink, lineage="two", token=2, fence=False)
        fresh.committer.check_newer([("one", 3)])
        with pytest.raises(CheckpointRefused) as refused:
            fresh.committer.check_newer([("one", 2)])
        assert refused.value.code == "SINK-003"
        old.run(4, rows(40))
        assert seen(sink) == rows(0, 50)

    def test_newer_output_is_kept(self, sink: SinkUnderTest) -> None:
        old = four_epochs(sink)
        late = old.prepare(4, rows(40))
        fresh = OpenedSink(sink, lineage="two", token=2)
        fresh.committer.succeed([("one", 1)], "keep")
        with pytest.raises(Fenced):
            old.publish(4, late)
        fresh.run(0, rows(100))
        assert ids(sink) == [*range(40), *range(100, 110)]

    def test_newer_output_is_removed_where_it_can_be(self, sink: SinkUnderTest) -> None:
        four_epochs(sink)
        fresh = OpenedSink(sink, lineage="two", token=2)
        if not sink.can_truncate:
            with pytest.raises(CheckpointRefused) as refused:
                fresh.committer.succeed([("one", 1)], "truncate")
            assert refused.value.code == "SINK-004"
            assert seen(sink) == rows(0, 40)
            return
        fresh.committer.succeed([("one", 1)], "truncate")
        assert seen(sink) == rows(0, 20)
        fresh.run(2, rows(20))
        fresh.committer.succeed([("one", 1)], "truncate")
        assert seen(sink) == rows(0, 30)

    def test_succession_leaves_other_jobs_and_steps_alone(self, sink: SinkUnderTest) -> None:
        others = [OpenedSink(sink, step="other"), OpenedSink(sink, job="other")]
        for number, other in enumerate(others):
            other.run(0, rows(100 + number * 10))
        OpenedSink(sink, lineage="two", token=2).committer.succeed([("one", 0)], "refuse")
        for number, other in enumerate(others):
            other.run(1, rows(200 + number * 10))
        assert len(seen(sink)) == 40

    # Two owners at once

    def test_concurrent_committers_leave_each_epoch_once(self, sink: SinkUnderTest) -> None:
        outcome = race(sink, seed=7)
        expected = [row["id"] for epoch in sorted(outcome.published) for row in outcome.content[epoch]]
        assert ids(sink) == expected
        assert outcome.unexpected == []
        assert outcome.published


def four_epochs(sink: SinkUnderTest) -> OpenedSink:
    """An owner that has published ten rows in each of four epochs."""
    owner = OpenedSink(sink, token=1)
    for epoch in range(4):
        owner.run(epoch, rows(epoch * 10))
    return owner
