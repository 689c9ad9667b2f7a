"""What `make demo` runs: a windowed job on Spark that is killed half-way, resumed, and checked against plain Python."""

import datetime as dt
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import defaultdict
from decimal import Decimal
from pathlib import Path

from make_orders import write_orders
from rich.console import Console
from rich.table import Table

import millstream as ms

HERE = Path(__file__).resolve().parent
DATA = Path("demo-data")
JOB = [sys.executable, str(HERE / "orders.py")]
Totals = dict[tuple[str, dt.datetime], tuple[Decimal, int]]
console = Console(width=110, highlight=False)


def main() -> int:
    began = time.monotonic()
    shutil.rmtree(DATA, ignore_errors=True)
    console.rule("[bold]Millstream demo")

    lines = write_orders(DATA / "orders")
    console.print(
        f"\n[bold]1. Input.[/] {lines:,} lines of orders in {DATA}/orders: 300 customers, some far busier than"
    )
    console.print("   others, rows up to 3 seconds out of order, and 4 lines that are broken on purpose.")

    console.print(
        "\n[bold]2. Run on Spark, and die.[/] examples/orders.py sums the orders of each customer and minute."
    )
    console.print("   We kill its process (SIGKILL) after epoch 1 is decided and before its output is shown:")
    console.print("   the worst moment there is. Starting Spark takes a few seconds ...")
    seconds = run_until_killed()
    counts = f"Epochs decided: {epochs()}. Epochs visible in the output: {visible()}."
    console.print(f"   [red]killed[/] after {seconds:.0f} s. {counts}")

    console.print("\n[bold]3. Resume.[/] The same command again, nothing else: python examples/orders.py")
    seconds = run_to_the_end()
    console.print(f"   [green]finished[/] in {seconds:.0f} s: {epochs()} epochs decided, {visible()} visible.")

    found, expected = written_totals(), recomputed_totals()
    console.print("\n[bold]4. Result.[/] Revenue per minute:\n")
    console.print(revenue_table(found))
    is_equal = report_check(found, expected)
    report_next(time.monotonic() - began)
    return 0 if is_equal else 1


def run_until_killed() -> float:
    """The job with a failpoint: the second time an epoch has become durable, the process kills itself."""
    began = time.monotonic()
    done = subprocess.run(JOB, env={**os.environ, "MILLSTREAM_FAILPOINTS": "durable:2:kill"}, check=False)
    if done.returncode != -signal.SIGKILL:
        sys.exit(f"the job should have been killed, but ended with exit code {done.returncode}")
    return time.monotonic() - began


def run_to_the_end() -> float:
    began = time.monotonic()
    done = subprocess.run(JOB, check=False)
    if done.returncode != 0:
        sys.exit(f"the job failed with exit code {done.returncode}; its message stands above")
    return time.monotonic() - began


def epochs() -> int:
    """How many epochs are durable: those up to the one that the head of the checkpoint names."""
    head = json.loads((DATA / "checkpoint" / "millstream" / "head.json").read_text())
    newest = head["content"]["epoch"]
    return 0 if newest is None else int(newest) + 1


def visible() -> int:
    """How many epochs readers of any output can see: a sink publishes an epoch by one list of its files."""
    return len({path.stem for path in DATA.glob("*/_millstream/*/*.json")})


def written_totals() -> Totals:
    """What the job wrote; a window that stood there twice would show."""
    totals: Totals = {}
    for row in ms.read_files(DATA / "totals").to_pylist():
        key = (row["customer"], row["window_start"])
        if key in totals:
            sys.exit(f"window {key} was written twice")
        totals[key] = (row["total"], row["n"])
    return totals


def recomputed_totals() -> Totals:
    """The same sums in plain Python, straight from the input files."""
    totals: Totals = defaultdict(lambda: (Decimal(0), 0))
    for path in sorted((DATA / "orders").glob("*.json")):
        for line in path.read_text().splitlines():
            try:
                row = json.loads(line)
                amount, at = Decimal(row["amount"]), dt.datetime.fromisoformat(row["created_at"])
            except (ValueError, ArithmeticError, KeyError):
                continue  # a broken line
            if amount > 0:
                key = (row["customer"], at.replace(second=0, microsecond=0))
                total, n = totals[key]
                totals[key] = (total + amount, n + 1)
    return dict(totals)


def revenue_table(totals: Totals) -> Table:
    minutes: dict[dt.datetime, list[tuple[Decimal, str, int]]] = defaultdict(list)
    for (customer, start), (total, n) in totals.items():
        minutes[start].append((total, customer, n))
    table = Table("minute", "orders", "revenue", "customers", "best customer", "of that")
    for column in table.columns[1:4]:
        column.justify = "right"
    for start, parts in sorted(minutes.items()):
        best, customer, _ = max(parts)
        orders, revenue = sum(n for _, _, n in parts), sum(total for total, _, _ in parts)
        table.add_row(f"{start:%H:%M}", f"{orders:,}", f"{revenue:,.2f}", f"{len(parts)}", customer, f"{best:,.2f}")
    return table


def report_check(found: Totals, expected: Totals) -> bool:
    dead = ms.read_files(DATA / "dead").num_rows
    console.print(f"\n[bold]5. Check.[/] {dead} broken lines are in {DATA}/dead, with the reason for each.")
    if found == expected:
        count = f"{len(found):,}".replace(",", " ")
        console.print(f"   [green]nothing lost, nothing doubled: {count} windows equal[/] those of plain Python.")
        return True
    wrong = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
    console.print(f"   [red]{len(wrong)} of {len(expected)} windows differ[/], for example {min(wrong)}")
    return False


def report_next(seconds: float) -> None:
    console.print(f"\nThe output is in {DATA}/totals (parquet); read it with ms.read_files('{DATA}/totals').")
    console.print(f"The whole demo took {seconds:.0f} s. Try next:\n")
    for command, meaning in (
        (".venv/bin/millstream plan examples/orders.py", "how the job runs: chains, levels, shuffles"),
        (".venv/bin/python examples/orders.py", "run it once more: it is complete, so nothing happens"),
        (".venv/bin/python examples/sessions.py", "a small example, in this process, in a second"),
        ("less docs/tutorials/first-job.md", "write your first job"),
    ):
        console.print(f"   {command:<48} [dim]{meaning}[/]")


if __name__ == "__main__":
    sys.exit(main())
