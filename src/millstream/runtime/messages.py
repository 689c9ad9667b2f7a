"""What driver and tasks tell each other about an epoch: tasks to run, the plan, and reports."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.runtime.counts import Counts
from millstream.runtime.epoch import EpochPlan
from millstream.runtime.pages import NEVER


class TaskReport(msgspec.Struct, kw_only=True):
    """What a task tells the driver about an epoch."""

    level: int
    task: int
    tasks: int
    plan: EpochPlan | None = None
    counts: Counts = {}
    newest: dict[str, dict[str, int]] = {}
    """Per event-time step and partition: the newest event time seen."""
    sinks: dict[str, Any] = {}
    """Per sink: its commit message."""
    event_due: dict[str, int] = {}
    """Per keyed step: the first event time at which it has something to do."""
    processing_due: int = NEVER


class TaskInput(msgspec.Struct, kw_only=True):
    """What a level-0 task is given: its number, the epoch's plan and its splits as (source, partition, body)."""

    task: int
    tasks: int
    plan: EpochPlan
    splits: list[tuple[str, str, Any]]
    lineage: str


class PlanCell(msgspec.Struct, frozen=True):
    """The body of the cell that tells a subtask its epoch."""

    plan: EpochPlan
    lineage: str
