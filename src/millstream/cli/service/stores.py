"""`millstream secret`, `config` and `artifact`: what jobs of the service bring along."""

from __future__ import annotations

import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Annotated, Literal

import typer

from millstream.cli.failure import reported
from millstream.cli.options import Debug
from millstream.cli.service.contexts import connect
from millstream.cli.service.options import Context, JobName, OutputForm, Quiet, Yes
from millstream.cli.service.output import named, show_list
from millstream.cli.service.server import Data, Keys, data_folder

secrets = typer.Typer(help="Secrets: values that jobs name and nobody reads back.", no_args_is_help=True)
config = typer.Typer(help="Settings of jobs, which hold from the next run on.", no_args_is_help=True)
artifacts = typer.Typer(help="Artifacts: code of jobs.", no_args_is_help=True)
SecretName = Annotated[str, typer.Argument(metavar="NAME", help="As jobs say it: ${secret:NAME}.")]
checkpoints = typer.Typer(help="Checkpoints of jobs of the service.", no_args_is_help=True)
_ARTIFACTS = {"SHA256": "sha256", "NAME": "name", "KIND": "kind", "SIZE": "size", "CREATED": "create_time"}
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""The time of every file: the same code is the same archive."""


@secrets.command("set")
def set_secret(name: SecretName, *, context: Context = None, debug: Debug = False) -> None:
    """Keep a secret; its value is read from stdin, or asked for, and never shown."""
    with reported(debug=debug), connect(context) as client:
        value = typer.prompt("value", hide_input=True) if sys.stdin.isatty() else sys.stdin.read().rstrip("\r\n")
        client.secrets.set(name, value)
        typer.echo(f"secret {name} is kept")


@secrets.command("ls")
def list_secrets(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List the names of secrets."""
    with reported(debug=debug), connect(context) as client:
        show_list(client.secrets.list(), {"NAME": "name", "UPDATED": "update_time"}, output, quiet=quiet)


@secrets.command("rm")
def remove_secret(name: SecretName, *, context: Context = None, debug: Debug = False) -> None:
    """Forget a secret."""
    with reported(debug=debug), connect(context) as client:
        client.secrets.delete(name)
        typer.echo(f"secret {name} is forgotten")


@secrets.command()
def rekey(
    *,
    database: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="Of the service; SQLite by default.")
    ] = None,
    data: Data = None,
    keys: Keys = None,
    debug: Debug = False,
) -> None:
    """Make a new key, and encrypt every secret with it; earlier keys stay, for backups. Run it beside the key file."""
    with reported(debug=debug):
        from millstream.control.metadata.database import Metadata
        from millstream.control.secrets.key_ring import KeyRing
        from millstream.control.secrets.rotation import rekey as encrypted_again

        place = data_folder(data)
        metadata = Metadata(database or f"sqlite:///{place / 'metadata.db'}")
        count = encrypted_again(metadata, KeyRing(keys or place / "keys.json"))
        metadata.close()
        typer.echo(f"{count} values are encrypted with a new key")


@config.command("set")
def set_config(
    job: JobName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Such as checkpoint.interval, or a parameter of the job.")],
    value: Annotated[str, typer.Argument(metavar="VALUE", help="As its type says.")],
    *,
    kind: Annotated[
        Literal["STRING", "INT", "BOOLEAN", "JSON"], typer.Option("--type", help="Of the value.")
    ] = "STRING",
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Set a setting of a job."""
    with reported(debug=debug), connect(context) as client:
        client.config.set(job, key, value, type=kind)
        typer.echo(f"{key} of {job} is set")


@config.command("ls")
def list_config(
    job: JobName, *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List the settings of a job, masked where they are sensitive."""
    with reported(debug=debug), connect(context) as client:
        show_list(client.config.list(job), {"KEY": "key", "VALUE": "value", "TYPE": "type"}, output, quiet=quiet)


@config.command("rm")
def remove_config(
    job: JobName,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Of the setting.")],
    *,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Forget a setting of a job."""
    with reported(debug=debug), connect(context) as client:
        client.config.delete(job, key)
        typer.echo(f"{key} of {job} is forgotten")


@artifacts.command()
def upload(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A zip or a wheel.")],
    *,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Upload code of jobs; prints its sha256."""
    with reported(debug=debug), connect(context) as client:
        typer.echo(client.artifacts.upload(file).sha256)


@artifacts.command("ls")
def list_artifacts(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List artifacts."""
    with reported(debug=debug), connect(context) as client:
        show_list(client.artifacts.list(), _ARTIFACTS, output, quiet=quiet)


@artifacts.command("rm")
def remove_artifact(
    sha256: Annotated[str, typer.Argument(help="Of the artifact, or how it begins.")],
    *,
    context: Context = None,
    debug: Debug = False,
) -> None:
    """Remove an artifact that no job needs."""
    with reported(debug=debug), connect(context) as client:
        client.artifacts.delete(named(client.artifacts.list(), "sha256", sha256, what="artifact"))
        typer.echo("removed")


@checkpoints.command("ls")
def list_checkpoints(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List the checkpoints of jobs, with what they take on disk."""
    with reported(debug=debug), connect(context) as client:
        columns = {"JOB": "job", "BYTES": "bytes", "PATH": "path", "DELETED": "deleted"}
        show_list(client.checkpoints.list(), columns, output, quiet=quiet)


@checkpoints.command("rm")
def remove_checkpoint(job: JobName, *, yes: Yes = False, context: Context = None, debug: Debug = False) -> None:
    """Remove the checkpoints of a job that does not run, deleted or not; its savepoints stay."""
    with reported(debug=debug), connect(context) as client:
        if not yes:
            typer.confirm(f"remove the checkpoint of {job}? its next start begins afresh", abort=True)
        client.checkpoints.remove(job)
        typer.echo(f"the checkpoint of {job} is removed; savepoints stay")


def packed(file: Path, more: list[Path]) -> Path:
    """An archive of a job file and what it imports from beside it; the same files give the same archive."""
    target = Path(tempfile.mkdtemp(prefix="millstream-")) / f"{file.stem}.zip"
    found = {file.name: file}
    for each in more:
        inside = sorted(each.rglob("*.py")) if each.is_dir() else [each]
        found |= {str(path.relative_to(each.parent)): path for path in inside}
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, path in sorted(found.items()):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return target
