"""Read the pages of a checkpoint on Spark, at any retained epoch, whether its query runs or not."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

from pyspark.sql import SparkSession

from millstream.errors import CheckpointRefused
from millstream.spark.files.log_files import read_logs, retained_epochs, retained_text, state_chains
from millstream.spark.query.slots import slot_labels
from millstream.spark.query.state import STATE_NAME
from millstream.state.read_only import ReadOnlyPages


def read_pages(
    session: SparkSession, folder: Path, epoch: int, *, level: int, depth: int, prefix: str = ""
) -> Iterator[tuple[int, str, bytes]]:
    """Slot label, page name and content of every page of a level, one subtask after the other.

    Args:
        session: a session as `open_session` makes it.
        folder: Spark's folder in the checkpoint.
        epoch: an epoch whose commit Spark retains.
        level: the keyed level, from 1 to `depth`.
        depth: how many keyed levels the plan has.
        prefix: how the names of the wanted pages begin; all without it.
    """
    _require_readable(folder, epoch)
    # Spark counts operators from the sinks.
    rows = (
        session.read.format("statestore")
        .option("batchId", epoch)
        .option("operatorId", depth - level)
        .option("stateVarName", STATE_NAME)
        .load(str(folder.resolve()))
        .selectExpr("key.slot as slot", "user_map_key.page as page", "user_map_value.content as content")
    )
    rows = rows.where(rows.page.startswith(prefix)) if prefix else rows
    return ((row.slot, row.page, bytes(row.content)) for row in rows.toLocalIterator())


def _require_readable(folder: Path, epoch: int) -> None:
    logs = read_logs(folder)
    if epoch not in retained_epochs(logs):
        msg = f"the state of epoch {epoch} is not retained, or Spark has not committed it"
        raise CheckpointRefused(
            msg, code="CKPT-055", found=epoch, known=retained_text(logs), hint="name a retained epoch"
        )
    damages = [damage for chain in state_chains(logs, epoch) for damage in chain.damages]
    if damages:
        msg = f"the state of epoch {epoch} is damaged: {damages[0].file.relative_to(folder)} {damages[0].what}"
        raise CheckpointRefused(msg, code="CKPT-056", known=retained_text(logs), hint="run `millstream doctor` on it")


def read_subtasks(
    session: SparkSession, folder: Path, epoch: int, *, level: int, depth: int, parallelism: int, prefix: str = ""
) -> Iterator[tuple[int, ReadOnlyPages]]:
    """The pages of a level, subtask by subtask: one of them is in memory at a time. Empty subtasks are left out."""
    labels = slot_labels(parallelism)
    pages = read_pages(session, folder, epoch, level=level, depth=depth, prefix=prefix)
    for label, group in itertools.groupby(pages, key=lambda page: page[0]):
        yield labels.index(label), ReadOnlyPages({name: content for _, name, content in group})
