"""Run one side of a comparison in a process of its own, and say what it did and what it took."""

from __future__ import annotations

import dataclasses
import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from benchmarks.measure import environment
from benchmarks.process_tree import Watch, kill_tree, watched
from examples.nexmark.golden import Values
from examples.nexmark.rivals import pyflink_install, pyflink_queries
from examples.nexmark.rivals.expected import ALL_CHECKS
from examples.nexmark.rivals.setting import Answer, Setting, read_answer, write_json

OURS = "ours"
RIVALS = ("spark", "pyflink")
_ROOT = Path(__file__).parents[3]
_SIZE_EVERY = 2.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One side of one query."""

    seconds: float = 0.0
    """From the first epoch, batch or task to the end of the last."""
    cpu: float = 0.0
    """Core-seconds of the whole process tree in that time."""
    resident: int = 0
    """Highest resident bytes of the process tree until then."""
    state: int = 0
    """Highest bytes of checkpointed state on disk."""
    exactness: str = ""
    """`exact`, `differs: …` or why it was not compared."""
    failure: str = ""
    """Why there is nothing to measure."""
    notes: tuple[str, ...] = ()

    @property
    def is_measured(self) -> bool:
        """Whether the side ran to its end."""
        return not self.failure

    @property
    def is_wrong(self) -> bool:
        """Whether it failed, or gave other figures than the right ones."""
        return not self.is_measured or self.exactness.startswith("differs")


def refusal(side: str, query: str) -> str:
    """Why a side cannot run a query at all; empty when it can."""
    if side == OURS:
        return ""
    module: Any = importlib.import_module(f"examples.nexmark.rivals.{side}_queries")
    if query in module.QUERIES:
        return ""
    return f"cannot be expressed: {module.REFUSED.get(query, 'not written')}"


def measured(side: str, setting: Setting, expected: Values, *, timeout: float) -> Measurement:
    """Run a side, watch it, and compare what it gave; a side that fails is a measurement too."""
    if reason := refusal(side, setting.query):
        return Measurement(failure=reason)
    work = Path(setting.work)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    write_json(setting, work / "setting.json")
    began = time.monotonic()
    sizes = StateSizes(setting.checkpoint)
    with (work / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            command_of(side, work), stdout=log, stderr=log, env=_environment(side, setting), cwd=_ROOT
        )
        try:
            watch = watched(process, also=lambda: _look(process, sizes, began + timeout))
        finally:
            kill_tree(process)
    if process.returncode or not (work / "answer.json").exists():
        is_late = time.monotonic() >= began + timeout
        return Measurement(failure=f"took more than {timeout:.0f} s" if is_late else _last_words(work / "log.txt"))
    return _summary(side, setting, expected, read_answer(work / "answer.json"), watch, sizes)


_HEAP, _STATE_HEAP = "-Xmx1024m", "-Xmx4096m"
"""Of PyFlink: as large as the heap of the others, and as large as all processes of ours where it holds the state."""


def command_of(side: str, work: Path) -> list[str]:
    """The process of a side."""
    python = str(pyflink_install.PYTHON) if side == "pyflink" else sys.executable
    return [python, "-m", "examples.nexmark.rivals.side", side, str(work / "setting.json")]


def _environment(side: str, setting: Setting) -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(_ROOT), os.environ.get("PYTHONPATH")]))
    # PyFlink's JVM takes the size of its heap from here; the others have theirs from their session.
    has_state = side == "pyflink" and pyflink_queries.QUERIES[setting.query].on_heap
    return {**environment(), "PYTHONPATH": path, "TZ": "UTC", "JVM_ARGS": _STATE_HEAP if has_state else _HEAP}


def _look(process: subprocess.Popen[bytes], sizes: StateSizes, deadline: float) -> None:
    sizes.look()
    if time.monotonic() >= deadline:
        kill_tree(process)


class StateSizes:
    """Looks at the size of a checkpoint now and then."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._clock, self._next = folder, clock, clock() + _SIZE_EVERY
        self.highest = 0

    def look(self) -> None:
        """Look, unless that was just done."""
        if self._clock() >= self._next:
            self.now()

    def now(self) -> None:
        """Look."""
        self.highest = max(self.highest, size_of(self._folder))
        self._next = self._clock() + _SIZE_EVERY


def size_of(folder: Path) -> int:
    """Bytes of the state in a checkpoint: the folders that are called `state`, or all of it when none is."""
    total = within = 0
    for parent, _, names in os.walk(folder):
        is_state = "state" in Path(parent).relative_to(folder).parts
        for name in names:
            try:
                size = (Path(parent) / name).stat().st_size
            except FileNotFoundError:
                continue  # replaced by a newer one meanwhile
            total, within = total + size, within + size * is_state
    return within or total


def _summary(
    side: str, setting: Setting, expected: Values, answer: Answer, watch: Watch, sizes: StateSizes
) -> Measurement:
    sizes.now()
    return Measurement(
        seconds=answer.ended - answer.began - answer.start_up,
        cpu=watch.cpu_at(answer.ended) - watch.cpu_at(answer.began),
        resident=watch.peak_until(answer.ended),
        state=sizes.highest,
        exactness=_exactness(side, setting, expected, answer),
        notes=answer.notes,
    )


def _exactness(side: str, setting: Setting, expected: Values, answer: Answer) -> str:
    if answer.found is None:
        module: Any = importlib.import_module(f"examples.nexmark.rivals.{side}_side")
        found = ALL_CHECKS[setting.query].found(module.result(setting))
    elif not answer.found:
        return "not compared"
    else:
        found = tuple(map(Decimal, answer.found))
    return verdict(found, expected)


def verdict(found: Values, expected: Values) -> str:
    """What a comparison comes to; equal numbers of rows alone are worth saying."""
    if found == expected:
        return "exact"
    shown = ", ".join(map(str, found))
    same_rows = " (equal number of rows)" if found[:1] == expected[:1] else ""
    return f"differs: {shown} instead of {', '.join(map(str, expected))}{same_rows}"


def _last_words(log: Path) -> str:
    """The line of a log that most likely says what went wrong."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    telling = [line for line in lines if "Error" in line or "Exception" in line]
    return "failed: " + ((telling or lines or ["without a word"])[-1])[:300]
