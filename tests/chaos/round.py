"""One round: a job of its own, its input, its sinks and its processes, from the first start to the drained end."""

import json
import random
import shutil
import time
from pathlib import Path

from tests.chaos.history import History
from tests.chaos.outputs import Outputs
from tests.chaos.process import await_true
from tests.chaos.workload import SOURCES, Workload

from millstream.api.running.control import Request, RequestBox
from millstream.errors import MillstreamError
from millstream.inspect.checkpoint import open_view

STREAMS = {"plain": "files", "running": "postgres", "bells": "outbox", "latest": "upsert", "windows": "sqlite"}
LEASE_TERM = 1_000
PATIENCE = {"local": 60, "spark": 240}


class Anomaly(Exception):
    """Something that must never happen."""


class Round:
    """The world of one round, and what every fault needs of it."""

    def __init__(self, folder, seed, *, engine, sinks, processes, server, proxy, size, stores, store):
        self.folder, self.engine, self.seed = Path(folder), engine, seed
        self.stores, self.store, self._views = stores, store, {}
        self.random = random.Random(seed)
        self.processes, self.server, self.proxy, self.size = processes, server, proxy, size
        self.workload = self._workload()
        self.history = History(self.folder.with_suffix(".jsonl"))
        self.bases = {}
        """Per native savepoint, and per lineage restored from one: the first epoch of its own."""
        self.sometimes = set()
        self._read = dict.fromkeys(SOURCES, 0)
        self.cold_start = None
        self.recoveries = []
        """Seconds from the start of a new interpreter to its first new epoch: first of all, and after kills."""
        self.kills = 0
        self.takeovers = 0
        self.pauses = 0
        """How often an owner was stopped and woken again, replaced meanwhile or not."""
        self.fenced = 0
        self.config = self._config(sinks)
        self.checkpoints = []
        self.use_checkpoint(self.config["checkpoint"])
        self.outputs = self._outputs()

    def _workload(self):
        return Workload(self.folder, self.seed, rows_per_file=self.size.rows_per_file)

    def _outputs(self):
        return Outputs(self.config, self.server)

    def _config(self, sinks):
        wanted = {"upsert": "postgres"}
        streams = {name: kind if wanted.get(kind, kind) in sinks else "files" for name, kind in STREAMS.items()}
        if streams["latest"] == "files":
            del streams["latest"]
        schema = f"round_{time.time_ns()}"
        if self.server is not None:
            self.server.execute(f"CREATE SCHEMA {schema}")
        return {
            "folder": str(self.folder),
            "checkpoint": str(self.folder / "checkpoint"),
            "postgres": f"postgresql://postgres@127.0.0.1:{self.proxy.port}/postgres" if self.proxy else "",
            "schema": schema,
            "engine": self.engine,
            "streams": streams,
            "rows_per_epoch": self.size.rows_per_file * 4,
            "parallelism": self.random.choice([1, 2, 3]),
            "lease_term": LEASE_TERM if self.engine == "local" else 5_000,
            "retained": 1_000 if self.random.randrange(4) else 20,
        }

    @property
    def patience(self):
        return PATIENCE[self.engine]

    @property
    def letters(self):
        """Where broken lines go, by source, if not to files."""
        return {}

    def passes_at_start(self, place):
        """How often a place that epochs pass is passed before the first of them, at most."""
        return 0

    @property
    def checks(self):
        """What is checked in the end beside what always is."""
        return ()

    def is_whole(self, found):
        """Whether the manifests of all epochs are still there."""
        epochs = sum(last + 1 - self.bases.get(lineage, 0) for lineage, last in found["lineages"].items())
        return len(found["manifests"]) == epochs

    @property
    def has_postgres(self):
        return bool(set(self.config["streams"].values()) & {"postgres", "outbox", "upsert"})

    # What the checkpoint says.

    def use_checkpoint(self, checkpoint):
        """Run the job with this checkpoint from now on."""
        self.checkpoints.append(checkpoint)
        manifests = self.stores.url(self.store, self, checkpoint, through_proxy=True)
        self.config |= {"checkpoint": checkpoint, "manifests": manifests}

    def manifests(self, checkpoint):
        """The store of a checkpoint's manifests, past the faults of the network."""
        return self.stores.url(self.store, self, checkpoint, through_proxy=False)

    def view(self, checkpoint=None):
        """The checkpoint in use, or an earlier one, as others may look at it."""
        checkpoint = checkpoint or self.config["checkpoint"]
        if checkpoint not in self._views:
            self._views[checkpoint] = open_view(checkpoint, self.manifests(checkpoint))
        return self._views[checkpoint]

    def close(self):
        """Give back what the looking opened."""
        for view in self._views.values():
            view.store.close()
        self._views.clear()

    def head(self):
        """The head, or `None` where there is none yet."""
        try:
            return self.view().head()
        except MillstreamError:
            return None

    def progress(self):
        """How many epochs are durable, over all lineages."""
        head = self.head()
        if head is None:
            return 0
        before = sum(last + 1 for _, last in head.origin.history)
        mine = 0 if head.epoch is None else head.epoch + 1
        return before + max(0, mine - self.bases.get(head.origin.savepoint, 0))

    def unread(self):
        """Files that no durable epoch has read yet, of the source that is furthest behind."""
        head = self.head()
        # The position of a lineage without epochs is that of the savepoint, which the last known epoch had.
        if head is not None and head.epoch is not None:
            ends = self.view().manifest().plan["sources"]
            self._read = {name: end["unit"] for name, end in ends.items()}
        return max(self.workload.files[source] - self._read[source] for source in SOURCES)

    # Processes.

    def feed(self, epochs):
        """See that there is input for that many epochs."""
        missing = 2 * epochs - self.unread()
        if missing > 0:
            self.workload.drip(missing)

    def start(self, failpoints="", *, fresh=False, **options):
        """Start the job, one in ten times from a new interpreter.

        Leftovers of earlier processes are noted first, since they must be gone in the end.
        """
        if self.progress() and self.outputs.leftovers():
            self.sometimes.add("orphans seen")
        (self.folder / "config.json").write_text(json.dumps(self.config))
        self._keep_copies()
        fresh = fresh or self.engine == "spark" or self.random.randrange(10) == 0
        return self.processes.start(self.folder, failpoints=failpoints, fresh=fresh, **options)

    def _keep_copies(self):
        """Head and lease as they are now may come back later as older copies."""
        for name in ("head.json", "lease.json"):
            file = Path(self.config["checkpoint"]) / "millstream" / name
            if file.exists():
                shutil.copy(file, self.kept_copy(file))

    def kept_copy(self, file):
        return self.folder / f"kept-{Path(self.config['checkpoint']).name}-{file.name}"

    def await_epochs(self, process, count, *, since=None):
        """Wait for new epochs by a process that must live."""
        since = self.progress() if since is None else since

        def done():
            if self.progress() >= since + count:
                return True
            if process.code is not None:
                raise Anomaly(f"the process ended with {process.code} before its epochs: {process.end}")
            self._drip()
            return False

        try:
            await_true(done, self.patience, f"{count} epochs after {since}")
        except TimeoutError as problem:
            raise Anomaly(f"I9: {problem}") from None

    def _drip(self):
        """New input as soon as all is read: a running job never waits for it."""
        if self.unread() == 0:
            self.workload.drip(2)

    def await_end(self, process):
        """Wait for the end of a process that has a fault before it; input keeps coming."""

        def ended():
            self._drip()
            return process.code is not None

        await_true(ended, self.patience, f"the end of process {process.pid}")
        return process.code

    def killed(self, process, action, **detail):
        """Kill a process and note it."""
        code = process.kill()
        self.note_kill(action, code, **detail)

    def note_kill(self, action, code, **detail):
        self.kills += code == -9
        self.history.note(action, "unknown" if code == -9 else "fail", code=code, epochs=self.progress(), **detail)

    def ask(self, action, identifier, form="canonical"):
        """Leave a request in the checkpoint's store."""
        RequestBox(self.view().store).put(Request(id=identifier, action=action, form=form))

    def answer(self, identifier):
        return RequestBox(self.view().store).answer(identifier)

    # The end.

    def heal(self):
        """Run without faults until everything is read, then drain."""
        self.feed(3)
        since, began = self.progress(), time.monotonic()
        process = self.start()
        self.await_epochs(process, 2, since=since)
        await_true(lambda: self.unread() == 0 or process.code is not None, self.patience * 3, "reading all input")
        self.ask("drain", f"end-{self.kills}")
        code = process.wait(self.patience)
        if code != 0 or process.end.get("code") != "drained":
            raise Anomaly(f"the drained run ended with {code}: {process.end}")
        self.history.note("drain", "ok", epochs=self.progress(), seconds=round(time.monotonic() - began, 2))
