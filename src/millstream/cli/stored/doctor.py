"""`millstream doctor`: what this machine has and what is missing; or what is wrong with a checkpoint. Starts no engine."""

from __future__ import annotations

import dataclasses
import json
from typing import Annotated, Literal

import typer

from millstream.cli.failure import reported
from millstream.cli.options import Debug, Manifests
from millstream.cli.stored.caches import show_caches
from millstream.inspect.checkpoint import CheckpointView, open_view
from millstream.inspect.checkup import Remark
from millstream.inspect.machine import Finding, examine_machine
from millstream.inspect.mending import examine_and_mend


def doctor(
    checkpoint: Annotated[
        str | None,
        typer.Argument(metavar="CHECKPOINT", help="A checkpoint directory to explain, instead of this machine."),
    ] = None,
    *,
    manifests: Manifests = None,
    repair: Annotated[bool, typer.Option("--repair", help="Do the repairs that lose nothing.")] = False,
    caches: Annotated[bool, typer.Option("--caches", help="List what is kept to start Spark faster.")] = False,
    make: Annotated[bool, typer.Option("--make", help="With --caches: make it now.")] = False,
    remove: Annotated[bool, typer.Option("--remove", help="With --caches: remove it.")] = False,
    output: Annotated[Literal["table", "json"], typer.Option("-o", "--output", help="How it is printed.")] = "table",
    debug: Debug = False,
) -> None:
    """Check what this machine has for a run on Spark, or explain a checkpoint; exit code 1 when something is wrong."""
    with reported(debug=debug):
        if caches:
            is_good = show_caches(output, make=make, remove=remove)
        elif make or remove:
            msg = "--make and --remove need --caches"
            raise typer.BadParameter(msg)
        elif checkpoint is not None:
            with open_view(checkpoint, manifests, read_only=not repair) as view:
                is_good = _explain(view, output, repair=repair)
        elif repair:
            msg = "--repair needs a CHECKPOINT"
            raise typer.BadParameter(msg)
        else:
            is_good = _machine(output)
        if not is_good:
            raise typer.Exit(1)


def _machine(output: str) -> bool:
    findings = examine_machine()
    if output == "json":
        typer.echo(json.dumps({"ok": _all_good(findings), "findings": [dataclasses.asdict(f) for f in findings]}))
    else:
        for finding in findings:
            typer.echo(_line(finding))
    return _all_good(findings)


def _explain(view: CheckpointView, output: str, *, repair: bool) -> bool:
    treatment = examine_and_mend(view, repair=repair)
    checkup, is_good = treatment.checkup, not treatment.checkup.problems
    if output == "json":
        remarks = [dataclasses.asdict(remark) for remark in checkup.remarks]
        content = {"ok": is_good, "verdict": checkup.verdict, "done": treatment.done, "remarks": remarks}
        typer.echo(json.dumps(content))
        return is_good
    for text in treatment.done:
        typer.echo(f"repaired {text}")
    for remark in checkup.remarks:
        typer.echo("\n".join(_remark_lines(remark)))
    typer.echo(f"verdict: {checkup.verdict}")
    return is_good


def _remark_lines(remark: Remark) -> list[str]:
    code = f"[{remark.code}] " if remark.code else ""
    named = (("file", remark.file if remark.status != "ok" else None), ("safe way out", remark.way_out))
    return [
        f"{remark.status.upper() if remark.status == 'problem' else remark.status:<7} {remark.part:<10} {code}{remark.text}",
        *(f"        {name}: {text}" for name, text in named if text),
    ]


def _all_good(findings: list[Finding]) -> bool:
    return all(finding.is_good for finding in findings)


def _line(finding: Finding) -> str:
    mark = "ok     " if finding.is_good else "MISSING"
    line = f"{mark} {finding.name:<12} {finding.found or 'not found'} (needed: {finding.needed})"
    return line if finding.is_good else f"{line}\n        fix: {finding.fix}"
