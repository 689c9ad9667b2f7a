"""`millstream doctor --caches`: what is kept in the user's cache to start Spark faster."""

from __future__ import annotations

import datetime as dt
import json

import typer

from millstream.plan.deployment import Deployment
from millstream.spark.start import caches
from millstream.spark.start.command import settings_of
from millstream.spark.start.confs import context_confs
from millstream.spark.start.training import train_now


def show_caches(output: str, *, make: bool, remove: bool) -> bool:
    """List the entries; before that, make the one of a run without settings, or remove all."""
    settings = settings_of(context_confs(Deployment(), debug=False))
    wanted = caches.entry_for(settings)
    problem = None
    if remove:
        caches.remove_all()
    if make:
        problem = "it cannot be told which Java this is" if wanted is None else train_now(wanted, settings)
    entries = caches.entries()
    if output == "json":
        listed = [
            {"path": str(each.folder), "bytes": each.bytes, "java": each.java, "made": each.made} for each in entries
        ]
        typer.echo(json.dumps({"ok": problem is None, "folder": str(caches.cache_root()), "entries": listed}))
    else:
        typer.echo(f"{caches.cache_root()}: {len(entries)} class archive{'' if len(entries) == 1 else 's'}")
        for each in entries:
            made = dt.datetime.fromtimestamp(each.made, dt.UTC).isoformat(" ", "seconds")
            mark = "*" if each.folder == wanted else " "
            typer.echo(f"{mark} {each.folder.name}  {each.bytes >> 20} MB  {made}  {each.java}")
    if problem is not None:
        typer.echo(f"no class archive was made: {problem}", err=True)
    return problem is None
