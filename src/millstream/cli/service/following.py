"""Following a run to its end, and saying how it ended."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from millstream.cli.failure import INTERRUPTED, JOB_FAILED

if TYPE_CHECKING:
    from millstream.client import Client
    from millstream.client.values import OperationInfo, RunInfo

_LOOK_SECONDS = 0.3
_QUIET_SECONDS = 0.5
"""What is done sooner needs no word."""
_ENDED = {"COMPLETED": 0, "SUSPENDED": 0, "CANCELLED": INTERRUPTED, "DEAD": JOB_FAILED}


def follow(client: Client, run: str, *, quiet: bool = False) -> None:
    """Print each change of a run until it has ended; the exit code says how.

    Raises:
        typer.Exit: it did not end well.
    """
    shown = ""
    while True:
        now = client.runs.get(run)
        line = f"{now.status}, attempt {now.attempt}, {now.processed_records:,} records"
        if line != shown and not quiet:
            typer.echo(line, err=True)
            shown = line
        if now.status in _ENDED:
            _tell_end(now)
            return
        time.sleep(_LOOK_SECONDS)


@contextlib.contextmanager
def waiting() -> Iterator[Callable[[OperationInfo], None]]:
    """Says on a terminal what is waited for, and for how long; in a file or pipe only when its status changes."""
    begun, shown, is_terminal = time.monotonic(), "", sys.stderr.isatty()

    def look(seen: OperationInfo) -> None:
        nonlocal shown
        took = time.monotonic() - begun
        text = f"{seen.kind}: {seen.status}"
        if is_terminal and not seen.has_ended:
            typer.echo(f"\r{text}, {took:.0f} s\x1b[K", err=True, nl=False)
        elif not is_terminal and text != shown and took > _QUIET_SECONDS:
            typer.echo(text, err=True)
        shown = text

    yield look
    if is_terminal and shown:
        typer.echo("\r\x1b[K", err=True, nl=False)


def _tell_end(run: RunInfo) -> None:
    code = _ENDED[run.status]
    if run.error_message and code == JOB_FAILED:
        typer.echo(f"error [{run.error_code}] {run.error_message}", err=True)
    if code:
        raise typer.Exit(code)
