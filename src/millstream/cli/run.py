"""`millstream run`: run a job here and show what it does."""

from __future__ import annotations

import importlib
import shlex
import sys
from typing import Annotated, Any

import typer

from millstream.cli.failure import INTERRUPTED, reported
from millstream.cli.options import (
    Checkpoint,
    Confs,
    Debug,
    JobArgument,
    Master,
    Parallelism,
    StateBackend,
    deployment_of,
    model_of,
)
from millstream.cli.progress import Output, open_report
from millstream.cli.target import load
from millstream.plan.compile import compile_job


def run(
    job: JobArgument,
    *,
    local: Annotated[bool, typer.Option("--local", help="Run in this process, without Spark.")] = False,
    checkpoint: Checkpoint = None,
    master: Master = "local[*]",
    state_backend: StateBackend = "rocksdb",
    confs: Confs = None,
    parallelism: Parallelism = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="What is printed.")] = "table",
    debug: Debug = False,
) -> None:
    """Run a job until its input ends or you press Ctrl-C; with --checkpoint the same command resumes it."""
    with reported(debug=debug):
        deployment = deployment_of(checkpoint, master, state_backend, confs)
        layers = compile_job(model_of(load(job), parallelism), deployment)
        # By name: the engine brings pyspark along, which no other command needs.
        engine: Any = importlib.import_module("millstream.local.run" if local else "millstream.driver.run")
        options = {} if local else {"debug": debug}
        try:
            with open_report(layers.model.name, output) as report:
                result = engine.run(layers.deployment, listener=report.epoch, **options)
        except KeyboardInterrupt:
            typer.echo(_how_to_resume(checkpoint), err=True)
            raise typer.Exit(INTERRUPTED) from None
        report.result(result)


def _how_to_resume(checkpoint: str | None) -> str:
    if checkpoint is None:
        return "stopped; nothing is kept without --checkpoint DIR, so the next run starts afresh"
    return f"stopped; resume with the same command: {shlex.join(['millstream', *sys.argv[1:]])}"
