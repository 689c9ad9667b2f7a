"""What `make demo-kafka` runs: a job from Kafka to PostgreSQL and Kafka is killed twice, and its output is checked.

Broker and database are real ones: Kafka from its jars, PostgreSQL from a Python wheel. Everything else is Millstream on Spark in
local mode.
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
sys.path.insert(0, str(HERE.parent))  # the servers that the tests use as well

from tests.servers.kafka import KafkaServer  # noqa: E402
from tests.servers.postgres import PostgresServer  # noqa: E402

DATA = Path("demo-kafka-data")
ORDERS, PARTITIONS, KILLS = 40_000, 3, 2
console = Console(width=110, highlight=False)
Order = dict[str, int | str]


def main() -> int:
    began = time.monotonic()
    chance = random.Random(int(os.environ.get("SEED", "7")))
    shutil.rmtree(DATA, ignore_errors=True)
    DATA.mkdir()
    console.rule("[bold]Millstream: Kafka to PostgreSQL and Kafka, exactly once")
    broker, database = KafkaServer().start(), PostgresServer().start()
    try:
        console.print(f"\n[bold]1. Servers.[/] Kafka at {broker.servers}, PostgreSQL at port {database.port}.")
        orders = produce(broker, chance)
        for number in range(1, KILLS + 1):
            kill(number, broker.servers, database.url, chance)
        finish(broker.servers, database.url)
        is_equal = check(broker, database.url, orders)
    finally:
        database.stop()
        broker.stop()
    console.print(f"\nTook {time.monotonic() - began:.0f} s. The checkpoint is in {DATA}/.")
    return 0 if is_equal else 1


def produce(broker: KafkaServer, chance: random.Random) -> list[Order]:
    orders: list[Order] = [
        {"id": i, "customer": f"c{chance.randrange(40):02d}", "amount": chance.randrange(1, 500), "at": i * 20}
        for i in range(ORDERS)
    ]
    for name, partitions in (("orders", PARTITIONS), ("totals", 2)):
        broker.create(name, partitions)
    for part in range(PARTITIONS):
        broker.send("orders", [json.dumps(order).encode() for order in orders[part::PARTITIONS]], partition=part)
    console.print(f"[bold]2. Orders.[/] {ORDERS:,} messages in topic [cyan]orders[/], {PARTITIONS} partitions.")
    return orders


def start(servers: str, url: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, str(HERE / "kafka_job.py"), str(DATA), servers, url]
    # A group of its own: the JVM dies with the process that started it.
    return subprocess.Popen(command, start_new_session=True, stdout=subprocess.DEVNULL)


def kill(number: int, servers: str, url: str, chance: random.Random) -> None:
    before, job = count(url, "paid"), start(servers, url)
    while count(url, "paid") <= before and job.poll() is None:
        time.sleep(0.05)
    time.sleep(chance.random() * 0.8)
    os.killpg(job.pid, signal.SIGKILL)
    job.wait()
    console.print(
        f"[bold]{number + 2}. Run on Spark, and kill it[/] (SIGKILL to driver and JVM): "
        f"rows in table paid {before:,} → {count(url, 'paid'):,}"
    )


def finish(servers: str, url: str) -> None:
    if start(servers, url).wait() != 0:
        sys.exit("the job failed; its message stands above")
    console.print(f"[bold]{KILLS + 3}. Run to the end[/] of what was in the topic when the job first started.")


def check(broker: KafkaServer, url: str, orders: list[Order]) -> bool:
    expected: dict[tuple[str, int], tuple[int, int]] = defaultdict(lambda: (0, 0))
    for order in orders:
        key = (str(order["customer"]), int(order["at"]) // 60_000)
        total, n = expected[key]
        expected[key] = (total + int(order["amount"]), n + 1)
    wanted = Counter((customer, total, n) for (customer, _), (total, n) in expected.items())
    with psycopg.connect(url) as connection:
        paid = Counter(connection.execute("SELECT id, customer, amount FROM paid").fetchall())
        table = Counter(connection.execute("SELECT customer, total, n FROM totals").fetchall())
    sent = [json.loads(message.value()) for message in broker.read("totals")]
    topic = Counter((row["customer"], row["total"], row["n"]) for row in sent)
    console.print(f"[bold]{KILLS + 4}. Check against plain Python[/] (lost, doubled or foreign):")
    is_equal = True
    for name, found, right in (
        ("table paid", paid, Counter((o["id"], o["customer"], o["amount"]) for o in orders)),
        ("table totals", table, wanted),
        ("topic totals", topic, wanted),
    ):
        is_equal = is_equal and found == right
        console.print(
            f"   {name:13} {found.total():>6,} rows, {(right - found).total()} lost, {(found - right).total()} doubled"
        )
    console.print("   [green]nothing lost, nothing doubled[/]" if is_equal else "   [red]DIFFERENT[/]")
    return is_equal


def count(url: str, table: str) -> int:
    try:
        with psycopg.connect(url) as connection:
            found = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            return int(found[0]) if found else 0
    except psycopg.errors.UndefinedTable:
        return 0


if __name__ == "__main__":
    sys.exit(main())
