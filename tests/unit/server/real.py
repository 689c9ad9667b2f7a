"""A whole service in this process, whose runs are real driver processes on the local engine."""

import contextlib
import json
import os
import signal
import time

from starlette.testclient import TestClient
from tests.unit.server.world import bearer, tokens_of

from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.nodes.calling import ChannelCalls
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode
from millstream.control.secrets.key_ring import KeyRing
from millstream.server.app import create_app
from millstream.server.limits import Limits
from millstream.server.service import Service


class RealService:
    def __init__(self, folder):
        self.folder = folder
        self.metadata = Metadata(f"sqlite:///{folder}/metadata.db")
        migrate.upgrade(self.metadata)
        options = NodeOptions(*(folder / name for name in ("node", "checkpoints", "artifacts", "keys.json")))
        self.plane = ControlPlane(self.metadata, RunningNode(self.metadata, options))
        self.plane.start()
        self.tokens = tokens_of(self.metadata)
        keys = KeyRing(folder / "keys.json")
        self.service = Service(
            metadata=self.metadata,
            planner=planned_apart,
            signing_key=keys.derived("cursors"),
            limits=Limits(requests_per_second=1000, burst=1000),
            wake=self.plane.wake,
            channel=ChannelCalls(self.metadata),
            keys=keys,
            artifacts=ArtifactStore(folder / "artifacts"),
            unpacked=folder / "unpacked",
            checkpoints=folder / "checkpoints",
        )
        self.client = TestClient(create_app(self.service), raise_server_exceptions=False)
        self.be("admin")

    def be(self, role):
        """Ask with the token of a role from now on."""
        self.client.headers.update(bearer(self.tokens[role]))
        return self.client

    def submitted(self, document, **settings):
        body = {"dag_definition": document, "settings": {"engine": "local", **settings}}
        answer = self.client.post("/v1/jobs", json=body)
        assert answer.status_code == 201, answer.text

    def started(self, name, **options):
        answer = self.client.post(f"/v1/jobs/{name}/runs", json=options)
        assert answer.status_code == 202, answer.text
        return answer.json()["id"]

    def until(self, run, holds, seconds=30):
        """Wait for a run to be as a condition says."""
        end = time.monotonic() + seconds
        while not holds(seen := self.client.get(f"/v1/runs/{run}").json()):
            assert time.monotonic() < end, seen
            time.sleep(0.05)
        return seen

    def done(self, answer, seconds=30):
        """The operation of an answer, when it has ended."""
        assert answer.status_code == 202, answer.text
        return self.ended(answer.json()["operation"], seconds)

    def ended(self, operation, seconds=30):
        """An operation when it has ended."""
        end = time.monotonic() + seconds
        while True:
            seen = self.client.get(f"/v1/operations/{operation}").json()
            if seen["status"] in ("done", "failed"):
                return seen
            assert time.monotonic() < end, seen
            time.sleep(0.05)

    def close(self):
        for path in self.folder.glob("node/runs/*/driver.json"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
        self.client.close()
        self.plane.stop()
        self.metadata.close()


def counting(folder, name="counts", *, key="value % 7", kind="count()"):
    """An endless job with state."""
    steps = [
        {"source": "s", "from": {"rate": {"rows_per_second": 200}}},
        {"with_columns": {"k": key}},
        {"aggregate": {"n": kind}, "key_by": "k", "id": "n"},
        {"sink": "o", "to": {"files": {"path": str(folder / f"out-{name}")}}},
    ]
    return {"job": name, "epoch_interval": "50ms", "steps": steps}
