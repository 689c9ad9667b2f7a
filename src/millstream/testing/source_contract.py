"""The source contract: whatever a source is made of, it must pass these stories. They are played by pytest.

A test file plugs a source in by a class that inherits `SourceContract` and has a fixture `source` with a `SourceUnderTest`.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from millstream.contract.source import Position, SelectiveEnumerator
from millstream.errors import ExternalFailure
from millstream.records.codecs import Row
from millstream.testing.source_under_test import OpenedSource, SourceUnderTest, as_multiset

PATIENCE = 20.0
"""How long a source that fetches ahead may take to have something."""


class OpenSource(Protocol):
    """Opens owners of the source under test."""

    def __call__(self, *, token: int = 1, folder: Path | None = None, lineage: str = "L1") -> OpenedSource:
        """One owner."""
        ...


def walked(
    opened: OpenedSource, position: Position, credit: int, *, until: int | None = None
) -> tuple[list[Position], list[Row]]:
    """Positions from one to the end, or until a row count is read; a source that fetches ahead is asked again."""
    path, began = [position], time.monotonic()
    rows: list[Row] = []
    while True:
        advance = opened.advance(path[-1], credit)
        if advance.position != path[-1]:
            rows += opened.read(path[-1], advance.position)
            path.append(advance.position)
            began = time.monotonic()
        if advance.finished or (until is not None and len(rows) >= until):
            return path, rows
        assert time.monotonic() - began < PATIENCE, f"nothing came for {PATIENCE} s at {path[-1]}"
        if advance.position == path[-1] and len(path) > 1 and advance.position == path[-2]:
            time.sleep(0.01)


def read_all(source: SourceUnderTest, opened: OpenedSource, credit: int) -> tuple[list[Position], list[Row]]:
    """Everything that stands outside now, up to where the source stands still: behind the last row there may be more to pass."""
    path, rows = walked(opened, opened.initial(), credit, until=None if source.is_bounded else len(source.rows()))
    return [*path, *rest_of(opened, path[-1], credit)], rows


def rest_of(opened: OpenedSource, position: Position, credit: int) -> list[Position]:
    """Positions behind the last row, up to where the source stands still."""
    path, began = [position], time.monotonic()
    while (advance := opened.advance(path[-1], credit)).position != path[-1] or time.monotonic() - began < 0.2:
        if advance.position != path[-1]:
            assert opened.read(path[-1], advance.position) == [], "all rows were there before"
            path.append(advance.position)
        elif advance.drained is None or set(advance.drained) == set(advance.partitions):
            break
    return path[1:]


class SourceContract:
    """Stories that hold for every source."""

    CREDITS = (1, 3, 7, 100, 10_000)

    @pytest.fixture
    def open_source(self, source: SourceUnderTest) -> Iterator[OpenSource]:
        """Opens owners that are closed at the end, whatever happens."""
        opened: list[OpenedSource] = []

        def open_one(*, token: int = 1, folder: Path | None = None, lineage: str = "L1") -> OpenedSource:
            opened.append(OpenedSource(source, token=token, folder=folder, lineage=lineage))
            return opened[-1]

        yield open_one
        for each in opened:
            each.close()
        source.dispose()

    # Cuts

    def test_every_cut_gives_the_same_rows(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        expected = as_multiset(source.rows())
        for number, credit in enumerate(self.CREDITS):
            folder = source.folder / f"cut-{number}" if source.folder else None
            if folder:
                folder.mkdir()
            _, rows = read_all(source, open_source(folder=folder), credit)
            assert as_multiset(rows) == expected, f"with a credit of {credit}"

    def test_the_same_splits_twice_and_by_another_owner(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        first = open_source()
        path, _ = read_all(source, first, 5)
        later = open_source(token=2)
        for start, end in itertools.pairwise(path):
            splits = first.splits(start, end)
            assert first.splits(start, end) == splits
            assert later.splits(start, end) == splits
            assert later.read(start, end) == first.read(start, end)

    def test_ranges_over_several_epochs_hold_the_same_rows(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        opened = open_source()
        path, rows = read_all(source, opened, 4)
        assert as_multiset(opened.read(path[0], path[-1])) == as_multiset(rows)
        assert opened.read(path[-1], path[-1]) == []

    def test_a_restart_behind_each_epoch_reads_the_rest(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        first = open_source()
        path, rows = read_all(source, first, 5)
        stretches = [first.read(start, end) for start, end in itertools.pairwise(path)]
        for place, position in list(enumerate(path))[:-1]:
            before = [row for stretch in stretches[:place] for row in stretch]
            resumed = open_source(token=2 + place)
            until = None if source.is_bounded else len(rows) - len(before)
            _, rest = walked(resumed, position, 5, until=until)
            assert as_multiset([*before, *rest]) == as_multiset(rows), f"restarted at {position}"

    # Credit

    def test_a_credit_of_nothing_reads_nothing(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        opened = open_source()
        start = opened.initial()
        assert opened.advance(start, 0).position == start
        path, rows = read_all(source, opened, 6)
        assert opened.advance(path[1], 0).position == path[1]
        assert as_multiset(rows) == as_multiset(source.rows()), "asking does not take"

    def test_a_source_at_its_end_stands_still(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        opened = open_source()
        path, _ = read_all(source, opened, 50)
        for credit in (0, 1, 50):
            advance = opened.advance(path[-1], credit)
            assert advance.position == path[-1]
            assert advance.finished == source.is_bounded

    # Beginnings

    def test_the_beginning_is_the_same_whenever_it_is_asked(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        first = open_source()
        start = first.initial()
        if not source.is_bounded:
            source.add(3)
        time.sleep(0.01)  # a clock that counts would show
        assert first.initial() == start
        if source.folder is not None:
            assert open_source(token=2).initial() == start, "before the first epoch, only the folder remembers"

    def test_another_run_begins_behind_the_last_and_repeats_nothing(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        path, _ = read_all(source, open_source(), 50)
        start = open_source(token=2, lineage="L2").next_run(path[-1])
        again = open_source(token=3, lineage="L2")
        if source.folder is not None:
            assert again.next_run(path[-1]) == start, "before the first epoch, only the folder remembers"
        if source.is_bounded:
            assert walked(again, start, 50)[1] == []

    def test_old_and_new_owner_at_once(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        if source.folder is None:
            pytest.skip("without a folder there is one owner")
        old, new = open_source(token=1), open_source(token=2)
        start = old.initial()
        until = None if source.is_bounded else len(source.rows())
        first, taken = walked(old, start, 5, until=5)
        path, rows = walked(new, new.initial(), 5, until=until)
        walked(old, first[-1], 5, until=None if until is None else until - len(taken))
        again = [row for pair in itertools.pairwise(path) for row in new.read(*pair)]
        assert again == rows, "what the old owner does changes nothing for the new one"
        assert as_multiset(rows) == as_multiset(source.rows())

    # Acknowledging

    def test_acknowledging_again_and_late_changes_nothing(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        opened = open_source()
        path = [opened.initial()]
        rows: list[Row] = []
        total = len(source.rows())
        while len(rows) < total:
            stretch, more = walked(opened, path[-1], 5, until=1)
            rows += more
            path += stretch[1:]
            for _ in range(2):
                opened.enumerator.acknowledge(path[max(0, len(path) - 2)])
        path += rest_of(opened, path[-1], 5)
        for _ in range(2):
            opened.enumerator.acknowledge(path[-1])
        assert as_multiset(rows) == as_multiset(source.rows())
        resumed = open_source(token=2)
        resumed.enumerator.acknowledge(path[-1])
        assert resumed.advance(path[-1], 5).position == path[-1]

    def test_what_is_not_acknowledged_can_be_read_again(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        opened = open_source()
        path, _ = read_all(source, opened, 5)
        opened.enumerator.acknowledge(path[1])
        later = open_source(token=2)
        later.enumerator.acknowledge(path[1])
        for start, end in itertools.pairwise(path[1:]):
            assert later.read(start, end) == opened.read(start, end)

    # Partitions

    def test_paused_partitions_are_left_out_and_come_later(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        opened = open_source()
        if not isinstance(opened.enumerator, SelectiveEnumerator):
            pytest.skip("it reads all partitions or none")
        start = opened.initial()
        path, _ = read_all(source, opened, 10_000)
        partitions = sorted({split.partition for split in opened.splits(start, path[-1])})
        for paused in partitions if len(partitions) > 1 else ():
            advance = opened.advance(start, 5, paused=[paused])
            assert advance.position != start
            assert paused not in {split.partition for split in opened.splits(start, advance.position)}
            until = None if source.is_bounded else len(source.rows()) - len(opened.read(start, advance.position))
            _, rest = walked(opened, advance.position, 7, until=until)
            whole = [*opened.read(start, advance.position), *rest]
            assert as_multiset(whole) == as_multiset(source.rows())

    def test_splits_name_partitions_that_the_source_says_it_has(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        opened = open_source()
        path, _ = read_all(source, opened, 6)
        told = opened.advance(path[-1], 0)
        if told.partitions:
            assert {split.partition for split in opened.splits(path[0], path[-1])} <= set(told.partitions)
        if told.drained is not None and not source.is_bounded:
            assert set(told.drained) == set(told.partitions), "at its end nothing waits"
        assert all(rows >= 0 for rows in told.lags.values())

    # The outside

    def test_what_is_away_is_an_external_failure_in_each_call(
        self, source: SourceUnderTest, open_source: OpenSource
    ) -> None:
        away = source.away()
        if away is None:
            pytest.skip("nothing is outside")
        opened = open_source()
        path, rows = read_all(source, opened, 5)
        with away:
            for call in (
                lambda: walked(open_source(token=8), path[0], 5, until=1),
                lambda: open_source(token=9).read(path[0], path[1]),
            ):
                with pytest.raises(ExternalFailure):
                    call()
        resumed = open_source(token=10)
        again = [row for pair in itertools.pairwise(path) for row in resumed.read(*pair)]
        assert as_multiset(again) == as_multiset(rows)

    def test_closing_twice_is_closing(self, source: SourceUnderTest, open_source: OpenSource) -> None:
        opened = open_source()
        opened.initial()
        opened.close()
