"""The `millstream` command: one file per sub-command, put together here."""

from __future__ import annotations

import typer

from millstream.cli import connectors
from millstream.cli.jobs.ending import cancel, drain, suspend
from millstream.cli.jobs.plan import plan
from millstream.cli.jobs.run import run
from millstream.cli.jobs.validate import validate
from millstream.cli.projects import nexmark
from millstream.cli.projects.init import init
from millstream.cli.service import access, nodes, schedules, server, stores
from millstream.cli.service.jobs import delete, disable, enable, list_jobs, start
from millstream.cli.service.runs import logs, rescale, status, stop
from millstream.cli.service.submitting import submit
from millstream.cli.stored import dlq, savepoint, state
from millstream.cli.stored.doctor import doctor
from millstream.cli.stored.runs import runs
from millstream.cli.version import version

app = typer.Typer(
    name="millstream",
    help="Data pipelines with Flink's programming model, executed on Spark.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (init, plan, validate, run, drain, suspend, cancel, runs, doctor, version):
    app.command()(command)
for of_service in (submit, start, status, logs, stop, rescale, enable, disable, delete):
    app.command()(of_service)
app.command("list")(list_jobs)
app.add_typer(savepoint.app, name="savepoint")
app.add_typer(state.app, name="state")
app.add_typer(dlq.app, name="dlq")
app.add_typer(connectors.app, name="connectors")
app.add_typer(nexmark.app, name="nexmark")
app.add_typer(server.app, name="server")
app.add_typer(nodes.app, name="node")
app.add_typer(schedules.app, name="schedule")
app.add_typer(stores.secrets, name="secret")
app.add_typer(stores.config, name="config")
app.add_typer(stores.artifacts, name="artifact")
app.add_typer(stores.checkpoints, name="checkpoint")
app.add_typer(access.tokens, name="token")
app.add_typer(access.contexts, name="context")
app.add_typer(access.database, name="db")


def main() -> None:
    """Entry point of the console script."""
    app()


if __name__ == "__main__":
    main()
