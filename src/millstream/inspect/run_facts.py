"""What a run did, as JSON values: of an epoch, and of the whole run."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.api.running.result import EpochSummary, RunResult
from millstream.model.time import MAX_TIME, MIN_TIME, instant_text


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


def told_epoch(facts: Mapping[str, Any]) -> EpochSummary:
    """An epoch from its JSON value; parts that were left out because they were long are empty."""
    names = {field.name for field in dataclasses.fields(EpochSummary)}
    known = {name: value for name, value in facts.items() if name in names}
    known |= {name: _instant(known[name]) for name in ("watermark", "now") if name in known}
    known["steps"] = {step: _instant(mark) for step, mark in known.get("steps", {}).items()}
    known["watermarks"] = [{**each, "watermark": _instant(each["watermark"])} for each in known.get("watermarks", ())]
    # Numbers of subtasks are keys of JSON, hence text.
    return msgspec.convert(known, EpochSummary, strict=False)


def _instant(text: str) -> int:
    """What `instant_text` made of an instant."""
    if text in ("-", "end"):
        return MIN_TIME if text == "-" else MAX_TIME
    if text.endswith(" ms"):
        return int(text.removesuffix(" ms"))
    since = dt.datetime.fromisoformat(text) - dt.datetime.fromtimestamp(0, dt.UTC)
    return since // dt.timedelta(milliseconds=1)


def result_facts(result: RunResult) -> dict[str, Any]:
    """The totals of a run, with the counts of every step."""
    return {**dataclasses.asdict(result), "counts": msgspec.to_builtins(result.counts)}
