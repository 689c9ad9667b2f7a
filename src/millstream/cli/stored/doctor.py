"""`millstream doctor`: what this machine has and what is missing; or what is wrong with a checkpoint. Starts no engine."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

from millstream.cli.failure import reported
from millstream.cli.options import Debug, Manifests
from millstream.cli.stored.caches import show_caches
from millstream.inspect.checkpoint import CheckpointView, open_view
from millstream.inspect.checkup import Remark, examine
from millstream.inspect.mending import mend

JAVA = 17
_PYTHON = (3, 11)
_REQUIREMENT = re.compile(r"([A-Za-z0-9_.-]+)([<>=!~][^;]*)?$")
_JAVA_FIXES = (
    ("apt-get", "sudo apt-get install -y openjdk-17-jre-headless"),
    ("dnf", "sudo dnf install -y java-17-openjdk-headless"),
    ("apk", "sudo apk add openjdk17-jre-headless"),
    ("brew", "brew install openjdk@17"),
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing a run needs: what was found, what is needed, and how to get it when it is missing."""

    name: str
    found: str | None
    needed: str
    is_good: bool
    fix: str | None = None


def doctor(
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint directory to explain, instead of this machine."),
    ] = None,
    *,
    manifests: Manifests = None,
    repair: Annotated[bool, typer.Option("--repair", help="Do the repairs that lose nothing.")] = False,
    caches: Annotated[bool, typer.Option("--caches", help="List what is kept to start Spark faster.")] = False,
    make: Annotated[bool, typer.Option("--make", help="With --caches: make it now.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="With --caches: remove it.")] = False,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="How it is printed.")] = "table",
    debug: Debug = False,
) -> None:
    """Check what this machine has for a run on Spark, or explain a checkpoint; exit code 1 when something is wrong."""
    with reported(debug=debug):
        if caches:
            is_good = show_caches(output, make=make, remove=remove)
        elif make or remove:
            msg = "--make and --remove need --caches"
            raise typer.BadParameter(msg)
        elif checkpoint is not None:
            with open_view(checkpoint, manifests, read_only=not repair) as view:
                is_good = _explain(view, output, repair=repair)
        elif repair:
            msg = "--repair needs a CHECKPOINT"
            raise typer.BadParameter(msg)
        else:
            is_good = _machine(output)
        if not is_good:
            raise typer.Exit(1)


def _machine(output: str) -> bool:
    findings = [_python(), _java(), *_packages()]
    if output == "json":
        typer.echo(json.dumps({"ok": _all_good(findings), "findings": [dataclasses.asdict(f) for f in findings]}))
    else:
        for finding in findings:
            typer.echo(_line(finding))
    return _all_good(findings)


def _explain(view: CheckpointView, output: str, *, repair: bool) -> bool:
    found = examine(view)
    done = mend(view, found) if repair and found.problems else []
    found = examine(view) if done else found
    if output == "json":
        remarks = [dataclasses.asdict(remark) for remark in found.remarks]
        typer.echo(json.dumps({"ok": not found.problems, "verdict": found.verdict, "done": done, "remarks": remarks}))
        return not found.problems
    for text in done:
        typer.echo(f"repaired {text}")
    for remark in found.remarks:
        typer.echo("\n".join(_remark_lines(remark)))
    typer.echo(f"verdict: {found.verdict}")
    return not found.problems


def _remark_lines(remark: Remark) -> list[str]:
    code = f"[{remark.code}] " if remark.code else ""
    named = (("file", remark.file if remark.status != "ok" else None), ("safe way out", remark.way_out))
    return [
        f"{remark.status.upper() if remark.status == 'problem' else remark.status:<7} {remark.part:<10} {code}{remark.text}",
        *(f"        {name}: {text}" for name, text in named if text),
    ]


def _all_good(findings: list[Finding]) -> bool:
    return all(finding.is_good for finding in findings)


def _line(finding: Finding) -> str:
    mark = "ok     " if finding.is_good else "MISSING"
    line = f"{mark} {finding.name:<12} {finding.found or 'not found'} (needed: {finding.needed})"
    return line if finding.is_good else f"{line}\n        fix: {finding.fix}"


def _python() -> Finding:
    wanted = ".".join(map(str, _PYTHON))
    return Finding(
        name="python",
        found=f"{sys.version.split()[0]} at {sys.executable}",
        needed=f">={wanted}",
        is_good=sys.version_info >= _PYTHON,
        fix=f"install Python {wanted} or newer and create the environment with it",
    )


def _java() -> Finding:
    path = java_path()
    text = None if path is None else _java_version(path)
    major = java_major(text or "")
    found = None if path is None else f"{text or 'unknown version'} at {path}"
    return Finding(name="java", found=found, needed=f">={JAVA}", is_good=major >= JAVA, fix=_java_fix())


def java_path() -> str | None:
    """The `java` that Spark would start: of `JAVA_HOME`, else of the path."""
    home = os.environ.get("JAVA_HOME")
    inside = Path(home) / "bin" / "java" if home else None
    return str(inside) if inside is not None and inside.is_file() else shutil.which("java")


def java_major(text: str) -> int:
    """The major number of a Java version: 17 of `17.0.9`, 8 of `1.8.0_392`."""
    numbers = re.findall(r"\d+", text)
    if not numbers:
        return 0
    return int(numbers[1]) if numbers[0] == "1" and len(numbers) > 1 else int(numbers[0])


def _java_version(path: str) -> str | None:
    try:
        answer = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return match.group(1) if match else None


def _java_fix() -> str:
    command = next((fix for tool, fix in _JAVA_FIXES if shutil.which(tool)), None)
    return f"{command or f'install a JDK {JAVA} or newer'}, or set JAVA_HOME to a JDK {JAVA} or newer"


def _packages() -> Iterator[Finding]:
    """Every package that the installed millstream requires, by its own metadata."""
    for name, wanted in requirements():
        try:
            found: str | None = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found = None
        is_good = found is not None and satisfies(found, wanted)
        fix = f"{Path(sys.executable)} -m pip install '{name}{wanted}'"
        yield Finding(name=name, found=found, needed=wanted or "any", is_good=is_good, fix=fix)


def requirements() -> list[tuple[str, str]]:
    """Name and version range of each package needed without extras."""
    declared = importlib.metadata.requires("millstream") or []
    matches = (_REQUIREMENT.fullmatch(text.replace(" ", "")) for text in declared if "extra" not in text)
    return [(match.group(1), match.group(2) or "") for match in matches if match is not None]


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version lies in a range such as `>=4.3,<4.4`."""
    for clause in filter(None, wanted.split(",")):
        match = re.fullmatch(r"(>=|<=|==|<|>)(.+)", clause)
        assert match is not None, f"unknown version clause {clause!r}"
        sign, bound = match.groups()
        here, there = _numbers(version), _numbers(bound)
        holds = {">=": here >= there, "<=": here <= there, "==": here == there, "<": here < there, ">": here > there}
        if not holds[sign]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    """Release numbers without trailing zeros, so that 4.3 and 4.3.0 are equal."""
    release = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(part) for part in release.group(0).split(".")] if release else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
