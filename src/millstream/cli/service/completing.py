"""What a shell offers to complete: names that the service knows, asked quickly; nothing where it does not answer."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import typer

from millstream.cli.service.contexts import connect

if TYPE_CHECKING:
    from millstream.client import Client

_SECONDS = 1.0
_MOST = 100


def complete_jobs(context: typer.Context, incomplete: str) -> list[str]:
    """Names of jobs."""
    return _offered(context, incomplete, lambda client: (each.name for each in client.jobs.list()))


def complete_nodes(context: typer.Context, incomplete: str) -> list[str]:
    """Ids of nodes."""
    return _offered(context, incomplete, lambda client: (each.id for each in client.nodes.list()))


def _offered(context: typer.Context, incomplete: str, names: Callable[[Client], Iterator[str]]) -> list[str]:
    try:
        with connect(context.params.get("context"), patience=_SECONDS) as client:
            fitting = (name for name in names(client) if name.startswith(incomplete))
            return list(itertools.islice(fitting, _MOST))
    except Exception:  # whatever goes wrong: a shell that completes shows no errors, and offers nothing
        return []
