"""Arguments and options that several commands share, and the deployment they describe."""

from __future__ import annotations

from typing import Annotated

import typer

from millstream.model.time import duration_ms
from millstream.plan.deployment import EpochPolicy

JobArgument = Annotated[
    str, typer.Argument(metavar="JOB", help="job.py, job.py:variable, module:variable, or a .yaml, .yml or .json file.")
]
Checkpoint = Annotated[
    str | None,
    typer.Option("--checkpoint", metavar="DIR", help="Keep state here; the same command resumes a stopped run."),
]
Manifests = Annotated[
    str | None,
    typer.Option(
        "--manifests",
        metavar="URL",
        help="Another store for manifests, head and lease: s3://, postgresql://, sqlite:///.",
    ),
]
Master = Annotated[str, typer.Option("--master", help="Spark master.")]
StateBackend = Annotated[str, typer.Option("--state-backend", help="rocksdb or memory.")]
Confs = Annotated[
    list[str] | None, typer.Option("-D", metavar="KEY=VALUE", help="Spark configuration; may be given several times.")
]
Parallelism = Annotated[
    int | None, typer.Option("--parallelism", help="Subtasks of every keyed step, instead of what the job says.")
]
Params = Annotated[
    list[str] | None,
    typer.Option("-P", metavar="NAME=VALUE", help="A parameter of the run; may be given several times."),
]
MinPause = Annotated[str | None, typer.Option("--min-pause", help="Rest between two epochs, such as 500ms.")]
EpochTimeout = Annotated[str | None, typer.Option("--epoch-timeout", help="An epoch that takes longer is aborted.")]
Retain = Annotated[int | None, typer.Option("--retain", help="Durable epochs that are kept.")]
TolerateFailures = Annotated[
    int | None,
    typer.Option("--tolerate-failures", help="Failures in a row after which the run starts again by itself."),
]
LeaseTerm = Annotated[str | None, typer.Option("--lease-term", help="A silent owner is replaced after that time.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

To = Annotated[
    str | None,
    typer.Option("--to", metavar="DIR", help="The folder of savepoints; by default savepoints in the checkpoint."),
]
Id = Annotated[
    str | None,
    typer.Option("--id", help="Names the request: asked again, it gives the same answer and does nothing new."),
]
Timeout = Annotated[str, typer.Option("--timeout", help="How long to wait for the answer.")]
Native = Annotated[
    bool, typer.Option("--native", help="A fast copy of the engine's own files, for the same plan on the same engine.")
]

CheckpointArgument = Annotated[
    str, typer.Argument(metavar="CHECKPOINT", help="The checkpoint directory of the job, as given to run.")
]
EitherArgument = Annotated[
    str, typer.Argument(metavar="CHECKPOINT_OR_JOB", help="A path: the job's checkpoint; a name: a job of the service.")
]


def confs_of(written: list[str] | None) -> tuple[tuple[str, str], ...]:
    """Settings of Spark as they are given."""
    return tuple(_pair("-D", text) for text in written or ())


def params_of(written: list[str] | None) -> dict[str, str]:
    """Parameters as they are given; one that is given twice is refused."""
    pairs = [_pair("-P", text) for text in written or ()]
    names = [name for name, _ in pairs]
    if doubled := [name for name in names if names.count(name) > 1]:
        msg = f"parameter {doubled[0]!r} is given twice"
        raise typer.BadParameter(msg)
    return dict(pairs)


def epochs_of(
    min_pause: str | None,
    epoch_timeout: str | None,
    retain: int | None,
    tolerate_failures: int | None,
    lease_term: str | None,
) -> EpochPolicy:
    """How epochs are cut, kept and given up; what is not given stays as it is by default."""
    given = {
        "min_pause": _milliseconds(min_pause, "--min-pause"),
        "timeout": _milliseconds(epoch_timeout, "--epoch-timeout"),
        "retained": retain,
        "tolerated_failures": tolerate_failures,
        "lease_term": _milliseconds(lease_term, "--lease-term"),
    }
    return EpochPolicy(**{name: value for name, value in given.items() if value is not None})


def seconds_of(text: str, name: str) -> float:
    """A duration option in seconds."""
    return duration_ms(text, what=name) / 1000


def _milliseconds(text: str | None, name: str) -> int | None:
    return None if text is None else duration_ms(text, what=name)


def _pair(option: str, text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        msg = f"{option} takes key=value, found {text!r}"
        raise typer.BadParameter(msg)
    return key, value
