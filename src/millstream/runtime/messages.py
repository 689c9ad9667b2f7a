"""What driver and tasks tell each other about an epoch: tasks to run, the plan, and reports."""

from __future__ import annotations

from typing import Any

import msgspec

from millstream.api.functions.user_metrics import UserMetrics
from millstream.checkpoint.page_file import PageFile
from millstream.model.counts import Counts
from millstream.plan.epoch import EpochPlan
from millstream.state.pages import NEVER


class TaskReport(msgspec.Struct, kw_only=True):
    """What a task tells the driver about an epoch."""

    level: int
    task: int
    tasks: int
    attempt: int = 0
    """How often the engine had tried the task before."""
    plan: EpochPlan | None = None
    counts: Counts = {}
    newest: dict[str, dict[str, int]] = {}
    """Per event-time step and partition: the newest event time seen."""
    timed: dict[str, dict[str, int]] = {}
    """Per event-time step and partition: how many rows it was."""
    marks: dict[str, dict[str, int]] = {}
    """Per event-time step and partition: the highest mark that rows carried, where marks move the watermark."""
    sinks: dict[str, Any] = {}
    """Per sink: its commit message."""
    event_due: dict[str, int] = {}
    """Per keyed step: the first event time at which it has something to do."""
    processing_due: int = NEVER
    savepoint: dict[str, PageFile] = {}
    """Per keyed step, by uid: the file its state was exported to."""
    metrics: UserMetrics = {}
    """Per step: what functions of the user counted."""
    read_bytes: dict[str, int] = {}
    """Per source: the size of what was read."""
    lost: dict[str, dict[str, int]] = {}
    """Per source and reason: rows that the plan names and that are gone outside."""
    busy: dict[str, float] = {}
    """Per vertex: seconds spent in it."""
    spent: dict[str, float] = {}
    """Per step: seconds spent in it, and in sending to it."""
    received_bytes: dict[str, int] = {}
    """Per vertex behind an exchange: the size of what came in."""
    sent_bytes: dict[str, int] = {}
    """Per vertex: the size of what it sent into exchanges and gave to sinks."""
    staged_bytes: int = 0
    """The size of what it gave to sinks."""
    state_bytes: int = 0
    """The size of the pages of state that it wrote."""


class RunIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """For whom a task works."""

    lineage: str
    token: int = 1
    restore: str = ""
    """In the first epoch of a lineage: the savepoint whose state the subtasks load."""
    staging: str = ""
    """The folder in which sinks may stage that have no place of their own."""


class TaskInput(msgspec.Struct, kw_only=True):
    """What a level-0 task is given: its number, the epoch's plan and its splits as (source, partition, body)."""

    task: int
    tasks: int
    plan: EpochPlan
    splits: list[tuple[str, str, Any]]
    run: RunIdentity


class PlanCell(msgspec.Struct, frozen=True):
    """The body of the cell that tells a subtask its epoch."""

    plan: EpochPlan
    run: RunIdentity
