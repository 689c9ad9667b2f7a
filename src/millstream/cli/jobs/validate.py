"""`millstream validate`: check a job without running it."""

from __future__ import annotations

import typer

from millstream.api.jobfile.target import load
from millstream.cli.failure import reported
from millstream.cli.options import Debug, JobArgument
from millstream.graph.render import DERIVED_STATE, id_text


def validate(job: JobArgument, *, debug: Debug = False) -> None:
    """Check steps, schemas, expressions and the guarantee of a job; nothing runs."""
    with reported(debug=debug):
        layers = load(job).compile()
        typer.echo(
            f"{layers.model.name}: valid, steps: {len(layers.model.steps)}, shuffles: {layers.partitioned.depth}"
        )
        for node in layers.stream.nodes:
            if id_text(node) == DERIVED_STATE:
                typer.echo(f"  note: step {node.id!r}: id {DERIVED_STATE}")
