"""Marks become the values the memory source reads."""

import datetime as dt

import pytest

from millstream.errors import InvalidStep
from millstream.testing import ABORT, ADVANCE_CLOCK, EOF, WATERMARK

ZONE = dt.timezone(dt.timedelta(hours=2))


@pytest.mark.parametrize(
    ("at", "ms"),
    [
        (1500, 1500),
        (-1, -1),
        ("1m 30s", 90_000),
        (dt.timedelta(seconds=2), 2000),
        (dt.datetime(1970, 1, 1, 0, 1, tzinfo=dt.UTC), 60_000),
        (dt.datetime(1970, 1, 1, 2, 1, tzinfo=ZONE), 60_000),
        (dt.datetime(1970, 1, 1, 0, 1), 60_000),
    ],
)
def test_watermark_takes_any_instant(at, ms):
    assert WATERMARK(at)["at"] == ms


@pytest.mark.parametrize("at", [1.5, True, None, "soon"])
def test_watermark_refuses_what_is_no_instant(at):
    with pytest.raises(InvalidStep):
        WATERMARK(at)


def test_clock_takes_durations():
    assert ADVANCE_CLOCK("10s")["advance"] == ADVANCE_CLOCK(10)["advance"] == 10_000


def test_abort_marks_differ():
    assert ABORT() != ABORT()


def test_eof_cannot_be_changed():
    with pytest.raises(TypeError):
        EOF["more"] = 1
