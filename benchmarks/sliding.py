"""Sliding windows: the same rows in windows of a hundred seconds that begin every hundred, ten and one second.

A row is in one, ten or a hundred windows. Spark keeps each of them; we keep a partial result for each slide.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import millstream as ms
from benchmarks import ours, rival
from benchmarks.data import Shape
from benchmarks.measure import Line, Measured, Setting, Side, Sides, compared, with_output

SIZE = 100
SHAPE = {
    "full": Shape(epoch_rows=500_000, epochs=12, keys=1_000, files_per_epoch=2, seconds=50),
    "small": Shape(epoch_rows=4_000, epochs=3, keys=20, files_per_epoch=2, warm=1, seconds=150),
}


def _ours(slide: int) -> Side:
    def side(setting: Setting) -> Measured:
        shape = SHAPE[setting.scale]
        job, rows = ours.job_over(setting, shape)
        windows = rows.event_time("at").key_by("k").window(ms.sliding(SIZE, slide))
        totals = windows.aggregate(n=ms.count(), s=ms.sum("x"), id="windows")
        totals.select("k", "n", "s", start="unix_millis(window_start)").sink("out", ms.files(setting.output))
        return with_output(ours.epochs_of(job, setting), setting.output)

    return side


def _spark(slide: int) -> Side:
    def side(setting: Setting) -> Measured:
        from pyspark.sql import functions as f

        rows: Any = rival.rows_of(rival.session(), setting, SHAPE[setting.scale]).withWatermark("at", "0 seconds")
        windows = rows.groupBy(f.window("at", f"{SIZE} seconds", f"{slide} seconds").alias("w"), "k")
        totals = windows.agg(f.count("*").alias("n"), f.sum("x").alias("s"))
        made = totals.select("k", "n", "s", f.unix_millis("w.start").alias("start"))
        query = made.writeStream.outputMode("append").foreachBatch(rival.to_parquet(setting))
        return with_output(rival.epochs_of(query, setting), setting.output)

    return side


SLIDES = (100, 10, 1)
SIDES = {f"every{slide}": _ours(slide) for slide in SLIDES} | {"spark100": _spark(100), "spark10": _spark(10)}
USES = tuple(("sliding", side) for side in SIDES)


def lines(sides: Sides, scale: str) -> list[Line]:
    """Ours at short slides against ours without overlap, and against Spark."""
    warm = SHAPE[scale].warm

    def line(slide: int, rival: str, name: str, at_least: float | None = None) -> Line:
        what = f"windows of {SIZE} s every {slide} s"
        found = compared(what, sides, f"every{slide}", rival, warm=warm, name=name, at_least=at_least)
        # Other slides give other windows, and Spark leaves those open that the last row did not close.
        return dataclasses.replace(found, equal=None)

    alone = [line(slide, "every100", f"ours every {SIZE} s", at_least=0.8) for slide in (10, 1)]
    return [*alone, *(line(slide, f"spark{slide}", "Spark's `window`") for slide in (100, 10))]
