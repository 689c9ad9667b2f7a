"""Arguments and options that several commands share, and the deployment they describe."""

from __future__ import annotations

import dataclasses
from typing import Annotated, Any

import typer

from millstream.api.job import Job
from millstream.graph.model import StreamModel
from millstream.plan.deployment import Deployment

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="job.py, job.py:variable, module:variable, or a .yaml, .yml or .json file.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="DIR", help="Keep state here; the same command resumes a stopped run."),
]
Master = Annotated[str, typer.Option("--master", help="Spark master.")]
StateBackend = Annotated[str, typer.Option("--state-backend", help="rocksdb or memory.")]
Confs = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="Spark configuration; may be given several times.")
]
Parallelism = Annotated[
    int | None, typer.Option("--parallelism", help="Subtasks of every keyed step, instead of what the job says.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def deployment_of(checkpoint: str | None, master: str, state_backend: str, confs: list[str] | None) -> Deployment:
    """The choices of the person at the command line; an unknown one is refused by the value itself."""
    choices: dict[str, Any] = {"checkpoint": checkpoint, "master": master, "state_backend": state_backend}
    return Deployment(**choices, confs=tuple(_pair(text) for text in confs or ()))


def model_of(job: Job, parallelism: int | None) -> StreamModel:
    """The job, with another parallelism when one is given."""
    model = job.model
    if parallelism is None:
        return model
    return dataclasses.replace(model, requirements=dataclasses.replace(model.requirements, parallelism=parallelism))


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        msg = f"-D takes key=value, found {text!r}"
        raise typer.BadParameter(msg)
    return key, value
