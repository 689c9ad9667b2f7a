"""What a run did, as JSON values: of an epoch, and of the whole run."""

from __future__ import annotations

import dataclasses
from typing import Any

import msgspec

from millstream.api.running.result import EpochSummary, RunResult
from millstream.model.time import instant_text


def epoch_facts(summary: EpochSummary) -> dict[str, Any]:
    """An epoch as a JSON value, with instants as text."""
    return {
        **dataclasses.asdict(summary),
        "watermark": instant_text(summary.watermark),
        "now": instant_text(summary.now),
        "steps": {step: instant_text(mark) for step, mark in summary.steps.items()},
        "watermarks": [
            {**dataclasses.asdict(each), "watermark": instant_text(each.watermark)} for each in summary.watermarks
        ],
        "counts": msgspec.to_builtins(summary.counts),
    }


def result_facts(result: RunResult) -> dict[str, Any]:
    """The totals of a run, with the counts of every step."""
    return {**dataclasses.asdict(result), "counts": msgspec.to_builtins(result.counts)}
