import datetime as dt
import json

import pytest

from millstream.connectors.rate.source import RateEnumerator, RateReader
from millstream.connectors.rate.spec import DECLARATION, rate
from millstream.contract.source import SourceContext
from millstream.errors import InvalidStep
from millstream.model.connector import checked_options
from millstream.records.codecs import batch_to_rows

SCHEMA = DECLARATION.source.schema({})


class Clock:
    now = 1_700_000_000.0

    def __call__(self):
        return self.now


def opened(clock, *, parallelism=2, **options):
    checked = checked_options(DECLARATION.source.options, rate(**options).options, step="r", name="rate")
    context = SourceContext(step="r", schema=SCHEMA, log_dir=None, parallelism=parallelism)
    return RateEnumerator(checked, context, clock=clock), RateReader(checked, SCHEMA)


def read(enumerator, reader, start, end):
    splits = enumerator.splits(json.loads(json.dumps(start)), end)
    return [row for split in splits for batch in reader.read(split.body) for row in batch_to_rows(batch)]


def test_rows_come_due_by_the_clock_and_carry_their_time():
    clock = Clock()
    enumerator, reader = opened(clock, rows_per_second=4)
    start = enumerator.initial()
    assert enumerator.advance(start, 100).position == start
    clock.now += 1.3
    end = enumerator.advance(start, 100).position
    assert end["row"] == 5
    begun = dt.datetime.fromtimestamp(1_700_000_000, dt.UTC)
    expected = [{"timestamp": begun + dt.timedelta(milliseconds=250 * n), "value": n} for n in range(5)]
    assert read(enumerator, reader, start, end) == expected


def test_replay_after_a_restart_gives_the_same_rows():
    clock = Clock()
    first, reader = opened(clock, rows_per_second=100)
    start = first.initial()
    clock.now += 5
    end = first.advance(start, 300).position
    clock.now += 1000
    second, _ = opened(clock, rows_per_second=100)
    assert second.splits(start, end) == first.splits(start, end)
    assert [row["value"] for row in read(second, reader, start, end)] == list(range(300))


def test_credit_holds_rows_back_and_lag_counts_them():
    clock = Clock()
    enumerator, _ = opened(clock, rows_per_second=100)
    start = enumerator.initial()
    clock.now += 2
    advance = enumerator.advance(start, 30)
    assert (advance.position["row"], advance.lag, advance.finished) == (30, 170, False)


def test_a_clock_that_steps_back_takes_no_rows_back():
    clock = Clock()
    enumerator, _ = opened(clock, rows_per_second=100)
    position = {**enumerator.initial(), "row": 50}
    clock.now -= 10
    assert enumerator.advance(position, 10).position == position


def test_bounded_rate_finishes():
    clock = Clock()
    enumerator, _ = opened(clock, rows_per_second=100, rows=10)
    clock.now += 1
    advance = enumerator.advance({"row": 0, "since": 1_700_000_000_000}, 100)
    assert (advance.position["row"], advance.finished) == (10, True)
    assert DECLARATION.source.is_bounded({"rows": 10})


def test_a_pace_of_nothing_is_refused():
    with pytest.raises(InvalidStep, match="rows_per_second"):
        opened(Clock(), rows_per_second=0)
