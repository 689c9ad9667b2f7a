"""The `millstream` command: one file per sub-command, put together here."""

from __future__ import annotations

import typer

from millstream.cli.doctor import doctor
from millstream.cli.plan import plan
from millstream.cli.run import run
from millstream.cli.validate import validate
from millstream.cli.version import version

app = typer.Typer(
    name="millstream",
    help="Data pipelines with Flink's programming model, executed on Spark.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (plan, validate, run, doctor, version):
    app.command()(command)


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
