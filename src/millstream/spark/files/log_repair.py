"""Repairs of Spark's logs that lose nothing: damaged files are set aside, and Spark rebuilds what they held."""

from __future__ import annotations

import itertools
import json
import uuid
from pathlib import Path

from millstream.checkpoint.stores.local import make_directory, sync_directory, write_synced
from millstream.spark.files.log_files import read_logs
from millstream.spark.files.logs import LogProblem, Repair, compare_logs, refusal
from millstream.spark.files.operator_files import relocate

_ROUNDS = 10
"""A repair may bring the next problem to light; there are fewer kinds of them than this."""


def repair(folder: Path, newest_epoch: int | None, digest: str | None) -> list[str]:
    """Repair what can be repaired safely; returns what was done, nothing if nothing was wrong.

    Where one problem has no safe repair, nothing is touched by that round and `CheckpointRefused` is raised: a
    checkpoint that must be restored anyway is better left as it was found.
    """
    done: list[str] = []
    for _ in range(_ROUNDS):
        errors = [
            problem for problem in compare_logs(read_logs(folder), newest_epoch, digest) if problem.severity == "error"
        ]
        if not errors:
            return done
        if any(problem.repair is None for problem in errors):
            raise refusal(errors)
        done += _repaired(folder, errors)
    raise refusal(errors)


def _repaired(folder: Path, errors: list[LogProblem]) -> list[str]:
    done = []
    for problem in errors:
        assert problem.repair is not None, "only problems with a repair are repaired"
        _apply(folder, problem.repair)
        done.append(f"{problem.what} ({problem.code}): {problem.repair.what}")
    return done


def _apply(folder: Path, step: Repair) -> None:
    present = [file for file in step.set_aside if file.exists()]
    if present:
        aside = _new_folder(folder)
        for file in present:
            target = aside / file.relative_to(folder)
            make_directory(target.parent)
            file.rename(target)
            sync_directory(target.parent)
            sync_directory(file.parent)
    if step.new_metadata:
        write_synced(folder / "metadata", json.dumps({"id": str(uuid.uuid4())}, separators=(",", ":")).encode())
        sync_directory(folder)
    if step.relocate:
        relocate(folder)


def _new_folder(folder: Path) -> Path:
    numbers = itertools.count(1)
    aside = next(place for number in numbers if not (place := folder / f"damaged-{number}").exists())
    aside.mkdir()
    return aside
