"""How long list calls take with 2,000 jobs and 1,000,000 events in SQLite: `python -m benchmarks.rest_lists`."""

import argparse
import datetime as dt
import statistics
import tempfile
import time
from pathlib import Path

from sqlalchemy import insert
from starlette.testclient import TestClient

from millstream.control.act import acting
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.tables.access import audit
from millstream.control.metadata.tables.jobs import job_definition, job_version
from millstream.control.metadata.tables.runs import execution, run_event
from millstream.server.access.tokens import create_token
from millstream.server.app import create_app
from millstream.server.limits import Limits
from millstream.server.service import Service
from millstream.server.serving import spare_what_stays

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
RUNS_PER_JOB = 10
STATUSES = ("COMPLETED", "DEAD", "CANCELLED", "SUSPENDED")
DEFINITION = {"kind": "declarative", "document": {"job": "x", "steps": [{"source": "rows"}] * 5}}
AT_ONCE = 20_000


def job_rows(jobs):
    shared = {"version": 1, "dag_definition": DEFINITION, "fingerprint": "f", "create_time": START, "settings": {}}
    for number in range(1, jobs + 1):
        kinds = {"job_type": "STREAMING" if number % 3 else "SQL_TASK", "update_time": START}
        yield {"id": number, "job_name": f"job-{number:05d}", **kinds, **shared}


def run_rows(jobs):
    number = 0
    for turn in range(RUNS_PER_JOB):
        for job in range(1, jobs + 1):
            number += 1
            is_last = turn == RUNS_PER_JOB - 1
            start = START + dt.timedelta(seconds=number)
            yield {
                "id": number,
                "execution_id": f"{number:032x}",
                "job_id": job,
                "job_name": f"job-{job:05d}",
                "status": "RUNNING" if is_last and job % 2 else STATUSES[number % len(STATUSES)],
                "start_time": start,
                "end_time": None if is_last and job % 2 else start,
                "not_before": start,
                "job_version": 1,
                "trigger_id": f"t{number}",
                "options": {},
                "failures": [],
            }


def event_rows(events, runs):
    for number in range(events):
        run, seq = number % runs + 1, number // runs + 1
        yield {
            "execution_id": f"{run:032x}",
            "seq": seq,
            "time": START + dt.timedelta(seconds=number),
            "kind": "moved",
            "to_status": "FAILED" if seq % 7 == 0 else "RUNNING",
            "cause": "claimed by node one",
            "actor": "node:one",
            "token": seq,
        }


def audit_rows(count):
    for number in range(count):
        yield {"time": START, "actor": "ci", "action": "run.start", "target": f"{number:032x}", "result": "done"}


def fill(metadata, jobs, events):
    versions = (
        {
            "job_id": n,
            "version": 1,
            "dag_definition": DEFINITION,
            "settings": {},
            "fingerprint": "f",
            "create_time": START,
            "created_by": "x",
        }
        for n in range(1, jobs + 1)
    )
    tables = (
        (job_definition, job_rows(jobs)),
        (job_version, versions),
        (execution, run_rows(jobs)),
        (run_event, event_rows(events, jobs * RUNS_PER_JOB)),
        (audit, audit_rows(events // 10)),
    )
    for table, rows in tables:
        batch = []
        for row in rows:
            batch.append(row)
            if len(batch) == AT_ONCE:
                write(metadata, table, batch)
        write(metadata, table, batch)


def write(metadata, table, batch):
    if batch:
        with metadata.begin() as connection:
            connection.execute(insert(table), batch)
        batch.clear()


def measured(client, path, times):
    """Milliseconds by the clock, and of processors: on a machine that others use, the second says what a call takes."""
    took, worked = [], []
    for _ in range(times):
        start, begun = time.perf_counter(), time.process_time()
        answer = client.get(path)
        took.append((time.perf_counter() - start) * 1000)
        worked.append((time.process_time() - begun) * 1000)
        assert answer.status_code == 200, answer.text
    return took, worked


def paths(client, jobs):
    """Lists as people look at them, and pages far behind the first."""
    run = f"{jobs * RUNS_PER_JOB:032x}"
    yield from ("/v1/jobs", "/v1/jobs?limit=1000", "/v1/jobs?state=RUNNING", "/v1/jobs?state=CREATED", "/v1/jobs?q=999")
    yield from ("/v1/runs", "/v1/runs?status=RUNNING", "/v1/runs?status=DEAD", "/v1/runs?job=job-00042")
    yield from (f"/v1/runs/{run}/events", f"/v1/runs/{run}/exceptions", "/v1/overview", "/v1/audit", "/v1/operations")
    for path in ("/v1/jobs?limit=1000", "/v1/runs?limit=1000", "/v1/audit?limit=1000"):
        cursor = client.get(path).json()["next"]
        yield f"{path}&cursor={cursor}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=2000)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=100)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        metadata = Metadata(f"sqlite:///{Path(folder) / 'metadata.db'}")
        migrate.upgrade(metadata)
        fill(metadata, told.jobs, told.events)
        with acting(metadata) as act:
            token = create_token(act, "bench", "admin", dt.timedelta(days=1)).text
        limits = Limits(requests_per_second=1e9, burst=10**9)
        service = Service(metadata=metadata, planner=None, signing_key=b"k", limits=limits)
        with TestClient(create_app(service)) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            spare_what_stays()  # as a server does when it has started
            report(client, told)
        metadata.close()


def report(client, told):
    print(f"{told.jobs} jobs, {told.jobs * RUNS_PER_JOB} runs, {told.events} events, each call {told.times} times; ms")
    worst = worst_worked = 0.0
    for path in paths(client, told.jobs):
        took, worked = measured(client, path, told.times)
        edge, worked_edge = (statistics.quantiles(each, n=100)[98] for each in (took, worked))
        worst, worst_worked = max(worst, edge), max(worst_worked, worked_edge)
        print(
            f"{path[:60]:60} median {statistics.median(took):6.1f}  p99 {edge:6.1f}  p99 of processors {worked_edge:6.1f}"
        )
    print(f"worst p99 {worst:.1f} ms by the clock, {worst_worked:.1f} ms of processors; at most 100 is wanted")


if __name__ == "__main__":
    main()
