"""What a driver does before it has a run, so that the run need not wait for it: import, start Spark, run a throw-away job."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import pkgutil
import sys
import tempfile
from pathlib import Path

import millstream as ms
from millstream.api.jobfile.target import model_of
from millstream.api.run_options import RunOptions
from millstream.api.running.job import RunningJob
from millstream.contract.warm_start import WarmWish
from millstream.plan.compile import compile_job
from millstream.registry import load_module, names

_PACKAGES = (
    "millstream.api.sql",
    "millstream.api.jobfile",
    "millstream.runtime",
    "millstream.state",
    "millstream.checkpoint",
)
_LIBRARIES = ("duckdb", "sqlglot", "pyarrow.parquet", "pyarrow.compute", "pyarrow.acero", "zoneinfo")
_EPOCHS = 4
_ROWS = 50
_SECONDS = 120.0


def get_ready(wish: WarmWish, folder: Path, jvm_log: int) -> None:
    """Everything that a run needs and that does not depend on it."""
    if wish.engine == "spark":
        from millstream.spark.start.launch import start_early

        # It starts while this process imports.
        start_early(_options(wish).deployment(), log=jvm_log)
    import_all()
    with tempfile.TemporaryDirectory(prefix="ready-", dir=folder) as place:
        _run_through(wish, Path(place))
    if wish.engine == "spark":
        from millstream.spark.start.launch import offer

        offer()
    gc.collect()
    # What is there now stays: looking through it again and again is no use.
    gc.freeze()


def close_spark() -> None:
    """End what was started and leave no folder behind; a process that has begun nothing of Spark imports nothing of it."""
    launch = sys.modules.get("millstream.spark.start.launch")
    if launch is not None:
        launch.close()


def _options(wish: WarmWish) -> RunOptions:
    return RunOptions(
        local=wish.engine == "local",
        master=wish.master or "local[*]",
        state_backend="memory" if wish.state_backend == "memory" else "rocksdb",
        confs=dict(wish.confs),
    )


def import_all() -> None:
    """What the code of jobs may lead to; a library that is not installed is none of theirs."""
    for name in _LIBRARIES:
        with contextlib.suppress(ImportError):
            load_module(name)
    for name in (*_PACKAGES, *(f"millstream.connectors.{each}" for each in names("connectors"))):
        _import_package(name)


def _import_package(name: str) -> None:
    with contextlib.suppress(ImportError):
        package = load_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                load_module(found.name)


def _run_through(wish: WarmWish, place: Path) -> None:
    """A job that reads, keys, keeps state and writes, over a few epochs: what runs the first time runs slowly."""
    job = ms.Job("warm-up", rows_per_epoch=_ROWS)
    rows = job.source("rows", ms.datagen(rows=_EPOCHS * _ROWS, fields={"n": {"kind": "sequence"}}))
    counts = rows.with_columns(k="n % 7").filter("n >= 0").key_by("k").aggregate(n=ms.count(), id="counts")
    counts.sink("out", ms.files(str(place / "out")))
    options = dataclasses.replace(_options(wish), checkpoint=str(place / "checkpoint"))
    plan = compile_job(model_of(job, None), options.deployment()).deployment
    RunningJob("warm-up", options.engine_of(plan)).wait(_SECONDS)
