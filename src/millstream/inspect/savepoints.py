"""Savepoints as they are told to people and programs: those of a folder, and whether a job can be restored from one."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

from millstream.checkpoint.savepoint import Listed, Savepoint, list_savepoints
from millstream.errors import CheckpointRefused
from millstream.jobmaster.compatibility import CompatibilityReport, JobShape, compare, shape_of
from millstream.jobmaster.resume import shape_of_savepoint
from millstream.plan.deployment import DeploymentPlan

_TOLD = ("id", "kind", "job", "lineage", "epoch", "engine", "parallelism", "created_at", "version")


def savepoints_in(folder: Path) -> list[Listed]:
    """Those of a folder, oldest first, and those that a checkpoint keeps by default; unreadable ones have a problem.

    Raises:
        CheckpointRefused: (SAVE-021) there is no such folder.
    """
    if not folder.is_dir():
        msg = f"there is no folder {folder}"
        raise CheckpointRefused(
            msg,
            code="SAVE-021",
            found="a file" if folder.exists() else "nothing",
            hint="give the folder that holds savepoints, or the directory of --checkpoint",
        )
    # Whoever names a checkpoint means the savepoints that it keeps by default.
    inside = folder / "savepoints"
    return [*list_savepoints(folder), *(list_savepoints(inside) if inside.is_dir() else ())]


def listed_facts(listed: Listed) -> dict[str, Any]:
    """What a list says of a savepoint: its identity and number of keys, or why it cannot be read."""
    if listed.savepoint is None:
        assert listed.problem is not None, "a savepoint or a reason"
        return {"problem": listed.problem.fields()}
    savepoint = listed.savepoint
    keys = sum(savepoint.entries(uid) for uid in savepoint.layouts)
    return {**{name: getattr(savepoint, name) for name in _TOLD}, "keys": keys}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Restorability:
    """The verdicts, and why a restore would be refused, if it would."""

    report: CompatibilityReport
    obstacle: str | None

    def facts(self) -> dict[str, Any]:
        """The verdicts as a JSON value."""
        return {
            "lines": [{**dataclasses.asdict(line), "details": line.details} for line in self.report.lines],
            "is_same_plan": self.report.is_same_plan,
            "is_restorable": self.obstacle is None,
            "obstacle": self.obstacle,
        }


class Restorer(NamedTuple):
    """The job that is to go on from a savepoint, and how."""

    job: str
    shape: JobShape
    engine: str | None = None
    """Where it is to run, if that is known."""
    allow_dropped: bool = False


def restorability(savepoint: Savepoint, deployment: DeploymentPlan, *, allow_dropped: bool) -> Restorability:
    """Judge every step of a job, as a restore would; no file of the savepoint but its record is looked at."""
    return judged(savepoint, Restorer(deployment.name, shape_of(deployment), allow_dropped=allow_dropped))


def judged(savepoint: Savepoint, restorer: Restorer) -> Restorability:
    """The same for a job of which only the shape is known."""
    report = compare(shape_of_savepoint(savepoint), restorer.shape, allow_dropped=restorer.allow_dropped)
    return Restorability(report=report, obstacle=_obstacle(savepoint, report, restorer))


def _obstacle(savepoint: Savepoint, report: CompatibilityReport, restorer: Restorer) -> str | None:
    if savepoint.job != restorer.job:
        return f"the savepoint belongs to another job, {savepoint.job!r}; restore it with that job"
    refusal = report.refusal()
    if refusal is not None:
        return refusal.hint
    stored = (True, savepoint.parallelism, savepoint.engine)
    mine = (report.is_same_plan, restorer.shape.parallelism, restorer.engine or savepoint.engine)
    if savepoint.kind == "native" and stored != mine:
        return "a native savepoint is restored by the plan, parallelism and engine that wrote it; take a canonical one there"
    return None
