"""What `make demo-recovery` runs: a job that writes to PostgreSQL is killed five times, rescaled, and checked.

The database is a real PostgreSQL server from a Python wheel; everything else is Millstream on Spark in local mode.
"""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import psycopg
from rich.console import Console

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))  # the server that the tests use as well

from tests.servers.postgres import PostgresServer  # noqa: E402

DATA = Path("demo-recovery-data")
KILLS = 5
ROWS, FILES = 60_000, 60
console = Console(width=110, highlight=False)


def main() -> int:
    began = time.monotonic()
    seed = int(os.environ.get("SEED", "7"))
    shutil.rmtree(DATA, ignore_errors=True)
    console.rule("[bold]Millstream: nothing lost, nothing doubled")
    rows = write_rows(DATA / "in", seed)
    console.print(f"\n[bold]1. Input.[/] {ROWS:,} payments of 200 accounts in {FILES} files (seed {seed}).")
    server = PostgresServer().start()
    try:
        console.print(
            f"[bold]2. PostgreSQL[/] runs at port {server.port}; the job writes tables payments and balances."
        )
        chaos(server.url, random.Random(seed))
        savepoint = suspend(server.url)
        finish(server.url, savepoint)
        is_equal = check(server.url, rows)
    finally:
        server.stop()
    console.print(f"\nTook {time.monotonic() - began:.0f} s. Data is in {DATA}/.")
    return 0 if is_equal else 1


def write_rows(folder: Path, seed: int) -> list[dict[str, int | str]]:
    chance = random.Random(seed)
    rows: list[dict[str, int | str]] = [
        {"seq": i, "account": f"a{chance.randrange(200):03d}", "amount": chance.randrange(-500, 900)}
        for i in range(ROWS)
    ]
    folder.mkdir(parents=True)
    each = ROWS // FILES
    for number in range(FILES):
        text = "".join(json.dumps(row) + "\n" for row in rows[number * each : (number + 1) * each])
        (folder / f"{number:03d}.json").write_text(text)
    return rows


def start(url: str, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / "recovery_job.py"), str(DATA), url, *options]
    # A group of its own: the JVM dies with the process that started it.
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def chaos(url: str, chance: random.Random) -> None:
    console.print(
        f"[bold]3. Run on Spark with parallelism 2, and kill it {KILLS} times[/] (SIGKILL to driver and JVM)."
    )
    for number in range(1, KILLS + 1):
        before = published(url)
        job, began = start(url), time.monotonic()
        wanted = before + chance.randint(1, 3)
        while published(url) < wanted and job.poll() is None:
            time.sleep(0.05)
        time.sleep(chance.random() * 0.6)
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        done = published(url)
        took = time.monotonic() - began
        console.print(
            f"   [red]kill {number}[/] after {took:4.0f} s: epochs {before}-{done - 1} were published, "
            f"newest durable {durable()}, rows in payments {count(url, 'payments'):,}"
        )


def suspend(url: str) -> str:
    console.print("[bold]4. Suspend[/] with a savepoint, to go on with another parallelism.")
    job, before = start(url), published(url)
    while published(url) < before + 2:
        if job.poll() is not None:
            sys.exit("the job ended too early; its message stands above")
        time.sleep(0.05)
    command = [
        sys.executable,
        "-m",
        "millstream.cli.main",
        "suspend",
        str(DATA / "checkpoint"),
        "--to",
        str(DATA / "saved"),
    ]
    subprocess.run([*command, "--id", "rescale"], check=True, stdout=subprocess.DEVNULL)
    job.wait(timeout=60)
    path = DATA / "saved" / "savepoint-rescale"
    record = json.loads((path / "savepoint.json").read_text())
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    epoch = next(value["epoch"] for value in record.values() if isinstance(value, dict))
    console.print(f"   savepoint of epoch {epoch}: {size:,} bytes in {path}")
    return str(path)


def finish(url: str, savepoint: str) -> None:
    console.print(
        "[bold]5. Restore at parallelism 3[/] in a new checkpoint directory, and run to the end of the input."
    )
    job = start(url, "--parallelism", "3", "--from-savepoint", savepoint)
    if job.wait() != 0:
        sys.exit("the restored job failed; its message stands above")
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT lineage, step, count(*), min(epoch), max(epoch), max(token), sum(rows) FROM millstream_marker "
            "GROUP BY lineage, step ORDER BY min(published_at), step"
        ).fetchall()
    for lineage, step, epochs, first, last, token, rows in found:
        console.print(
            f"   lineage {lineage[:8]} sink {step:9} epochs {first}-{last} ({epochs} markers), {rows:,} rows, last token {token}"
        )


def check(url: str, rows: list[dict[str, int | str]]) -> bool:
    balances: dict[str, int] = defaultdict(int)
    for row in rows:
        balances[str(row["account"])] += int(row["amount"])
    with psycopg.connect(url) as connection:
        payments = Counter(connection.execute("SELECT seq, account, amount FROM payments").fetchall())
        latest: dict[str, int] = dict(connection.execute("SELECT account, balance FROM balances").fetchall())
    expected = Counter((row["seq"], row["account"], row["amount"]) for row in rows)
    lost, doubled = expected - payments, payments - expected
    console.print(
        f"[bold]6. Check against plain Python.[/] payments: {payments.total():,} rows, {lost.total()} lost, "
        f"{doubled.total()} doubled or foreign; balances: {sum(latest[a] == b for a, b in balances.items())} of "
        f"{len(balances)} accounts equal."
    )
    is_equal = payments == expected and latest == balances
    console.print("   [green]nothing lost, nothing doubled[/]" if is_equal else "   [red]DIFFERENT[/]")
    return is_equal


def published(url: str) -> int:
    """Epochs whose rows the table shows: one marker each."""
    query = "SELECT coalesce(max(epoch) + 1, 0) FROM millstream_marker WHERE step = 'payments'"
    try:
        with psycopg.connect(url) as connection:
            found = connection.execute(query).fetchone()
            return int(found[0]) if found else 0
    except psycopg.errors.UndefinedTable:
        return 0


def count(url: str, table: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
        return int(found[0]) if found else 0


def durable() -> int | None:
    """The newest durable epoch, as the head of the checkpoint says."""
    head = json.loads((DATA / "checkpoint" / "millstream" / "head.json").read_text())
    epoch = head["content"]["epoch"]
    return None if epoch is None else int(epoch)


if __name__ == "__main__":
    sys.exit(main())
