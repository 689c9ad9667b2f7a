"""Requests made from the OpenAPI document, right ones and wrong ones: none may break the server or pass without a token.

`python -m tests.unit.server.fuzz 10000` runs as many cases as it is told, on SQLite or on `--database postgresql://…`.
"""

import argparse
import collections
import datetime as dt
import random
import tempfile
import time
import warnings
from pathlib import Path

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from starlette.testclient import TestClient
from tests.unit.server.world import StandingClock, bearer, job_body, tokens_of, whole_service

from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.refusals import UnknownName
from millstream.server.access.gate import OPEN
from millstream.server.app import create_app
from millstream.server.limits import Limits

FAST = Limits(requests_per_second=1e9, burst=10**9, logins_per_minute=10**9, stream_seconds=0)


MOST_TURNS = 20


class FakeChannel:
    """A node that answers everything, and knows no run that goes on."""

    def sight(self, run, seconds):
        raise UnknownName("the run does not go on here", code="CTL-043", hint="look at what is stored of it")

    def pulse(self, run, after):
        return {"epochs": [], "progress": None}

    def dump(self, run):
        return {"text": run}

    def metrics(self, run):
        return []

    def log(self, run, stream, offset, limit):
        return {"text": stream, "next": offset, "size": offset}

    def page(self, node):
        return f"# {node}"

    def logs(self, run):
        return ["driver.log"]


class FakeStored:
    """A node on whose disk nothing is stored."""

    def ask(self, asked):
        raise UnknownName("there is no checkpoint", code="CKPT-016", hint="start the job")


class Findings:
    """What the answers were."""

    def __init__(self):
        self.cases = 0
        self.statuses = collections.Counter()
        self.broken = []
        self.passed = []

    def note(self, case, answer, *, has_token):
        self.cases += 1
        self.statuses[answer.status_code] += 1
        told = f"{case.method} {case.formatted_path} {answer.status_code} {answer.text[:300]}"
        if answer.status_code >= 500:
            self.broken.append(told)
        is_open = (case.method.upper(), case.formatted_path) in OPEN
        if not has_token and answer.status_code < 300 and not is_open:
            self.passed.append(told)


class World:
    """A service with some things in it."""

    def __init__(self, metadata, folder):
        self.tokens = tokens_of(metadata)
        self.app = create_app(whole_service(metadata, folder, limits=FAST, channel=FakeChannel(), stored=FakeStored()))
        self.client = TestClient(self.app, raise_server_exceptions=False)
        admin = bearer(self.tokens["admin"])
        self.client.post("/v1/jobs", json=job_body(), headers=admin)
        run = self.client.post("/v1/jobs/orders/runs", json={}, headers=admin).json()["id"]
        self.client.put("/v1/jobs/orders/schedule", json={"type": "cron", "cron": "0 0 * * *"}, headers=admin)
        self.known = {"name": "orders", "run": run, "number": 1, "key": "checkpoint.retention"}

    def send(self, case, *, token, aimed):
        """A case as it came, or aimed at things that are there."""
        if aimed:
            case.path_parameters = {
                name: self.known.get(name, value) for name, value in (case.path_parameters or {}).items()
            }
        asked = case.as_transport_kwargs(base_url="http://testserver")
        headers = {name: str(value) for name, value in (asked.get("headers") or {}).items()}
        headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        body = {name: asked[name] for name in ("json", "data", "files") if asked.get(name) is not None}
        if isinstance(body.get("data"), (str, bytes)):
            body = {"content": body["data"]}
        if token is not None:
            headers |= bearer(token)
        return self.client.request(
            asked["method"], asked["url"], params=asked.get("params"), headers=headers, cookies=None, **body
        )


def fuzz(world, cases, chosen):
    """Send about so many cases to every kind of route; `chosen` is the seed."""
    findings = Findings()
    schema = schemathesis.openapi.from_dict(world.app.openapi())
    operations = [found.ok() for found in schema.get_all_operations()]
    for turn in range(MOST_TURNS):
        # Calls without parameters are soon exhausted: the others make up for them.
        each = max(2, (cases - findings.cases) // len(operations) + 1)
        for number, operation in enumerate(operations):
            _fuzz_one(world, operation, findings, each, chosen + number + 1000 * turn)
        if findings.cases >= cases:
            break
    return findings


def _fuzz_one(world, operation, findings, count, chosen):
    right = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    wrong = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    draws = random.Random(chosen)
    quiet = settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )

    @quiet
    @seed(chosen)
    @given(st.one_of(right, wrong))
    def one(case):
        token = draws.choice([*world.tokens.values(), world.tokens["admin"], world.tokens["admin"], None])
        answer = world.send(case, token=token, aimed=draws.random() < 0.5)
        findings.note(case, answer, has_token=token is not None)

    one()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database")
    told = parser.parse_args()
    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        clock = StandingClock()
        clock.now = dt.datetime.now(dt.UTC)
        metadata = Metadata(told.database or f"sqlite:///{folder}/metadata.db", clock=clock)
        migrate.upgrade(metadata)
        start = time.monotonic()
        findings = fuzz(World(metadata, Path(folder)), told.cases, told.seed)
        metadata.close()
    print(f"{findings.cases} cases in {time.monotonic() - start:.0f} s, seed {told.seed}: {dict(findings.statuses)}")
    print(f"answers 5xx: {len(findings.broken)}; passed without a token: {len(findings.passed)}")
    for line in (*findings.broken[:20], *findings.passed[:20]):
        print(line)
    raise SystemExit(bool(findings.broken or findings.passed))


if __name__ == "__main__":
    main()
