"""A service under test: a database of its own, a clock that stands, and a planner in this process."""

import datetime as dt

import msgspec

from millstream.contract.reach import Reach
from millstream.control.act import acting
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.planned import Planned
from millstream.control.metrics.exposition import Exposition
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.stored.calling import StoredCalls
from millstream.driver.service.planning import plan_facts
from millstream.server.access.roles import ROLE_ORDER
from millstream.server.access.tokens import create_token
from millstream.server.service import Service

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
KEY = b"k" * 32


class StandingClock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now

    def forward(self, seconds):
        self.now += dt.timedelta(seconds=seconds)


class Ticking:
    """A monotonic clock that stands until it is moved."""

    def __init__(self):
        self.seconds = 1000.0

    def __call__(self):
        return self.seconds


def plan_here(definition, *, code, parallelism):
    """Compiles declarative definitions in this process."""
    if definition["kind"] == "code":
        return Planned(
            name=definition["entry"].rpartition(":")[2],
            mode="STREAMING",
            fingerprint="c0de",
            parallelism=parallelism or 1,
            guarantee="exactly_once",
        )
    return msgspec.convert(plan_facts(definition, code, parallelism, Reach(private=True)), Planned)


def definition(name="orders", path="/data/out"):
    """A small declarative job."""
    return {
        "job": name,
        "steps": [
            {"source": "rows", "from": {"files": {"path": "/data/in", "format": "json"}}, "schema": "n long"},
            {"sink": "out", "to": {"files": {"path": path}}},
        ],
    }


def job_body(name="orders", **more):
    return {"dag_definition": definition(name), "settings": {"engine": "local"}, **more}


def service_of(metadata, **more):
    return Service(**{"metadata": metadata, "planner": plan_here, "signing_key": KEY, **more})


class SilentChannel:
    """A channel whose runs are all unknown, so that its routes are there."""


def whole_service(metadata, folder, **more):
    """A service with all of its parts."""
    parts = {
        "channel": SilentChannel(),
        "stored": StoredCalls(metadata),
        "keys": KeyRing(folder / "keys.json"),
        "artifacts": ArtifactStore(folder / "artifacts"),
        "unpacked": folder / "unpacked",
        "checkpoints": folder / "checkpoints",
        "figures": Exposition(metadata, tuple),
    }
    return service_of(metadata, **{**parts, **more})


def tokens_of(metadata):
    """One token for each role: `{role: text}`."""
    with acting(metadata) as act:
        return {role: create_token(act, role, role, dt.timedelta(days=30)).text for role in ROLE_ORDER}


def bearer(token):
    return {"Authorization": f"Bearer {token}"}
