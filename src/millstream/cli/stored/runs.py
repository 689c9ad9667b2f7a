"""`millstream runs`: the runs of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import typer

from millstream.cli.failure import reported
from millstream.cli.options import CheckpointArgument, Debug, Json, Manifests
from millstream.cli.show import json_text, show_rows
from millstream.inspect.checkpoint import open_view
from millstream.inspect.past_runs import run_facts


def runs(
    checkpoint: CheckpointArgument, *, manifests: Manifests = None, as_json: Json = False, debug: Debug = False
) -> None:
    """List the runs of a checkpoint: what each began with and was given, and how far it came. Nothing is changed."""
    with reported(debug=debug), open_view(Path(checkpoint), manifests, read_only=True) as view:
        facts = run_facts(view)
        if as_json:
            for each in facts:
                typer.echo(json_text(each))
        else:
            show_rows(list(facts[0]), [list(each.values()) for each in facts])
