"""The sink contract: whatever a sink is made of, it must pass these stories. They are played by pytest.

A test file plugs a sink in by a class that inherits `SinkContract` and has a fixture `sink` with a `SinkUnderTest`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest

from millstream.contract.sink import SinkTask
from millstream.errors import CheckpointRefused, Fenced, MillstreamError
from millstream.model.ids import Epoch
from millstream.records.codecs import Row, rows_to_batch
from millstream.testing.sink_succession import SuccessionStories
from millstream.testing.sink_under_test import (
    EXTREMES,
    OTHERS,
    SCHEMA,
    VALUES,
    OpenedSink,
    SinkUnderTest,
    plain,
    rows,
    seen,
    through_json,
)


class SinkContract(SuccessionStories):
    """Stories that hold for every sink."""

    # Epochs

    def test_nothing_is_visible_before_publish(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        transaction = owner.prepare(0, rows(0), rows(10))
        assert seen(sink) == []
        owner.publish(0, transaction)
        assert seen(sink) == rows(0, 20)
        assert sink.staged() == 0

    @pytest.mark.parametrize("tasks", [(), ([],), ([], [])], ids=["no task", "one task", "two tasks"])
    def test_an_empty_epoch(self, sink: SinkUnderTest, tasks: Sequence[Sequence[Row]]) -> None:
        owner = OpenedSink(sink)
        transaction = owner.run(0, *tasks)
        owner.publish(0, transaction)
        assert seen(sink) == []
        owner.run(1, rows(0, 1))
        assert seen(sink) == rows(0, 1)

    def test_one_row(self, sink: SinkUnderTest) -> None:
        OpenedSink(sink).run(0, rows(7, 1))
        assert seen(sink) == rows(7, 1)

    def test_a_huge_epoch_of_several_tasks(self, sink: SinkUnderTest) -> None:
        tasks = [rows(start, 25_000) for start in range(0, 100_000, 25_000)]
        transaction = OpenedSink(sink).run(0, *tasks)
        assert transaction["rows"] == 100_000
        assert seen(sink) == rows(0, 100_000)

    def test_rows_of_many_epochs(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        for epoch in range(12):
            owner.run(epoch, rows(epoch * 10, 5), rows(epoch * 10 + 5, 5))
        assert seen(sink) == rows(0, 120)

    def test_values_come_back_as_they_went_in(self, sink: SinkUnderTest) -> None:
        OpenedSink(sink, schema=VALUES).run(0, EXTREMES[::2], EXTREMES[1::2])
        expected = sorted(EXTREMES, key=lambda row: row["id"])
        for found, wanted in zip(seen(sink, VALUES), expected, strict=True):
            assert plain(found) == plain(wanted)

    # Replay

    def test_a_repeated_publish_changes_nothing(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        first, second = owner.run(0, rows(0)), owner.run(1, rows(10))
        for _ in range(2):
            owner.publish(0, first)
            owner.publish(1, second)
        assert seen(sink) == rows(0, 20)

    def test_a_replayed_epoch_with_other_attempts_changes_nothing(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        owner.run(0, rows(0), rows(10))
        owner.run(0, rows(0), rows(10), attempt="b")
        assert seen(sink) == rows(0, 20)
        owner.committer.recover(Epoch(0))
        assert seen(sink) == rows(0, 20)
        assert sink.staged() == 0

    def test_an_old_epoch_replayed_long_after(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        first = owner.run(0, rows(0))
        for epoch in range(1, 8):
            owner.run(epoch, rows(epoch * 10))
        owner.publish(0, first)
        owner.run(1, rows(10), attempt="b")
        assert seen(sink) == rows(0, 80)

    def test_other_rows_for_a_published_epoch_are_refused(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        owner.run(0, rows(0))
        with pytest.raises(CheckpointRefused) as refused:
            owner.run(0, rows(100), attempt="b")
        assert refused.value.code == "SINK-001"
        assert seen(sink) == rows(0)

    @pytest.mark.parametrize("others", [rows(0, 9), rows(0, 11), []], ids=["fewer", "more", "none"])
    def test_another_number_of_rows_for_a_published_epoch_is_refused(
        self, sink: SinkUnderTest, others: Sequence[Row]
    ) -> None:
        owner = OpenedSink(sink)
        owner.run(0, rows(0))
        with pytest.raises(CheckpointRefused):
            owner.run(0, others, attempt="b")
        assert seen(sink) == rows(0)

    # Fencing

    def test_a_stale_owner_publishes_nothing(self, sink: SinkUnderTest) -> None:
        stale = OpenedSink(sink, token=1)
        transaction = stale.prepare(0, rows(0))
        fresh = OpenedSink(sink, token=2)
        with pytest.raises(Fenced):
            stale.publish(0, transaction)
        assert seen(sink) == []
        fresh.publish(0, transaction)
        assert seen(sink) == rows(0)

    def test_a_stale_owner_cannot_fence_either(self, sink: SinkUnderTest) -> None:
        OpenedSink(sink, token=5)
        with pytest.raises(Fenced):
            OpenedSink(sink, token=4)
        OpenedSink(sink, token=5).run(0, rows(0, 1))
        assert seen(sink) == rows(0, 1)

    def test_an_owner_that_never_fenced_publishes_all_or_nothing(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink, token=1, fence=False)
        transaction = owner.prepare(0, rows(0))
        try:
            owner.publish(0, transaction)
        except MillstreamError:
            assert seen(sink) == []
        OpenedSink(sink, token=2).publish(0, transaction)
        assert seen(sink) == rows(0)

    def test_a_fence_is_of_one_lineage_and_step(self, sink: SinkUnderTest) -> None:
        owners = [OpenedSink(sink, token=1), *(OpenedSink(sink, **who, token=1) for who in OTHERS)]
        OpenedSink(sink, token=9)
        for number, owner in enumerate(owners[1:]):
            owner.run(0, rows(number * 10))
        assert seen(sink) == rows(0, 30)

    # Loss

    def test_lost_staging_is_refused_and_nothing_shown(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        transaction = owner.prepare(0, rows(0), rows(10))
        if not sink.lose_staged():
            pytest.skip("messages carry the rows")
        with pytest.raises(MillstreamError) as refused:
            owner.publish(0, transaction)
        assert not isinstance(refused.value, Fenced)
        assert seen(sink) == []

    def test_discarded_messages_leave_nothing(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        kept = owner.prepare(0, rows(0))
        messages = owner.stage(0, rows(0), rows(10), attempt="b")
        owner.committer.discard(messages)
        owner.publish(0, kept)
        assert seen(sink) == rows(0)
        assert sink.staged() == 0

    def test_a_late_owner_discards_nothing_that_its_successor_publishes(self, sink: SinkUnderTest) -> None:
        """It lost the answer to what made the epoch durable, was replaced, and wakes up."""
        late = OpenedSink(sink)
        messages = late.stage(0, rows(0))
        transaction = through_json(late.committer.prepare(Epoch(0), messages))
        successor = OpenedSink(sink, token=2)
        with contextlib.suppress(Fenced):
            late.committer.discard(messages)
        successor.publish(0, transaction)
        assert seen(sink) == rows(0)

    def test_an_aborted_writer_leaves_nothing(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink)
        messages = owner.stage(0, rows(0))
        writer = sink.writer(_task(owner, "x"), owner.context.schema)
        writer.write(rows_to_batch(rows(50), SCHEMA))
        writer.abort()
        owner.publish(0, owner.committer.prepare(Epoch(0), messages))
        assert seen(sink) == rows(0)
        assert sink.staged() == 0

    # Crashes: a new owner with a higher token takes over between any two steps

    def test_crash_after_staging(self, sink: SinkUnderTest) -> None:
        OpenedSink(sink, token=1).stage(0, rows(0), rows(10))
        fresh = OpenedSink(sink, token=2)
        fresh.committer.recover(None)
        assert sink.staged() == 0
        fresh.run(0, rows(0), rows(10), attempt="b")
        assert seen(sink) == rows(0, 20)

    def test_crash_after_the_manifest_is_durable(self, sink: SinkUnderTest) -> None:
        stale = OpenedSink(sink, token=1)
        transaction = stale.prepare(0, rows(0), rows(10))
        fresh = OpenedSink(sink, token=2)
        fresh.publish(0, transaction)
        fresh.committer.recover(Epoch(0))
        with pytest.raises(Fenced):
            stale.publish(0, transaction)
        assert seen(sink) == rows(0, 20)

    def test_crash_after_publishing_with_the_reply_lost(self, sink: SinkUnderTest) -> None:
        transaction = OpenedSink(sink, token=1).run(0, rows(0))
        fresh = OpenedSink(sink, token=2)
        fresh.publish(0, transaction)
        fresh.committer.recover(Epoch(0))
        fresh.run(1, rows(10))
        assert seen(sink) == rows(0, 20)

    def test_crash_in_the_middle_of_fencing(self, sink: SinkUnderTest) -> None:
        transaction = OpenedSink(sink, token=1).prepare(0, rows(0))
        OpenedSink(sink, token=2)
        last = OpenedSink(sink, token=3)
        last.publish(0, transaction)
        last.committer.recover(Epoch(0))
        assert seen(sink) == rows(0)

    def test_recover_drops_orphans_and_nothing_that_is_durable(self, sink: SinkUnderTest) -> None:
        owner = OpenedSink(sink, token=1)
        owner.run(0, rows(0))
        durable = owner.prepare(1, rows(10))
        owner.stage(1, rows(10), attempt="lost")
        owner.stage(2, rows(20))
        fresh = OpenedSink(sink, token=2)
        fresh.publish(1, durable)
        fresh.committer.recover(Epoch(1))
        fresh.committer.recover(Epoch(1))
        assert sink.staged() == 0
        assert seen(sink) == rows(0, 20)

    def test_recover_leaves_others_alone(self, sink: SinkUnderTest) -> None:
        others = [OpenedSink(sink, **who) for who in OTHERS]
        kept = [other.prepare(3, rows(number * 10)) for number, other in enumerate(others)]
        owner = OpenedSink(sink)
        owner.stage(0, rows(90))
        owner.committer.recover(None)
        for other, transaction in zip(others, kept, strict=True):
            other.publish(3, transaction)
        assert seen(sink) == rows(0, 30)

    def test_sinks_jobs_and_lineages_share_a_target(self, sink: SinkUnderTest) -> None:
        owners = [OpenedSink(sink), *(OpenedSink(sink, **who) for who in OTHERS)]
        prepared = [owner.prepare(0, rows(number * 10)) for number, owner in enumerate(owners)]
        for owner, transaction in zip(owners, prepared, strict=True):
            owner.publish(0, transaction)
        assert seen(sink) == rows(0, 40)


def _task(owner: OpenedSink, attempt: str) -> SinkTask:
    who = owner.context
    return SinkTask(job=who.job, lineage=who.lineage, step=who.step, epoch=Epoch(0), task="0-9", attempt=attempt)
