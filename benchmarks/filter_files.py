"""Parquet, a filter expression, parquet: ours against Structured Streaming's own file source and file sink."""

from __future__ import annotations

import millstream as ms
from benchmarks import ours, rival
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Sides, compared, with_output

SHAPES = {
    "full": Shape(epoch_rows=2_000_000, epochs=6, keys=100_000, files_per_epoch=8),
    "small": Shape(epoch_rows=40_000, epochs=3, keys=1_000, files_per_epoch=2, warm=1),
}
WHERE = "x > 250 and k % 10 <> 3"


def _ours(setting: Setting) -> Measured:
    job, rows = ours.job_over(setting, SHAPES[setting.scale])
    rows.filter(WHERE).sink("out", ms.files(setting.output))
    return with_output(ours.epochs_of(job, setting), setting.output)


def _files(setting: Setting) -> Measured:
    kept = rival.rows_of(rival.session(), setting, SHAPES[setting.scale]).filter(WHERE)
    query = kept.writeStream.format("parquet").option("path", str(setting.output))
    return with_output(rival.epochs_of(query, setting), setting.output)


SIDES = {"ours": _ours, "files": _files}
USES = tuple(("filter_files", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """One line."""
    warm = SHAPES[scale].warm
    name = "Structured Streaming file sink"
    return [compared("parquet, filter, parquet", sides, "ours", "files", warm=warm, name=name, at_least=1.0)]
