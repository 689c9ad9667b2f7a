"""`millstream version`."""

from __future__ import annotations

import typer

import millstream


def version() -> None:
    """Print the version."""
    typer.echo(f"millstream {millstream.__version__}")
