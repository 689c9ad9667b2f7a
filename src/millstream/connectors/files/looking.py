"""A look at the target of a sink before a job runs: nothing is created or changed."""

from __future__ import annotations

import os

from millstream.connectors.files.sink import check_sink
from millstream.connectors.files.store import LISTS, local_path
from millstream.errors import ExternalFailure
from millstream.model.connector import Options
from millstream.model.schema import Schema


def look_at_folder(options: Options, schema: Schema, step: str) -> list[str]:
    """See whether files can be written there, and whether somebody did."""
    check_sink(options, schema, step)
    path = local_path(options["path"])
    nearest = next(folder for folder in (path, *path.parents) if folder.exists())
    if not nearest.is_dir() or not os.access(nearest, os.W_OK | os.X_OK):
        msg = f"nothing can be written to {str(path)!r}"
        hint = "give the user of the job the right to write there, or pass another path="
        raise ExternalFailure(msg, code="FILES-035", step=step, found=f"{nearest} is not writable", hint=hint)
    if nearest != path:
        return [f"{path} is missing and will be created in {nearest}"]
    written = [folder for folder in (path / LISTS).glob("*") if folder.is_dir()]
    return [f"{path} can be written to", f"sinks that have written there: {len(written)}"]
