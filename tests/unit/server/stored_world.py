"""A service whose node runs real drivers on the local engine, and a client of its REST interface."""

import contextlib
import json
import os
import signal
import time

from starlette.testclient import TestClient
from tests.unit.server.world import bearer, service_of, tokens_of

from millstream.control.act import acting
from millstream.control.dispatcher.definitions import Submission, submit
from millstream.control.dispatcher.planning import planned_apart
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.metadata.database import Metadata
from millstream.control.plane import ControlPlane, NodeOptions, RunningNode
from millstream.control.settings import settings_of
from millstream.control.stored.calling import StoredCalls
from millstream.server.app import create_app


class StoredWorld:
    """Server and node as separate parts: what they share is the database."""

    def __init__(self, folder, url):
        self.folder, self.metadata = folder, Metadata(url)
        self.tokens = tokens_of(self.metadata)
        names = ("node", "checkpoints", "artifacts", "keys.json")
        self.node = RunningNode(self.metadata, NodeOptions(*(folder / name for name in names)))
        self.plane = ControlPlane(self.metadata, self.node)
        self.plane.start()
        self.service = service_of(self.metadata, stored=StoredCalls(self.metadata), wake=self.plane.wake)
        self.app = self.server()

    def server(self):
        """Another server of the service: it sees nothing but the database."""
        return TestClient(create_app(self.service), raise_server_exceptions=False, headers=bearer(self.tokens["admin"]))

    def get(self, path, role="admin", **query):
        answer = self.app.get(f"/v1{path}", params=query, headers=bearer(self.tokens[role]))
        return answer.status_code, answer.json()

    def post(self, path, body, role="admin"):
        answer = self.app.post(f"/v1{path}", json=body, headers=bearer(self.tokens[role]))
        return answer.status_code, answer.json()

    def submit(self, document, **settings):
        definition = {"kind": "declarative", "document": document}
        planned = planned_apart(definition, code=None, parallelism=None)
        with acting(self.metadata, "ada") as act:
            submit(act, Submission(planned, definition, settings_of({"engine": "local", **settings})))
        return self.start(document["job"])

    def start(self, job, **options):
        with acting(self.metadata, "ada") as act:
            run = start(act, job, StartOptions(**options)).execution_id
        self.plane.wake()
        return run

    def row(self, run):
        with acting(self.metadata) as act:
            return run_of(act, run)

    def until(self, run, holds, seconds=40):
        return until(lambda: row if holds(row := self.row(run)) else None, seconds)

    def ended(self, run):
        return self.until(run, lambda row: row.status == "COMPLETED")

    def stopped(self, run, mode):
        with acting(self.metadata, "ada") as act:
            operation = stop(act, run_of(act, run), Wish(mode))
        self.plane.wake()
        return self.operation(operation)

    def operation(self, identifier):
        def ended():
            _, told = self.get(f"/operations/{identifier}")
            return told if told["status"] in ("done", "failed") else None

        return until(ended)

    def close(self):
        for path in self.folder.glob("node/runs/*/driver.json"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)
        self.plane.stop()
        self.metadata.close()


def until(look, seconds=60, pause=0.05):
    """What `look` gives as soon as it gives something."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not come in time"
        time.sleep(pause)
    return found
