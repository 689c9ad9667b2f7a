"""`millstream init`: a project that runs and is tested from its first minute."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Annotated

import typer

from millstream.api.jobfile.target import BadTarget
from millstream.cli.failure import reported
from millstream.cli.options import Debug
from millstream.cli.projects.files import project_files

_NAME = re.compile(r"[A-Za-z]([A-Za-z0-9_-]{0,62}[A-Za-z0-9])?")


def init(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Names the project, its folder and its job.")],
    *,
    debug: Debug = False,
) -> None:
    """Make a project in a new folder: a job, its test, sample data, README and pyproject."""
    with reported(debug=debug):
        files = project_files(_checked(name))
        _write(Path(name), files)
    typer.echo(f"made {name}/: {', '.join(files)}")
    typer.echo(f"next:\n  cd {name}\n  pytest\n  millstream run job.py --local")


def _checked(name: str) -> str:
    if _NAME.fullmatch(name):
        return name
    msg = "a project cannot have this name"
    known = "a letter, then letters, digits, - and _, at most 64, the last a letter or digit"
    raise BadTarget(msg, code="CLI-040", found=repr(name), known=known, hint="choose another, such as my-project")


def _write(folder: Path, files: dict[str, str]) -> None:
    """All files or none: nothing that was there is touched, and nothing half made stays."""
    try:
        folder.mkdir()
    except FileExistsError:
        msg = f"{str(folder)!r} is already there"
        raise BadTarget(
            msg, code="CLI-041", found=str(folder.resolve()), hint="choose another name, or another folder to start in"
        ) from None
    except OSError as problem:
        raise _unwritable(folder, problem) from problem
    try:
        for path, text in files.items():
            place = folder / path
            place.parent.mkdir(exist_ok=True)
            place.write_text(text, encoding="utf-8")
    except OSError as problem:
        shutil.rmtree(folder, ignore_errors=True)
        raise _unwritable(folder, problem) from problem


def _unwritable(folder: Path, problem: OSError) -> BadTarget:
    msg = f"{str(folder)!r} cannot be written: {problem.strerror or problem}"
    return BadTarget(msg, code="CLI-042", found=str(folder.resolve()), hint="go to a folder that you may write to")
