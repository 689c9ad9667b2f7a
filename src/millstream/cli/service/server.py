"""`millstream server start` and `node start`: the service, with everything it needs on this machine unless told otherwise."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from millstream.api.jobfile.target import BadTarget
from millstream.cli.failure import reported
from millstream.cli.logs import LogFormat, LogLevel, log_lines
from millstream.cli.options import Debug
from millstream.cli.service.contexts import ServiceContext, connect, read_contexts, write_contexts
from millstream.cli.service.options import Context, OutputForm, Quiet
from millstream.cli.service.output import show_list

if TYPE_CHECKING:
    from millstream.control.tracing.traces import Tracing

app = typer.Typer(help="Run the service.", no_args_is_help=True)
Data = Annotated[Path | None, typer.Option("--data", metavar="DIR", help="Where the service keeps its own files.")]
Database = Annotated[
    str | None,
    typer.Option("--database", metavar="URL", help="sqlite:///path or postgresql://…; SQLite in --data by default."),
]
Checkpoints = Annotated[
    Path | None,
    typer.Option(
        "--checkpoints", metavar="DIR", help="Checkpoints of jobs; shared storage where there are several nodes."
    ),
]
Artifacts = Annotated[Path | None, typer.Option("--artifacts", metavar="DIR", help="Code of jobs; shared likewise.")]
Keys = Annotated[Path | None, typer.Option("--keys", metavar="FILE", help="Keys of secrets; the same file everywhere.")]
Slots = Annotated[
    int | None, typer.Option("--slots", min=1, help="Runs at the same time; by default one per core, two at least.")
]
Labels = Annotated[list[str] | None, typer.Option("--label", metavar="NAME=VALUE", help="What jobs may ask of a node.")]
WarmLocal = Annotated[
    int, typer.Option("--warm-local", min=0, help="Processes that wait for runs with engine local; 0 for none.")
]
WarmSpark = Annotated[
    int, typer.Option("--warm-spark", min=0, help="Processes with a JVM that wait for runs on Spark; 0 for none.")
]
WarmMaster = Annotated[
    str | None,
    typer.Option("--warm-master", metavar="MASTER", help="Where they will run, to wait from the first run on."),
]
AllowPrivate = Annotated[
    bool,
    typer.Option(
        "--allow-private-addresses", help="Job files may say that the http connector reaches into private networks."
    ),
]
_OPTIONS = {
    "node": "has_node",
    "otlp": "tracing",
    "trace_every": "tracing",
    **dict.fromkeys(("warm_local", "warm_spark", "warm_master"), "warm"),
}
"""Options of the command that have another name in the server."""
Otlp = Annotated[
    str | None, typer.Option("--otlp", metavar="URL", help="A collector that gets traces of runs, over OTLP/HTTP.")
]
TraceEvery = Annotated[int, typer.Option("--trace-every", min=1, help="With --otlp: one epoch of so many is traced.")]
_LOOPBACK = ("127.0.0.1", "::1", "localhost")


@app.command()
def start(
    asked: typer.Context,
    *,
    data: Data = None,
    database: Database = None,
    host: Annotated[str, typer.Option("--host", help="The address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", help="The port to listen at; 0 chooses one.")] = 8650,
    node: Annotated[bool, typer.Option("--node/--no-node", help="Run jobs in this service too.")] = True,
    slots: Slots = None,
    labels: Labels = None,
    warm_local: WarmLocal = 1,
    warm_spark: WarmSpark = 1,
    warm_master: WarmMaster = None,
    checkpoints: Checkpoints = None,
    artifacts: Artifacts = None,
    keys: Keys = None,
    otlp: Otlp = None,
    trace_every: TraceEvery = 100,
    watched: Annotated[
        list[Path] | None,
        typer.Option("--watch", metavar="DIR", help="A folder in which schedules may wait for files."),
    ] = None,
    tls_certificate: Annotated[Path | None, typer.Option("--tls-cert", metavar="FILE", help="Serve https.")] = None,
    tls_key: Annotated[
        Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate.")
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Listen beyond this machine without TLS: tokens travel in the open.")
    ] = False,
    proxies: Annotated[
        list[str] | None,
        typer.Option(
            "--behind-tls-proxy",
            metavar="ADDRESS",
            help="Browsers come by https through a proxy at this address or network, whose X-Forwarded-For is believed.",
        ),
    ] = None,
    allows_private: AllowPrivate = False,
    log_level: LogLevel = None,
    log_format: LogFormat = "text",
    debug: Debug = False,
) -> None:
    """Run the service until Ctrl-C: REST, dispatcher, schedule, and a node unless --no-node. Jobs go on when it ends."""
    with log_lines(log_level, log_format), reported(debug=debug):
        _check_address(host, proxies or [], is_safe=tls_certificate is not None or plain_http)
        from millstream.control.drivers.warm_pool import WarmLimits
        from millstream.server.running import ServerOptions, run_server

        place = data_folder(data)
        listens: dict[str, Any] = {"host": host, "port": port, "tls_certificate": tls_certificate, "tls_key": tls_key}
        options = ServerOptions(
            **listens,
            data=place,
            database=database,
            has_node=node,
            slots=slots,
            labels=labels_of(labels),
            checkpoints=checkpoints or place / "checkpoints",
            artifacts=artifacts,
            keys=keys,
            proxies=tuple(proxies or ()),
            watched=tuple(each.absolute() for each in watched or ()),
            warm=WarmLimits(warm_local, warm_spark, warm_master),
            allows_private=allows_private,
            sources=_sources(asked),
            tracing=tracing_of(otlp, trace_every, has_node=node),
        )
        run_server(options, ready=lambda url: _ready(url, place / "admin.token"))


def _check_address(host: str, proxies: list[str], *, is_safe: bool) -> None:
    if host not in _LOOPBACK and not is_safe and not proxies:
        msg = "tokens would travel in the open beyond this machine"
        hint = "pass --tls-cert and --tls-key, or --behind-tls-proxy with the address of a proxy that has TLS"
        raise BadTarget(msg, code="CLI-013", found=f"--host {host}", known=", ".join(_LOOPBACK), hint=hint)
    from millstream.server.access.proxies import networks_of

    try:
        networks_of(proxies)
    except ValueError as problem:
        msg = "--behind-tls-proxy takes the address of the proxy, or a network it is in"
        known = "such as 127.0.0.1 or 10.0.0.0/24"
        raise BadTarget(msg, code="CLI-021", found=str(problem), known=known, hint="correct it") from None


@app.command("settings")
def list_settings(
    *, context: Context = None, output: OutputForm = "table", quiet: Quiet = False, debug: Debug = False
) -> None:
    """List what the service goes by, masked, and where each setting comes from."""
    with reported(debug=debug), connect(context) as client:
        columns = {"SETTING": "name", "VALUE": "value", "FROM": "source"}
        show_list(client.access.settings(), columns, output, quiet=quiet)


def _sources(context: typer.Context) -> dict[str, str]:
    """Where the options of the server come from that are not as they are by default."""
    typed = [
        name for name in context.params if str(getattr(context.get_parameter_source(name), "name", "")) == "COMMANDLINE"
    ]
    from_environment = {"data": "environment"} if os.environ.get("XDG_DATA_HOME") else {}
    return {**from_environment, **{_OPTIONS.get(name, name): "command line" for name in typed}}


def _ready(url: str, token_file: Path) -> None:
    """Say where it is, and make it the context `local` of this user."""
    contexts = read_contexts()
    contexts.contexts["local"] = ServiceContext(url=url, token_file=str(token_file))
    write_contexts(contexts)
    typer.echo(f"millstream serves at {url}")
    if token_file.exists():
        typer.echo(f"admin token: {token_file}")
    typer.echo(
        "in another terminal: millstream submit JOB.yaml; millstream list; Ctrl-C here ends the service, jobs go on"
    )


def data_folder(given: Path | None) -> Path:
    """Where the service keeps its files."""
    if given is not None:
        return given.absolute()
    base = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(base) / "millstream"


def labels_of(given: list[str] | None) -> dict[str, str]:
    """`NAME=VALUE`, each once."""
    pairs = [each.partition("=") for each in given or []]
    for name, equals, _ in pairs:
        if not name or not equals:
            msg = "a label is a name and a value"
            raise BadTarget(msg, code="CLI-014", found=repr(name), known="NAME=VALUE", hint="write --label zone=a")
    return {name: value for name, _, value in pairs}


def tracing_of(otlp: str | None, every: int, *, has_node: bool = True) -> Tracing | None:
    """Where traces go, if anybody wants them."""
    if otlp is not None and not has_node:
        msg = "a server without a node has no runs to trace"
        raise BadTarget(msg, code="CLI-023", found="--otlp, --no-node", hint="pass --otlp to millstream node start")
    from millstream.control.tracing.traces import Tracing

    return None if otlp is None else Tracing(otlp, every)


def until_interrupted() -> None:
    """Wait for Ctrl-C or SIGTERM."""
    ended = threading.Event()

    def end(_number: int, _frame: FrameType | None) -> None:
        ended.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    ended.wait()
