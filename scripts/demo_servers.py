"""Runs what the tutorial from Kafka to PostgreSQL needs, on this machine, until Ctrl-C: `make servers` starts it.

A broker at localhost:9092, from its jars, and PostgreSQL at localhost:5432 with an empty database `shop`, from a wheel. Whatever
they hold is gone when they end. They trust everyone who reaches them, and are reached from this machine alone.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the server that the tests use as well

from tests.servers.postgres import PostgresServer  # noqa: E402

_BROKER_PORT, _DATABASE_PORT = 9092, 5432


def _started_database() -> PostgresServer:
    server = PostgresServer()
    server.port = _DATABASE_PORT
    server.start()
    # A database cannot be made inside a transaction.
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE ROLE shop LOGIN")
        connection.execute("CREATE DATABASE shop OWNER shop")
    return server


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> None:
    """Start both, wait, end both."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="ms-demo-kafka-") as folder:
        command = [sys.executable, str(ROOT / "scripts" / "kafka_server.py"), "run", folder]
        broker = subprocess.Popen(command, start_new_session=True)
        database = None
        try:
            database = _started_database()
            _say(f"Kafka: localhost:{_BROKER_PORT}   PostgreSQL: postgresql://shop@localhost:{_DATABASE_PORT}/shop")
            _say("Ctrl-C ends both, and what they hold is gone.")
            while broker.poll() is None:
                time.sleep(0.5)
        except KeyboardInterrupt:
            pass
        finally:
            broker.terminate()
            broker.wait(30)
            if database is not None:
                database.stop()


if __name__ == "__main__":
    main()
