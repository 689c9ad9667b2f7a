"""Cost per row as rows and keys grow together, 1, 4 and 16 times, over the same number of epochs."""

from __future__ import annotations

import dataclasses

from benchmarks import keyed_aggregate
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Side, Sides

_ONE = {
    "full": Shape(epoch_rows=250_000, epochs=5, keys=12_500),
    "small": Shape(epoch_rows=2_000, epochs=2, keys=100, files_per_epoch=2, warm=1),
}


def shape(scale: str, factor: int) -> Shape:
    """The input at a factor."""
    one = _ONE[scale]
    return dataclasses.replace(one, epoch_rows=one.epoch_rows * factor, keys=one.keys * factor)


def _at(factor: int) -> Side:
    def side(setting: Setting) -> Measured:
        return keyed_aggregate.ours_over(setting, shape(setting.scale, factor))

    return side


SIDES = {f"x{factor}": _at(factor) for factor in (1, 4, 16)}
USES = tuple(("growth", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Cost of a row; and cost of a further row, which leaves out what every epoch costs anyway."""
    warm = _ONE[scale].warm
    one, four, sixteen = (sides[side] for side in SIDES)
    rows = _ONE[scale].epoch_rows
    first = (four.period(warm) - one.period(warm)) / (3 * rows)
    later = (sixteen.period(warm) - four.period(warm)) / (12 * rows)
    return [
        Line(
            what="cost of a row at 16x rows and keys",
            unit="us",
            ours=1e6 / sixteen.rate(warm),
            rival=1e6 / one.rate(warm),
            rival_name="ours at 1x",
            ratio=one.rate(warm) / sixteen.rate(warm),
            at_most=1.3,
        ),
        Line(
            what="cost of a further row, 4x to 16x",
            unit="us",
            ours=1e6 * later,
            rival=1e6 * first,
            rival_name="ours from 1x to 4x",
            ratio=later / first,
        ),
    ]
