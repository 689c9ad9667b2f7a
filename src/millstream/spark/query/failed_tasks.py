"""Tasks that failed for good: Spark tries a task again whatever went wrong, but a user's error is the same the next time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from pyspark import TaskContext

from millstream.errors import MillstreamError
from millstream.spark.query.errors import WorkerError, carried


@contextlib.contextmanager
def carried_once(folder: str) -> Iterator[None]:
    """As `carried`; an error that trying again cannot mend is raised by later attempts at once, without doing the work again.

    Args:
        folder: of the run, on the driver's machine; a worker on another one lets Spark try as often as it likes.
    """
    note = _note(folder)
    if note is not None and note.is_file():
        raise WorkerError(note.read_text())
    try:
        with carried():
            yield
    except WorkerError as problem:
        cause = problem.__cause__
        if note is not None and isinstance(cause, MillstreamError) and cause.retry == "never":
            note.write_text(str(problem))
        raise


def _note(folder: str) -> Path | None:
    context, place = TaskContext.get(), Path(folder)
    if context is None or not folder or not place.is_dir():
        return None
    return place / f"failed-{context.stageId()}-{context.partitionId()}"
