"""Following a run to its end, and saying how it ended."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import typer

from millstream.cli.failure import INTERRUPTED, JOB_FAILED

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.values import RunInfo

_LOOK_SECONDS = 0.3
_ENDED = {"COMPLETED": 0, "SUSPENDED": 0, "CANCELLED": INTERRUPTED, "DEAD": JOB_FAILED}


def follow(client: Client, run: str) -> None:
    """Print each change of a run until it has ended; the exit code says how.

    Raises:
        typer.Exit: it did not end well.
    """
    shown = ""
    while True:
        now = client.runs.get(run)
        line = f"{now.status}, attempt {now.attempt}, {now.processed_records:,} records"
        if line != shown:
            typer.echo(line, err=True)
            shown = line
        if now.status in _ENDED:
            _tell_end(now)
            return
        time.sleep(_LOOK_SECONDS)


def _tell_end(run: RunInfo) -> None:
    code = _ENDED[run.status]
    if run.error_message and code == JOB_FAILED:
        typer.echo(f"error [{run.error_code}] {run.error_message}", err=True)
    if code:
        raise typer.Exit(code)
