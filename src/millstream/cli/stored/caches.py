"""`millstream doctor --caches`: what is kept in the user's cache to start Spark faster."""

from __future__ import annotations

import datetime as dt
import json

import typer

from millstream.inspect.machine import KeptArchives, kept_archives


def show_caches(output: str, *, make: bool, remove: bool) -> bool:
    """List the entries; before that, make the one of a run without settings, or remove all."""
    kept = kept_archives(make=make, remove=remove)
    if output == "json":
        typer.echo(json.dumps(kept.facts()))
    else:
        _print(kept)
    if kept.problem is not None:
        typer.echo(f"no class archive was made: {kept.problem}", err=True)
    return kept.problem is None


def _print(kept: KeptArchives) -> None:
    count = len(kept.archives)
    typer.echo(f"{kept.folder}: {count} class archive{'' if count == 1 else 's'}")
    for each in kept.archives:
        made = dt.datetime.fromtimestamp(each.made, dt.UTC).isoformat(" ", "seconds")
        mark = "*" if each.folder == kept.usual else " "
        typer.echo(f"{mark} {each.folder.name}  {each.bytes >> 20} MB  {made}  {each.java}")
