"""A service with three jobs: a stream, an HTTP roller every minute, and a SQL task behind it.

    make serve

Everything it keeps is in the folder `millstream-service`. With --once it shows one run of each job and ends.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import yaml
from demo_shop import serve_shop

from millstream.client import Client
from millstream.errors import StateConflict

JOBS = Path(__file__).parent / "service"
SECONDS = 120


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", default="millstream-service")
    parser.add_argument("--port", default="8650")
    parser.add_argument("--engine", default="local")
    parser.add_argument("--once", action="store_true")
    options = parser.parse_args()
    folder = Path(options.folder).absolute()
    folder.mkdir(exist_ok=True)
    process, url = start_service(folder, options.port)
    try:
        with Client(url, (folder / "data/admin.token").read_text().strip()) as client:
            submit_all(client, folder, serve_shop(), options.engine)
            tell(client, url, folder)
            if options.once:
                stop_stream(client)
            else:
                process.wait()
    except KeyboardInterrupt:
        print("\nthe service ends; jobs that run go on until it is back, for two minutes")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def start_service(folder: Path, port: str) -> tuple[subprocess.Popen[str], str]:
    command = [
        sys.executable,
        "-m",
        "millstream.cli.main",
        "server",
        "start",
        "--data",
        str(folder / "data"),
        "--port",
        port,
        "--allow-private-addresses",  # the shop's API is on this machine
    ]
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config")}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line.startswith("millstream serves at"):
        sys.exit("the service did not start; see above")
    return process, line.split()[-1]


def submit_all(client: Client, folder: Path, shop: str, engine: str) -> None:
    """Submit what is not there yet; the roller fires every minute, the report behind each of its successes."""
    for name in ("clicks", "shop_sync", "shop_report"):
        document = yaml.safe_load((JOBS / f"{name}.yaml").read_text())
        settings = {"engine": engine}
        try:
            client.jobs.submit(document, settings=settings)
        except StateConflict:
            client.jobs.change(client.jobs.get(document["job"]), document, settings=settings)
    params = {"folder": str(folder), "api": shop}
    client.schedules.set("shop-sync", {"type": "cron", "cron": "* * * * *", "params": params})
    behind = {"type": "dependency", "upstream": [{"job": "shop-sync"}], "params": {"folder": str(folder)}}
    client.schedules.set("shop-report", behind)
    try:
        client.jobs.start("clicks-per-page", params={"folder": str(folder)})
    except StateConflict:
        print("clicks-per-page goes on since the last time")
    client.schedules.fire("shop-sync")


def tell(client: Client, url: str, folder: Path) -> None:
    """Wait until every job has shown something, and say what and where."""
    print(f"the service is at {url}; its admin token is in {folder}/data/admin.token")
    end = time.monotonic() + SECONDS
    left = ["clicks-per-page", "shop-sync", "shop-report"]
    while left and time.monotonic() < end:
        for name in list(left):
            run = next(iter(client.jobs.runs(name)), None)
            shown = "RUNNING" if name == "clicks-per-page" else "COMPLETED"
            if run is not None and run.status == shown and run.processed_records > 0:
                print(f"{name}: {run.status.lower()}, {run.processed_records:,} records so far")
                left.remove(name)
        time.sleep(0.2)
    if left:
        sys.exit(f"nothing was heard of {', '.join(left)}")
    print(f"results: {folder}/clicks, {folder}/shop.db, {folder}/report")
    print(f"try: XDG_CONFIG_HOME={folder}/config millstream list --runs")


def stop_stream(client: Client) -> None:
    run = next(iter(client.jobs.runs("clicks-per-page")))
    ended = client.wait(client.runs.stop(run.id, "drain"))
    print(f"clicks-per-page: {(ended.result or {}).get('status', '').lower()}")


if __name__ == "__main__":
    main()
