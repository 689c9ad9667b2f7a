"""`millstream plan`: show a layer of a job's plan."""

from __future__ import annotations

import json
from typing import Annotated, Literal, assert_never

import typer

from millstream.api.jobfile.target import load, model_of
from millstream.cli.failure import reported
from millstream.cli.options import (
    Checkpoint,
    Confs,
    Debug,
    JobArgument,
    Master,
    Parallelism,
    Params,
    StateBackend,
    confs_of,
    params_of,
)
from millstream.plan.compile import Layers, compile_job
from millstream.plan.deployment import Deployment
from millstream.plan.explain import Layer, explain, mermaid
from millstream.plan.serialize import to_json

Format = Literal["text", "json", "mermaid"]


def plan(
    job: JobArgument,
    *,
    layer: Annotated[Layer, typer.Option("--layer", help="Which layer.")] = "partitioned",
    format: Annotated[Format, typer.Option("--format", help="How it is written.")] = "text",
    checkpoint: Checkpoint = None,
    master: Master = "local[*]",
    state_backend: StateBackend = "rocksdb",
    confs: Confs = None,
    params: Params = None,
    parallelism: Parallelism = None,
    debug: Debug = False,
) -> None:
    """Compile a job and print a layer of its plan; nothing runs."""
    with reported(debug=debug):
        given = params_of(params) if params else None
        choices = Deployment(
            checkpoint=checkpoint,
            master=master,
            state_backend=state_backend,  # type: ignore[arg-type]  # an unknown one is refused by the value itself
            confs=confs_of(confs),
            params=given,
        )
        typer.echo(_written(compile_job(model_of(load(job), parallelism), choices), layer, format))


def _written(layers: Layers, layer: Layer, form: Format) -> str:
    match form:
        case "text":
            return explain(layers, layer)
        case "json":
            return json.dumps(to_json(layers, layer, portable=False), indent=2, ensure_ascii=False)
        case "mermaid":
            return mermaid(layers, layer)
        case _:
            assert_never(form)
