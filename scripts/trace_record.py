"""How many modules one record crosses: `python scripts/trace_record.py` runs a job of one row and counts.

The job is source → event time → filter → key_by → tumbling count → files, on the local engine, from the first call of the API
to the published file. A change of module is a call from a function of one module of ours into a function of another.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import millstream as ms

_ROOT = f"{Path(ms.__file__).parent}/"


class Trace:
    """Which modules of ours were called, and how often a call went from one into another."""

    def __init__(self) -> None:
        self.modules: Counter[str] = Counter()
        self.changes = 0

    def note(self, frame: FrameType, event: str, _: Any) -> None:
        """Called by the interpreter for every call of a function."""
        if event != "call":
            return
        module = _module(frame)
        if module is None or frame.f_code.co_name == "<module>":
            return
        self.modules[module] += 1
        before = frame.f_back
        while before is not None and _module(before) is None:
            before = before.f_back
        if before is not None and _module(before) != module:
            self.changes += 1


def _module(frame: FrameType) -> str | None:
    name = frame.f_code.co_filename
    return name.removeprefix(_ROOT).removesuffix(".py") if name.startswith(_ROOT) else None


def one_record(folder: Path) -> None:
    """The job, with a single row."""
    (folder / "in").mkdir()
    (folder / "in" / "rows.json").write_text(json.dumps({"k": "a", "at": 1000, "v": 1}) + "\n")
    job = ms.Job("one-record")
    rows = job.source(
        "rows", ms.files(str(folder / "in"), format="json", watch=False), schema="k string, at long, v long"
    )
    timed = rows.event_time("at").filter("v > 0")
    counts = timed.key_by("k").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="counts")
    counts.sink("out", ms.files(str(folder / "out"), format="json"))
    job.run(local=True, checkpoint=folder / "checkpoint")


def main() -> None:
    """Run it once for the imports, then traced."""
    with tempfile.TemporaryDirectory() as folder:
        one_record(Path(folder))
    trace = Trace()
    with tempfile.TemporaryDirectory() as folder:
        threading.setprofile(trace.note)
        sys.setprofile(trace.note)
        one_record(Path(folder))
        sys.setprofile(None)
        threading.setprofile(None)
    packages = Counter(module.partition("/")[0] for module in trace.modules)
    sys.stdout.write(
        f"{len(trace.modules)} modules, {trace.changes:,} changes of module, {sum(trace.modules.values()):,} calls\n"
    )
    sys.stdout.write(", ".join(f"{package} {count}" for package, count in packages.most_common()) + "\n")


if __name__ == "__main__":
    main()
