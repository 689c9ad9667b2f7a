"""What `run` prints: a progress line while epochs pass, and a summary at the end; or JSON lines; or nothing."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Literal, Protocol

import typer
from rich.console import Console
from rich.status import Status
from rich.table import Table

from millstream.api.running.result import EpochSummary, RunResult
from millstream.inspect.run_facts import epoch_facts, result_facts
from millstream.model.counts import StepCounts
from millstream.model.time import instant_text

Output = Literal["table", "json", "quiet"]


class Report(Protocol):
    """Is told about every epoch and the end of a run."""

    def epoch(self, summary: EpochSummary) -> None:
        """Note an epoch that was published."""
        ...

    def result(self, result: RunResult) -> None:
        """Note the end of the run."""
        ...


class QuietReport:
    """Prints nothing; the exit code says how the run ended."""

    def epoch(self, summary: EpochSummary) -> None:
        """Print nothing."""

    def result(self, result: RunResult) -> None:
        """Print nothing."""


class JsonReport:
    """One JSON object per epoch, and one for the whole run, each on a line of its own."""

    def epoch(self, summary: EpochSummary) -> None:
        """Print the epoch."""
        typer.echo(json.dumps({"type": "epoch", **epoch_facts(summary)}))

    def result(self, result: RunResult) -> None:
        """Print the totals, with the counts of every step."""
        typer.echo(json.dumps({"type": "result", **result_facts(result)}))


class TableReport:
    """A line that changes in place while the job runs, and a table of counts at the end."""

    def __init__(self, console: Console, status: Status | None, header: str = "") -> None:
        self._console, self._status, self._header = console, status, header

    def epoch(self, summary: EpochSummary) -> None:
        """Show the newest epoch; only on a terminal."""
        if self._status is not None:
            self._status.update(f"{self._header}: {epoch_line(summary)}")

    def result(self, result: RunResult) -> None:
        """Print what became of the rows of every step."""
        self._console.print(headline(result), highlight=False)
        if result.counts:
            self._console.print(counts_table(result))


@contextlib.contextmanager
def open_report(job: str, guarantee: str, output: Output) -> Iterator[Report]:
    """The report for an output mode; the progress line is gone when the body is left."""
    if output == "quiet":
        yield QuietReport()
    elif output == "json":
        yield JsonReport()
    elif not sys.stdout.isatty():
        yield TableReport(Console(width=140), None)
    else:
        console = Console()
        with console.status(f"{job} ({guarantee}): starting") as status:
            yield TableReport(console, status, f"{job} ({guarantee})")


def epoch_line(summary: EpochSummary) -> str:
    """An epoch in one line: number, rows per second in and out, lag, watermark and which partition holds it back."""
    seconds = max(summary.seconds, 1e-3)
    lag = "-" if summary.lag is None else f"{summary.lag:,}"
    return (
        f"epoch {summary.epoch}  in {summary.rows_in / seconds:,.0f} rows/s  out {summary.rows_out / seconds:,.0f} rows/s"
        f"  lag {lag}  watermark {instant_text(summary.watermark)}{_held(summary)}{_slowed(summary)}"
    )


def _slowed(summary: EpochSummary) -> str:
    """Which step holds the job back; a job that keeps up is held back by nothing."""
    return f"  held back by {summary.load.holder}" if summary.lag and summary.load.holder is not None else ""


def _held(summary: EpochSummary) -> str:
    """Who holds the watermark back, and what waits for them; nothing is said of a job with one partition."""
    if len(summary.watermarks) < 2:
        return ""
    names = [each.partition for each in summary.holders]
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    paused = sum(each.is_paused for each in summary.watermarks)
    return (f" held by {names[0]}{more}" if names else "") + (f", {paused} paused" if paused else "")


def headline(result: RunResult) -> str:
    """The run in one line."""
    resumed = f", resumed after epoch {result.resumed_from}" if result.resumed_from is not None else ""
    rows = f"{result.rows_in:,} rows in, {result.rows_out:,} rows out"
    failures = f", {result.failures} failures got over" if result.failures else ""
    epochs = f"{result.epochs} epochs, {rows}, {result.seconds:.1f} s"
    return f"{result.job} ({result.guarantee}): {epochs}{resumed}{failures}; {result.ended}"


def counts_table(result: RunResult) -> Table:
    """One line per step: what became of the rows that entered it."""
    table = Table("step", box=None, pad_edge=False)
    for name in StepCounts.__struct_fields__:
        table.add_column(name, justify="right")
    for step, counts in result.counts.items():
        table.add_row(step, *(f"{getattr(counts, name):,}" for name in StepCounts.__struct_fields__))
    return table
