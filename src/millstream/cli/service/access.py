"""`millstream token`, `context` and `db`: who may ask, whom to ask, and the schema behind it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Annotated, Literal

import typer

from millstream.api.jobfile.target import BadTarget
from millstream.cli.failure import reported
from millstream.cli.options import Debug
from millstream.cli.service.contexts import ServiceContext, connect, read_contexts, write_contexts
from millstream.cli.service.options import Context, OutputForm, Quiet, Yes
from millstream.cli.service.output import named, show_list
from millstream.cli.service.server import Data, data_folder

tokens = typer.Typer(help="Tokens: who may ask the service for what.", no_args_is_help=True)
contexts = typer.Typer(help="Contexts: which services this user speaks to.", no_args_is_help=True)
database = typer.Typer(help="The database of the service.", no_args_is_help=True)
Role = Literal["viewer", "operator", "editor", "author", "admin"]
_COLUMNS = {"ID": "id", "NAME": "name", "ROLE": "role", "EXPIRES": "expires", "USED": "last_used", "REVOKED": "revoked"}


@tokens.command("create")
def create_token(
    name: Annotated[str, typer.Argument(help="Whose it is; audits say it.")],
    *,
    role: Annotated[Role, typer.Option("--role", help="What it allows.")] = "viewer",
    days: Annotated[int, typer.Option("--days", min=1, max=365, help="How long it works.")] = 90,
    url: Annotated[
        str | None,
        typer.Option(
            "--database", metavar="URL", help="Make it in the database itself, where no token works any more."
        ),
    ] = None,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Make a token; it is shown this once."""
    with reported(debug=debug):
        if url is not None:
            typer.echo(_made_beside(url, name, role, days))
            return
        with connect(context) as client:
            typer.echo(client.access.create_token(name, role, days=days).token)


def _made_beside(url: str, name: str, role: Role, days: int) -> str:
    """Whoever may write the database may let themselves in."""
    from millstream.control.act import acting
    from millstream.control.metadata import migrate
    from millstream.control.metadata.database import Metadata
    from millstream.server.access.audit import write_audit
    from millstream.server.access.tokens import create_token as made_token

    metadata = Metadata(url)
    try:
        migrate.check(metadata)
        with acting(metadata, "command line") as act:
            made = made_token(act, name, role, dt.timedelta(days=days))
            detail = "made beside the service, from the command line"
            write_audit(act, "token.create", made.row.id, caller=None, request_id="", detail=detail)
            return made.text
    finally:
        metadata.close()


@tokens.command("list")
def list_tokens(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List tokens, without what they are."""
    with reported(debug=debug), connect(context) as client:
        show_list(client.access.tokens(), _COLUMNS, output, quiet=quiet)


@tokens.command()
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="Of the token, or how it begins.")],
    *,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Let a token work no more."""
    with reported(debug=debug), connect(context) as client:
        whole = named(client.access.tokens(), "id", token, what="token")
        typer.echo(f"token {client.access.revoke_token(whole).id} is revoked")


@contexts.command("add")
def add_context(
    name: Annotated[str, typer.Argument(help="What to call it.")],
    url: Annotated[str, typer.Option("--url", help="Where the service is.")],
    *,
    token_file: Annotated[Path, typer.Option("--token-file", metavar="FILE", help="Holds the token.")],
    ca_file: Annotated[Path | None, typer.Option("--ca-file", metavar="FILE", help="Certificates to trust.")] = None,
    plain_http: Annotated[bool, typer.Option("--plain-http", help="Send the token without TLS.")] = False,
    debug: Debug = False,
) -> None:
    """Add a service, and make it the current one."""
    with reported(debug=debug):
        known = read_contexts()
        path = None if ca_file is None else str(ca_file.absolute())
        known.contexts[name] = ServiceContext(
            url=url, token_file=str(token_file.absolute()), ca_file=path, plain_http=plain_http
        )
        known.current = name
        write_contexts(known)
        typer.echo(f"context {name} is current")


@contexts.command()
def use(name: Annotated[str, typer.Argument(help="A context.")], *, debug: Debug = False) -> None:
    """Make another context the current one."""
    with reported(debug=debug):
        known = read_contexts()
        if name not in known.contexts:
            msg = "there is no such context"
            raise BadTarget(msg, code="CLI-011", found=repr(name), known=known.contexts or "none", hint="add it first")
        known.current = name
        write_contexts(known)
        typer.echo(f"context {name} is current")


@contexts.command("list")
def list_contexts(*, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False) -> None:
    """List contexts; the current one has a star."""
    with reported(debug=debug):
        known = read_contexts()
        if output == "table" and not quiet:
            for name, context in sorted(known.contexts.items()):
                typer.echo(f"{'*' if name == known.current else ' '} {name}  {context.url}")
            return
        rows = [
            {"name": name, "url": context.url, "current": name == known.current}
            for name, context in sorted(known.contexts.items())
        ]
        show_list(rows, {"NAME": "name"}, output, quiet=quiet)


@database.command()
def upgrade(
    *,
    url: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="Of the service; SQLite by default.")
    ] = None,
    data: Data = None,
    debug: Debug = False,
) -> None:
    """Bring the schema of the service's database to this version."""
    with reported(debug=debug):
        from millstream.control.metadata import migrate
        from millstream.control.metadata.database import Metadata

        metadata = Metadata(url or f"sqlite:///{data_folder(data) / 'metadata.db'}")
        before, after = migrate.upgrade(metadata)
        metadata.close()
        same = f"revision {after}: nothing to do"
        typer.echo(same if before == after else f"from revision {before or 'none'} to {after}")


@database.command()
def downgrade(
    to: Annotated[str, typer.Argument(metavar="REVISION", help="Such as 0005; what is newer is taken back.")],
    *,
    url: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="Of the service; SQLite by default.")
    ] = None,
    data: Data = None,
    yes: Yes = False,
    debug: Debug = False,
) -> None:
    """Take revisions of the schema back, for a service that returns to an earlier version. Back the database up first."""
    with reported(debug=debug):
        from millstream.control.metadata import migrate
        from millstream.control.metadata.database import Metadata

        if not yes:
            typer.confirm(f"take the schema back to {to}? what newer tables hold is lost", abort=True)
        metadata = Metadata(url or f"sqlite:///{data_folder(data) / 'metadata.db'}")
        migrate.downgrade(metadata, to=to)
        metadata.close()
        typer.echo(f"revision {to}")
