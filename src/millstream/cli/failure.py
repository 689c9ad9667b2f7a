"""How an error reaches the person at the command line: clear lines on stderr, and the exit code that says which kind."""

from __future__ import annotations

import contextlib
import linecache
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import typer

import millstream
from millstream.api.jobfile.target import BadTarget
from millstream.errors import (
    CheckpointRefused,
    Domain,
    Fenced,
    MillstreamError,
    StaleVersion,
    StateConflict,
    StepFailed,
)
from millstream.redaction import redacted
from millstream.tracebacks import full_tracebacks, is_debugging

OK, JOB_FAILED, USAGE, INVALID, UNREACHABLE, CONFLICT, OURS, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130
_REPORT = "this is a mistake of millstream's own; report it with what --debug shows"
_OURS = f"{Path(millstream.__file__).parent}/"
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))


_BY_CLASS: dict[type[MillstreamError], int] = {
    BadTarget: USAGE,
    StepFailed: JOB_FAILED,
    CheckpointRefused: CONFLICT,
    Fenced: CONFLICT,
    StateConflict: CONFLICT,
    StaleVersion: CONFLICT,
}
_BY_DOMAIN: dict[Domain, int] = {"user": INVALID, "external": UNREACHABLE, "internal": OURS}


def exit_code(error: BaseException) -> int:
    """What must be mended, as a number: the job or command, something outside, or millstream itself."""
    if isinstance(error, MillstreamError):
        return next((code for kind, code in _BY_CLASS.items() if isinstance(error, kind)), _BY_DOMAIN[error.domain])
    return UNREACHABLE if isinstance(error, OSError) else OURS


@contextlib.contextmanager
def reported(*, debug: bool) -> Iterator[None]:
    """Print errors of the body and leave with their exit code; a traceback only with `debug`."""
    debug = debug or is_debugging()
    try:
        with full_tracebacks(wanted=debug):
            yield
    except MillstreamError as error:
        _show(error, debug=debug)
        raise typer.Exit(exit_code(error)) from error
    except (typer.Exit, typer.BadParameter, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        code = exit_code(error)
        if debug:
            typer.echo(redacted(traceback.format_exc()), err=True)
        typer.echo(redacted(f"error: {type(error).__name__}: {error}"), err=True)
        typer.echo(f"  fix: {_REPORT if code == OURS else 'mend the file or the service it names'}", err=True)
        raise typer.Exit(code) from error


def error_lines(error: MillstreamError) -> list[str]:
    """An error as lines: what failed, where the user wrote it, what was found, what is known, how to fix it."""
    place = f"step {error.step!r}: " if error.step else ""
    named: list[tuple[str, Any]] = [
        ("at", user_line(error.__traceback__)),
        ("found", error.found),
        ("known", error.known),
        ("fix", error.hint),
    ]
    return [f"error [{error.code}] {place}{error.message}", *(f"  {name}: {text}" for name, text in named if text)]


def user_line(trace: TracebackType | None) -> str | None:
    """The innermost line of the user's own code in a traceback."""
    innermost = None
    for frame, line in traceback.walk_tb(trace):
        path = frame.f_code.co_filename
        if not path.startswith((_OURS, "<", *_LIBRARIES)):
            innermost = f"{path}:{line}: {redacted(linecache.getline(path, line).strip())}"
    return innermost


def _show(error: MillstreamError, *, debug: bool) -> None:
    if debug:
        typer.echo(redacted("".join(traceback.format_exception(error))), err=True)
    typer.echo("\n".join(error_lines(error)), err=True)
