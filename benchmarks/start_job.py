"""What `benchmarks/start.py` measures, as a script that runs with any version: `python start_job.py WHAT FILE`.

`ten` runs a job of ten rows, `warm` runs it twice in one session, `epochs` runs many epochs of one row. What took how long goes
into FILE as JSON, each part in seconds.
"""

from __future__ import annotations

import json
import logging
import statistics
import sys
import time
from pathlib import Path

BEGAN = time.time()
EPOCHS, WARM_EPOCHS = 40, 15


class Steps(logging.Handler):
    """Notes when each step of a start is reported."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.at: dict[str, float] = {}

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("millstream") and record.levelno == logging.DEBUG:
            self.at.setdefault(record.getMessage(), record.created)


def ten_rows() -> object:
    import millstream as ms

    job = ms.Job("ten", guarantee="at_least_once")
    rows = job.source("rows", ms.memory([{"k": "ab"[n % 2], "v": n} for n in range(10)]), schema="k string, v long")
    rows.key_by("k").aggregate(n=ms.count(), s=ms.sum("v"), id="sums").sink("printed", ms.print())
    return job.run(master="local[2]")


def many_epochs() -> float:
    """The median seconds from one published epoch to the next."""
    import millstream as ms

    job = ms.Job("epochs", rows_per_epoch=1)
    rows = job.source("rows", ms.datagen(fields={"k": {"kind": "sequence"}}, rows=EPOCHS))
    rows.key_by("k").aggregate(n=ms.count(), id="counts").sink("out", ms.collect("out"))
    running = job.start(master="local[2]")
    running.wait()
    return statistics.median(epoch.seconds for epoch in running.epochs[WARM_EPOCHS:EPOCHS])


def main() -> None:
    what, file = sys.argv[1], Path(sys.argv[2])
    steps = Steps()
    logging.getLogger("millstream").addHandler(steps)
    logging.getLogger("millstream").setLevel(logging.DEBUG)
    found: dict[str, float] = {}
    if what == "epochs":
        found["epoch"] = many_epochs()
    else:
        ten_rows()
    if what == "warm":
        began = time.monotonic()
        ten_rows()
        found["second"] = time.monotonic() - began
    found |= {name: at - BEGAN for name, at in steps.at.items()}
    file.write_text(json.dumps({**found, "began": BEGAN, "ran": time.time()}))


if __name__ == "__main__":
    main()
