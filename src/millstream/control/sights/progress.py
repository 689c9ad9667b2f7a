"""How far a run is: its rates, what waits at its sources, its watermark, and what holds it back and why."""

from __future__ import annotations

import dataclasses
from typing import Any

from millstream.api.running.result import EpochSummary
from millstream.control.sights.sight import RunSight
from millstream.control.sights.watermarks import lag_seconds
from millstream.model.time import instant_text

_IDLE = 0.5
"""A job that spends less than this share of its time in epochs waits for rows."""


def progress_of(sight: RunSight) -> dict[str, Any]:
    """All of it; what is not known yet is null."""
    newest = sight.newest
    return {
        "run": sight.run,
        "status": sight.status,
        "source": sight.source,
        "rates": _rates(sight),
        "lag": None if newest is None else _lag(newest),
        "watermark": None if newest is None else _watermark(newest),
        "buffers": {} if newest is None else dict(newest.buffers),
        "holder": holder_of(sight),
        **{kind: sight.told.get(kind) for kind in ("epoch", "progress", "alive", "dead_letters")},
    }


def holder_of(sight: RunSight) -> dict[str, Any] | None:
    """The step, or else the phase, that takes most of an epoch, with the reason; `None` before the first epoch."""
    newest = sight.newest
    if newest is None:
        return None
    spent = sum(each.summary.seconds for each in sight.epochs)
    if not newest.lag and spent < _IDLE * sight.span:
        why = f"nothing waits, and epochs take {spent / sight.span:.0%} of the time"
        return {"step": None, "kind": None, "vertex": None, "phase": None, "share": None, "why": why}
    held = newest.load.holder
    if held is not None:
        why = f"its slowest subtask took {held.seconds:.2f} s, {held.share:.0%} of the newest epoch"
        return {
            "step": held.step,
            "kind": held.kind,
            "vertex": held.vertex,
            "phase": None,
            "share": held.share,
            "why": why,
        }
    return _slowest_phase(newest)


def _slowest_phase(newest: EpochSummary) -> dict[str, Any] | None:
    phase = max(newest.phases, key=lambda name: newest.phases[name], default=None)
    if phase is None:
        return None
    share = min(1.0, newest.phases[phase] / max(newest.seconds, 1e-6))
    why = f"no step takes a fifth of an epoch; phase {phase} took {newest.phases[phase]:.2f} s, {share:.0%} of it"
    return {"step": None, "kind": None, "vertex": None, "phase": phase, "share": share, "why": why}


def _rates(sight: RunSight) -> dict[str, float] | None:
    """Rows and epochs per second, over the window."""
    if not sight.epochs:
        return None
    summaries = [each.summary for each in sight.epochs]
    sums = {
        "rows_in": sum(each.rows_in for each in summaries),
        "rows_out": sum(each.rows_out for each in summaries),
        "epochs": len(summaries),
    }
    return {name: round(amount / sight.span, 3) for name, amount in sums.items()}


def _lag(newest: EpochSummary) -> dict[str, Any]:
    """Rows that wait, by source and partition; why a partition stands still, and what is kept outside for it."""
    names = sorted({*newest.lags, *newest.blocked, *newest.retained})
    return {
        "rows": newest.lag,
        "partitions": [
            {
                "source": name.partition("/")[0],
                "partition": name.partition("/")[2],
                "rows": newest.lags.get(name),
                "blocked": newest.blocked.get(name),
                "retained_bytes": newest.retained.get(name),
            }
            for name in names
        ],
    }


def _watermark(newest: EpochSummary) -> dict[str, Any]:
    holders = [dataclasses.asdict(each) | {"watermark": instant_text(each.watermark)} for each in newest.holders]
    return {
        "lowest": instant_text(newest.watermark),
        "lag_seconds": lag_seconds(newest.now, newest.watermark),
        "steps": {step: instant_text(mark) for step, mark in newest.steps.items()},
        "holders": holders,
    }
