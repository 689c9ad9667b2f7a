"""`millstream run`: run a job here and show what it does."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from millstream.api.jobfile.target import load, model_of
from millstream.api.run_options import RunOptions
from millstream.api.running.job import JobRunner, RunningJob
from millstream.api.running.result import Ending, EpochSummary, Listener, RunResult
from millstream.cli.failure import INTERRUPTED, reported
from millstream.cli.jobs.interrupts import interrupts
from millstream.cli.jobs.progress import Output, open_report
from millstream.cli.logs import LogFormat, LogLevel, log_lines
from millstream.cli.options import (
    Checkpoint,
    Confs,
    Debug,
    EpochTimeout,
    JobArgument,
    LeaseTerm,
    Manifests,
    Master,
    MinPause,
    Parallelism,
    Params,
    Retain,
    StateBackend,
    TolerateFailures,
    confs_of,
    epochs_of,
    params_of,
)
from millstream.graph.model import Carry, OnStop
from millstream.jobmaster.metrics.file import MetricsFile
from millstream.model.connector import NewerOutput
from millstream.plan.compile import compile_job
from millstream.plan.deployment import DeploymentPlan
from millstream.redaction import shown_words
from millstream.spark.start.launch import start_early


def run(
    job: JobArgument,
    *,
    local: Annotated[bool, typer.Option("--local", help="Run in this process, without Spark.")] = False,
    checkpoint: Checkpoint = None,
    manifests: Manifests = None,
    from_savepoint: Annotated[
        str | None, typer.Option("--from-savepoint", metavar="DIR", help="Go on from this savepoint.")
    ] = None,
    on_newer_output: Annotated[
        NewerOutput, typer.Option("--on-newer-output", help="What becomes of output beyond the savepoint.")
    ] = "refuse",
    allow_dropped_state: Annotated[
        bool, typer.Option("--allow-dropped-state", help="Leave state behind that no step takes.")
    ] = False,
    ignore_state_once: Annotated[
        bool, typer.Option("--ignore-state-once", help="Give the checkpoint's state up and start over, once.")
    ] = False,
    carry: Annotated[
        Carry | None, typer.Option("--carry", help="What the run begins with if the last one is complete.")
    ] = None,
    run_id: Annotated[
        str | None, typer.Option("--run-id", metavar="ID", help="Names the run: started again, it is a retry.")
    ] = None,
    min_pause: MinPause = None,
    epoch_timeout: EpochTimeout = None,
    retain: Retain = None,
    tolerate_failures: TolerateFailures = None,
    lease_term: LeaseTerm = None,
    master: Master = "local[*]",
    state_backend: StateBackend = "rocksdb",
    confs: Confs = None,
    params: Params = None,
    parallelism: Parallelism = None,
    metrics: Annotated[
        Path | None, typer.Option("--metrics", metavar="FILE", help="Keep the newest figures here, for Prometheus.")
    ] = None,
    on_stop: Annotated[
        OnStop | None, typer.Option("--on-stop", help="What Ctrl-C and SIGTERM do, instead of what the job says.")
    ] = None,
    output: Annotated[Output, typer.Option("-o", "--output", help="What is printed.")] = "table",
    log_level: LogLevel = None,
    log_format: LogFormat = "text",
    debug: Debug = False,
) -> None:
    """Run a job until its input ends; Ctrl-C cancels it. With --checkpoint the same command resumes it."""
    with log_lines(log_level, log_format), reported(debug=debug):
        options = RunOptions(
            local=local, checkpoint=checkpoint, manifests=manifests, from_savepoint=from_savepoint,
            on_newer_output=on_newer_output, allow_dropped_state=allow_dropped_state, ignore_state_once=ignore_state_once,
            carry=carry, run_id=run_id, master=master,
            epochs=epochs_of(min_pause, epoch_timeout, retain, tolerate_failures, lease_term),
            state_backend=state_backend,  # type: ignore[arg-type]  # an unknown one is refused by the plan
            confs=confs_of(confs), params=params_of(params), on_stop=on_stop,
        )  # fmt: skip
        deployment = options.deployment()
        if not local:
            start_early(deployment, debug=debug, claims=False)
        plan = compile_job(model_of(load(job), parallelism), deployment).deployment
        engine = options.engine_of(plan, **({} if local else {"debug": debug}))
        guarantee = plan.plan.graph.requirements.guarantee
        figures = None if metrics is None else MetricsFile(metrics, job=plan.name, guarantee=guarantee, mode=plan.mode)
        result = _run(plan, engine, output, figures)
        if result.ended == "cancelled":
            raise typer.Exit(INTERRUPTED)


def _run(plan: DeploymentPlan, engine: JobRunner, output: Output, figures: MetricsFile | None) -> RunResult:
    """Run to the end, report it, and say how to go on."""
    with open_report(plan.name, plan.plan.graph.requirements.guarantee, output) as report:
        listeners: list[Listener] = [report.epoch, *([] if figures is None else [figures.epoch])]
        running = RunningJob(plan.name, engine, listener=lambda summary: _tell(listeners, summary))
        with interrupts(running, plan.on_stop) as stopping:
            try:
                result = stopping.result()
            except KeyboardInterrupt:
                typer.echo(ending_line("cancelled", plan, None), err=True)
                _leave()
            except Exception:
                if figures is not None:
                    figures.failed(running.failures)
                raise
    if figures is not None:
        figures.result(result)
    report.result(result)
    if result.ended != "finished" and output != "quiet":
        typer.echo(ending_line(result.ended, plan, result.savepoint), err=True)
    return result


def _leave() -> NoReturn:
    """End the process under a run that goes on: taking the interpreter apart would abort in its native code."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(INTERRUPTED)


def _tell(listeners: list[Listener], summary: EpochSummary) -> None:
    for listener in listeners:
        listener(summary)


def ending_line(ended: Ending, plan: DeploymentPlan, savepoint: str | None) -> str:
    """How a run ended, how to go on, and how to end it for good instead."""
    again = shlex.join(["millstream", *shown_words(sys.argv[1:])])
    instead = (
        f"to complete the job instead: millstream drain {plan.checkpoint} while it runs, or run it with --on-stop drain"
    )
    afresh = "nothing is kept without --checkpoint DIR, so the next run starts afresh"
    match ended:
        case "drained" if plan.checkpoint is not None:
            more = f"to go on all the same: millstream savepoint create {plan.checkpoint}"
            return f"drained: everything that was read is published, the job is complete; {more}"
        case "drained":
            return f"drained: everything that was read is published; {afresh}"
        case "suspended":
            where = "resume with the same command, or elsewhere with --from-savepoint"
            return f"suspended: savepoint {savepoint}; {where}: {again}; {instead}"
        case _ if plan.checkpoint is not None:
            return f"{ended}; resume with the same command: {again}; {instead}"
        case _:
            return f"{ended}; {afresh}; to publish what was read instead: --on-stop drain"
