"""Options that commands for the service share."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Form = Literal["table", "json", "yaml"]
Context = Annotated[str | None, typer.Option("--context", help="Which service; the current one by default.")]
OutputForm = Annotated[Form, typer.Option("-o", "--output", help="How the answer is written.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask first.")]
JobName = Annotated[str, typer.Argument(metavar="JOB", help="The name of a job.")]
RunArgument = Annotated[
    str, typer.Argument(metavar="JOB_OR_RUN", help="The name of a job, for its newest run, or the id of a run.")
]
Wait = Annotated[bool, typer.Option("--wait/--no-wait", help="Wait until it is done.")]
