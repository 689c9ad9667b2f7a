"""The state of one subtask at the two moments it meets a savepoint: loaded in a lineage's first epoch, exported in another."""

from __future__ import annotations

import functools
from pathlib import Path

from millstream.checkpoint.page_file import PageFile
from millstream.checkpoint.savepoint import RECORD, Savepoint, read_savepoint
from millstream.contract.pages import PageStore
from millstream.plan.epoch import EpochPlan
from millstream.runtime.messages import RunIdentity
from millstream.runtime.program import LevelProgram
from millstream.state.transfer.export import export_pages
from millstream.state.transfer.load import load_level, owned_groups


def restore_state(program: LevelProgram, plan: EpochPlan, run: RunIdentity, subtask: int, store: PageStore) -> None:
    """Load the subtask's key groups; a replay of the epoch finds the store empty again and loads again."""
    if not run.restore:
        return
    partitioned = program.deployment.plan
    load_level(
        Path(run.restore),
        _record(run.restore, _written_at(Path(run.restore) / RECORD)),
        store,
        program.layouts,
        level=program.level,
        groups=owned_groups(subtask, partitioned.parallelism, partitioned.key_groups),
        now=plan.now,
        slots=program.slots,
    )


def export_state(
    program: LevelProgram, plan: EpochPlan, subtask: int, attempt: str, store: PageStore
) -> dict[str, PageFile]:
    """Write the subtask's pages behind its last operator, when the epoch's plan asks for it."""
    if plan.savepoint is None:
        return {}
    root = Path(plan.savepoint.path)
    return export_pages(store, program.layouts, root, level=program.level, subtask=subtask, attempt=attempt)


def _written_at(record: Path) -> int:
    return record.stat().st_mtime_ns if record.exists() else 0


@functools.lru_cache(maxsize=2)
def _record(path: str, _written_at: int) -> Savepoint:
    """All levels of a subtask read one record; another one may stand there later."""
    return read_savepoint(path)
