"""Writes what the tests resume; see the README. `python -m tests.compat.float_keys.write ENGINE FOLDER`."""

import importlib
import sys
import tarfile
from pathlib import Path

from millstream.runtime.control import RunControl
from tests.compat.float_keys import jobs

from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment

ENGINES = {"local": "millstream.local.run", "spark": "millstream.driver.run"}
STORED = {
    "merged": jobs.merged_job,
    "kept": jobs.kept_job,
    **{f"twice-{step}": (lambda step=step: jobs.kept_job(jobs.EVERY, step)) for step in jobs.KEPT},
}


def write(engine, name, folder):
    """Read half of the input, take a savepoint and end."""
    control, seen = RunControl(), 0

    def listener(summary):
        nonlocal seen
        before, seen = seen, seen + summary.rows_in
        if before < jobs.ROWS // 2 <= seen:
            control.ask("suspend", to=str(folder / "savepoints"))

    model = STORED[name]().model
    plan = compile_job(model, Deployment(checkpoint=str(folder / "checkpoint"))).deployment
    run = importlib.import_module(ENGINES[engine]).run
    result = run(plan, clock=lambda: 0, control=control, listener=listener)
    assert result.ended == "suspended", result.ended
    print(engine, name, seen)


def main(engine, target):
    """Write an archive for an engine; on Spark only what both kinds of step need."""
    root = Path(target) / engine
    for name in STORED:
        if engine == "local" or not name.startswith("twice"):
            write(engine, name, root / name)
    with tarfile.open(Path(__file__).parent / f"{engine}.tar.gz", "w:gz") as archive:
        for path in sorted(root.iterdir()):
            archive.add(path, path.name)


if __name__ == "__main__":
    main(*sys.argv[1:])
