"""`millstream node`: start one, see them, take them out of use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from millstream.cli.failure import reported
from millstream.cli.logs import LogFormat, LogLevel, log_lines
from millstream.cli.options import Debug
from millstream.cli.service.completing import complete_nodes
from millstream.cli.service.contexts import connect
from millstream.cli.service.options import Context, OutputForm, Quiet
from millstream.cli.service.output import named, show_list
from millstream.cli.service.server import (
    AllowPrivate,
    Artifacts,
    Checkpoints,
    Data,
    Keys,
    Labels,
    Otlp,
    Slots,
    TraceEvery,
    WarmLocal,
    WarmMaster,
    WarmSpark,
    data_folder,
    labels_of,
    tracing_of,
    until_interrupted,
)

if TYPE_CHECKING:
    from millstream.client import Client

app = typer.Typer(help="Nodes: where runs of the service go on.", no_args_is_help=True)
NodeId = Annotated[
    str, typer.Argument(metavar="NODE", help="The id of a node, or how it begins.", autocompletion=complete_nodes)
]
_COLUMNS = {"NODE": "id", "STATE": "state", "SLOTS": "slots", "RUNS": "runs", "SEEN": "age", "ADDRESS": "address"}


@app.command()
def start(
    database: Annotated[str, typer.Option("--database", metavar="URL", help="The service's database.")],
    *,
    data: Data = None,
    checkpoints: Checkpoints = None,
    artifacts: Artifacts = None,
    keys: Keys = None,
    slots: Slots = None,
    labels: Labels = None,
    warm_local: WarmLocal = 1,
    warm_spark: WarmSpark = 1,
    warm_master: WarmMaster = None,
    otlp: Otlp = None,
    trace_every: TraceEvery = 100,
    host: Annotated[str, typer.Option("--host", help="The address at which servers ask this node.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port for that; 0 chooses one.")] = 0,
    allows_private: AllowPrivate = False,
    log_level: LogLevel = None,
    log_format: LogFormat = "text",
    debug: Debug = False,
) -> None:
    """Run a node until Ctrl-C; its runs go on, and the next start with the same --data adopts them."""
    with log_lines(log_level, log_format), reported(debug=debug):
        from millstream.control.drivers.warm_pool import WarmLimits
        from millstream.control.metadata.opened import open_metadata
        from millstream.control.plane import ControlPlane, NodeOptions, RunningNode

        place = data_folder(data)
        metadata = open_metadata(database, place)
        options = NodeOptions(
            place / "node",
            checkpoints or place / "checkpoints",
            artifacts or place / "artifacts",
            keys or place / "keys.json",
            labels=labels_of(labels),
            warm=WarmLimits(warm_local, warm_spark, warm_master),
            allows_private=allows_private,
            closed=(place,),
            tracing=tracing_of(otlp, trace_every),
        )
        options = options._replace(channel_host=host, channel_port=port, slots=slots or options.slots)
        node = RunningNode(metadata, options)
        plane = ControlPlane(metadata, node)
        plane.start()
        typer.echo(f"node {node.directory.id} is there")
        until_interrupted()
        plane.stop()
        metadata.close()


@app.command("list")
def list_nodes(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List the nodes of the service."""
    with reported(debug=debug), connect(context) as client:
        show_list(client.nodes.list(), _COLUMNS, output, quiet=quiet)


@app.command()
def cordon(node: NodeId, *, context: Context = None, debug: Debug = False) -> None:
    """Let a node take no new runs; those it has go on."""
    with reported(debug=debug), connect(context) as client:
        whole = _whole(client, node)
        typer.echo(f"node {whole} is {client.nodes.cordon(whole).state}")


@app.command()
def uncordon(node: NodeId, *, context: Context = None, debug: Debug = False) -> None:
    """Let a node take runs again."""
    with reported(debug=debug), connect(context) as client:
        whole = _whole(client, node)
        typer.echo(f"node {whole} is {client.nodes.uncordon(whole).state}")


@app.command()
def drain(node: NodeId, *, context: Context = None, debug: Debug = False) -> None:
    """Empty a node: its runs stop as their jobs wish, and start again elsewhere."""
    with reported(debug=debug), connect(context) as client:
        whole = _whole(client, node)
        typer.echo(f"node {whole} is {client.nodes.drain(whole).state}")


def _whole(client: Client, given: str) -> str:
    living = (each for each in client.nodes.list() if each.state != "GONE")
    return named(living, "id", given, what="node")
