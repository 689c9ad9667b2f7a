"""`millstream nexmark`: the events and the queries of the Nexmark benchmark."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from millstream.api.jobfile.target import BadTarget
from millstream.cli.failure import JOB_FAILED, reported
from millstream.cli.options import Debug, Master
from millstream.connectors.nexmark.dataset import EVENTS_PER_FILE, write_parquet
from millstream.connectors.nexmark.spec import BASE, KINDS, nexmark
from millstream.model.time import instant_text
from millstream.registry import load_module

app = typer.Typer(help="The Nexmark benchmark.", no_args_is_help=True)
_FORMATS = ("parquet",)
_DATA = Path("bench-results/nexmark")


@app.command()
def generate(
    *,
    events: Annotated[int, typer.Option("--events", min=1, help="How many.")],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="One folder per kind is written here.")],
    seed: Annotated[int, typer.Option("--seed", min=0, help="Other seeds give other values.")] = 42,
    rate: Annotated[float, typer.Option("--rate", help="Events per second of event time.")] = 10_000,
    base: Annotated[str, typer.Option("--base", help="Event time before the first event.")] = instant_text(BASE),
    group: Annotated[int, typer.Option("--group", help="Shuffle events within groups of this size.")] = 1,
    kinds: Annotated[
        list[str] | None, typer.Option("--kinds", help=f"{', '.join(KINDS)}; may be given several times.")
    ] = None,
    file_events: Annotated[
        int, typer.Option("--file-events", min=1, help="Events that one file is made of.")
    ] = EVENTS_PER_FILE,
    form: Annotated[str, typer.Option("--format", help="parquet.")] = "parquet",
    debug: Debug = False,
) -> None:
    """Write events to files in the order of time: DIR/KIND/part-00000.parquet and so on, by default of kind all."""
    if form not in _FORMATS:
        msg = f"--format takes {', '.join(_FORMATS)}, found {form!r}"
        raise typer.BadParameter(msg)
    with reported(debug=debug):
        for kind in dict.fromkeys(kinds or ["all"]):
            spec = nexmark(events, seed=seed, rate=rate, base=base, group=group, kinds=kind)
            paths = write_parquet(out / kind, spec, events_per_file=file_events)
            size = sum(path.stat().st_size for path in paths)
            typer.echo(f"{out / kind}: {events:,} events, {len(paths)} files, {size / 1e6:,.1f} MB")


@app.command()
def run(
    *,
    queries: Annotated[str, typer.Option("--queries", metavar="Q,Q", help="Which, as in q0,q5,c1.")] = "all",
    events: Annotated[int, typer.Option("--events", min=1, help="How many.")] = 100_000,
    local: Annotated[bool, typer.Option("--local", help="Run in this process, without Spark.")] = False,
    master: Master = "local[*]",
    rivals: Annotated[
        str | None,
        typer.Option(
            "--rivals", metavar="R,R", help="Measure, also spark and pyflink on the same files; none: ours alone."
        ),
    ] = None,
    events_from: Annotated[
        str, typer.Option("--input", help="files or generator: what we read when measured.")
    ] = "files",
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Keep measurements here, and go on from those in it.")
    ] = None,
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="Where measured runs keep their files.")] = _DATA,
    epoch_events: Annotated[
        int | None, typer.Option("--epoch-events", min=2, help="Events of an epoch or batch of measured runs.")
    ] = None,
    timeout: Annotated[float, typer.Option("--timeout", help="Seconds after which a measured side is given up.")] = 900,
    debug: Debug = False,
) -> None:
    """Run queries of examples/nexmark and compare their answers with the known ones; exit code 1 when one differs.

    Rows and checksums of 100 000 and 1 000 000 events are known; those of other numbers are computed by DuckDB.
    With --rivals every side of every query runs in a process of its own, one after the other, over the same files.
    """
    if rivals is not None:
        if local:
            msg = "--rivals measures on Spark and does not go with --local"
            raise typer.BadParameter(msg)
        with reported(debug=debug):
            options = {"epoch_events": epoch_events, "data": data, "timeout": timeout, "input": events_from}
            _compare(queries, events, rivals, out, options)
        return
    with reported(debug=debug):
        runs = _module("examples.nexmark.running")
        chosen = _chosen(queries, list(runs.QUERIES))
        typer.echo(f"{'query':5} {'events/s':>10} {'seconds':>8} {'cpu':>7}  rows and checksum")
        wrong = 0
        for outcome in runs.outcomes(chosen, events, **({"local": True} if local else {"master": master})):
            wrong += not outcome.is_exact
            typer.echo(_line(outcome, has_cpu=local))
        typer.echo(f"{len(chosen) - wrong} of {len(chosen)} queries exact over {events:,} events")
        if wrong:
            raise typer.Exit(JOB_FAILED)


def _compare(queries: str, events: int, rivals: str, out: Path | None, options: dict[str, Any]) -> None:
    """Print the table of a measured run, line by line."""
    comparing = _module("examples.nexmark.rivals.comparing")
    if options["input"] not in comparing.INPUTS:
        msg = f"--input takes {', '.join(comparing.INPUTS)}, found {options['input']!r}"
        raise typer.BadParameter(msg)
    epoch_events = options["epoch_events"] or comparing.epoch_events_for(events)
    comparison = comparing.Comparison(
        queries=tuple(_chosen(queries, list(comparing.QUERIES))),
        rivals=() if rivals == "none" else tuple(_chosen(rivals, list(comparing.RIVALS), option="--rivals")),
        events=events,
        **options | {"epoch_events": epoch_events, "data": options["data"] / f"{events}-{epoch_events}"},
    )
    results = _results(comparing, comparison, out)
    for line in comparing.table(comparison, results):
        typer.echo(line)
    if wrong := comparing.wrong(comparison, results):
        typer.echo(f"wrong or failed: {', '.join(wrong)}")
        raise typer.Exit(JOB_FAILED)
    typer.echo(f"{len(comparison.queries)} of {len(comparison.queries)} queries exact over {events:,} events")


def _results(comparing: Any, comparison: Any, out: Path | None) -> Any:
    try:
        return comparing.Results(out, comparison.settings)
    except ValueError as problem:
        msg = "the file holds measurements of another run"
        hint = "name another file, or repeat that run's --events, --epoch-events and --input"
        raise BadTarget(msg, code="CLI-020", found=str(problem), hint=hint) from problem


def _module(name: str) -> Any:
    """A module of the examples, which lie beside the package in a checkout and are no part of it."""
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        return load_module(name)
    except ModuleNotFoundError as problem:
        msg = "the queries are not here"
        hint = "run this in the top folder of a checkout, with duckdb installed"
        raise BadTarget(msg, code="CLI-002", found=str(problem), hint=hint) from problem


def _chosen(text: str, known: list[str], *, option: str = "--queries") -> list[str]:
    names = known if text == "all" else list(dict.fromkeys(name.strip() for name in text.split(",")))
    unknown = [name for name in names if name not in known]
    if unknown:
        msg = f"{option} takes {', '.join(known)}, found {', '.join(map(repr, unknown))}"
        raise typer.BadParameter(msg)
    return names


def _line(outcome: Any, *, has_cpu: bool) -> str:
    """One query; the CPU of an engine outside this process is not known here."""
    cpu = f"{outcome.cpu:7.2f}" if has_cpu else f"{'':7}"
    given, expected = (", ".join(map(str, values)) for values in (outcome.found, outcome.expected))
    verdict = "exact" if outcome.is_exact else f"EXPECTED {expected}"
    return f"{outcome.query:5} {outcome.rate:10,.0f} {outcome.seconds:8.2f} {cpu}  {given}  {verdict}"
