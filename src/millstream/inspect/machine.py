"""What this machine has for a run on Spark and what is missing: Python, Java, packages; and class archives for a faster start."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from millstream.plan.deployment import Deployment
from millstream.spark.start import caches
from millstream.spark.start.caches import Prepared
from millstream.spark.start.command import settings_of
from millstream.spark.start.confs import context_confs
from millstream.spark.start.training import train_now

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


def examine_machine() -> list[Finding]:
    """Everything that a run needs, found or not."""
    return [_python(), _java(), *_packages()]


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
    here = None if path is None else f"{text or 'unknown version'} at {path}"
    return Finding(name="java", found=here, needed=f">={JAVA}", is_good=major >= JAVA, fix=_java_fix())


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
            installed: str | None = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed = None
        is_good = installed is not None and satisfies(installed, wanted)
        fix = f"{Path(sys.executable)} -m pip install '{name}{wanted}'"
        yield Finding(name=name, found=installed, needed=wanted or "any", is_good=is_good, fix=fix)


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class KeptArchives:
    """What the cache holds now, and why an archive that was to be made is not there."""

    folder: Path
    archives: list[Prepared]
    usual: Path | None
    """The entry of a run without settings, whether it is there or not."""
    problem: str | None

    def facts(self) -> dict[str, Any]:
        """All of it as a JSON value."""
        listed = [
            {"path": str(each.folder), "bytes": each.bytes, "java": each.java, "made": each.made}
            for each in self.archives
        ]
        return {"ok": self.problem is None, "folder": str(self.folder), "entries": listed}


def kept_archives(*, make: bool = False, remove: bool = False) -> KeptArchives:
    """List the archives; before that, remove all, or make that of a run without settings, which takes half a minute."""
    settings = settings_of(context_confs(Deployment(), debug=False))
    usual, problem = caches.entry_for(settings), None
    if remove:
        caches.remove_all()
    if make:
        problem = "it cannot be told which Java this is" if usual is None else train_now(usual, settings)
    return KeptArchives(folder=caches.cache_root(), archives=caches.entries(), usual=usual, problem=problem)
