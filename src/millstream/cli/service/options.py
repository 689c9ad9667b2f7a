"""Options that commands for the service share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from millstream.cli.service.completing import complete_jobs

Form = Literal["table", "json", "yaml"]
Context = Annotated[str | None, typer.Option("--context", help="Which service; the current one by default.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print names and ids alone, for other commands.")]
OutputForm = Annotated[Form, typer.Option("-o", "--output", help="How the answer is written.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The name of a job.", autocompletion=complete_jobs)]
RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="JOB_OR_RUN",
        help="The name of a job, for its newest run, or the id of a run or how that begins.",
        autocompletion=complete_jobs,
    ),
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]
