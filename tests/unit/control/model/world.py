"""A service without processes: real tables, nodes and dispatchers; clock, drivers and sinks are fakes."""

import collections
import contextlib
import datetime as dt
import itertools
import sqlite3
from pathlib import Path

from sqlalchemy import event
from tests.unit.control.conftest import NOON, submission
from tests.unit.control.fake_drivers import FakeDriver, FakeDrivers

from millstream.checkpoint.decisions import Challenge, challenge
from millstream.control.act import acting
from millstream.control.dispatcher import reconcile
from millstream.control.dispatcher.definitions import submit
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.nodes import adopting, claims, leases, node
from millstream.control.nodes.node import Node
from millstream.control.nodes.placing import Places
from millstream.control.nodes.registration import Offer
from millstream.driver.service.renewals import standing
from millstream.errors import ExternalFailure

JOBS = ("a", "b")
TABLES = ("run_event", "operation", "savepoint", "pipeline_checkpoint", "pipeline_job_execution", "lease", "node")
_boots = itertools.count()


class Crashed(BaseException):
    """A process ended here."""


class ModelMetadata(Metadata):
    """SQLite that two nodes may use, since they take turns; it can be away, and its replies can get lost."""

    away = False
    lost_reply: int | None = None
    """Behind so many transactions more, one is committed and its caller told that it failed."""

    @property
    def is_sqlite(self):
        return not self.is_shared

    is_shared = False
    """Set when it is ready: from then on it passes for a database that several nodes may use."""

    @contextlib.contextmanager
    def begin(self):
        if self.away:
            raise ExternalFailure("the database is away", code="CTL-002")
        with super().begin() as connection:
            yield connection
        if self.lost_reply is not None:
            self.lost_reply -= 1
            if self.lost_reply < 0:
                self.lost_reply = None
                self.counts["lost reply"] += 1
                raise ExternalFailure("the reply was lost", code="CTL-002")


def opened(folder, clock):
    """A database with two jobs; durability against power loss is no matter here."""
    metadata = ModelMetadata(f"sqlite:///{folder}/model.db", clock=clock)

    @event.listens_for(metadata.engine, "connect")
    def _fast(connection, _):
        connection.execute("PRAGMA synchronous=off")

    metadata.counts = collections.Counter()
    migrate.upgrade(metadata)
    with acting(metadata, "ada") as act:
        for name in JOBS:
            restart = {"strategy": "fixed_delay", "delay": 1.0}
            submit(act, submission(name, settings={"restart": restart}, max_retry_times=5))
    metadata.is_shared = True
    return metadata


class FencedSink:
    """The head of one job's checkpoint: one owner at a time, each epoch once; what a late owner writes is refused."""

    def __init__(self, mutant):
        self.claim, self.epoch, self.log, self._mutant = 0, 0, [], mutant

    def take(self, claim):
        """A driver takes the lease of the checkpoint, as the lease decides; its next epoch, or `None` if it comes too late."""
        stored = self.claim or None
        decision = challenge(
            None if stored is None else 15_000,
            is_free=claim == self.claim,
            is_renewed=False,
            silent_seconds=0,
            claim=claim,
            stored_claim=self.claim,
        )
        if decision is not Challenge.TAKE and self._mutant != "no fence":
            return None
        self.claim = max(claim, self.claim)
        return self.epoch + 1

    def write(self, claim, epoch):
        """Whether an epoch became durable."""
        if claim != self.claim and self._mutant not in ("no fence", "fence only at first write"):
            return False
        self.log.append((epoch, claim))
        self.epoch = max(self.epoch, epoch)
        return True


class ModelDriver(FakeDriver):
    """A driver process: it holds a claim, may publish while its node renews it, and writes to the sink of its job."""

    def prepare(self, world):
        self.world, self.next, self.checked, self.wishes = world, None, False, []
        self.told, self.left, self.is_over = world.seconds, 10.0, False

    def renewed(self, left_ms, sent=None):
        self.told, self.left = self.world.seconds, left_ms / 1000
        return True

    def request(self, id, action, *, to="", form="canonical"):
        self.wishes.append(action)

    @property
    def standing(self):
        return standing(self.world.seconds, self.told, left=self.left, hold_after=10.0, end_after=120.0)

    @property
    def sink(self):
        return self.world.sinks[self.spec.job]


class ModelDrivers(FakeDrivers):
    def __init__(self, world):
        super().__init__()
        self.world = world

    def launch(self, spec):
        driver = ModelDriver(spec)
        driver.prepare(self.world)
        self.drivers[spec.run, spec.token] = driver

    def link(self, run, token, *, from_seq, on_report):
        driver = super().link(run, token, from_seq=from_seq, on_report=on_report)
        driver.is_connected = True
        if from_seq:
            self.world.counts["adoption"] += 1
        return driver

    def living(self):
        return [driver for driver in self.drivers.values() if driver.is_alive]


class ModelMachine:
    """A machine with its drivers, and the node process on it, if one runs."""

    def __init__(self, world, name):
        self.world, self.name, self.drivers = world, name, ModelDrivers(world)
        self.node = None

    def start(self):
        offer = Offer(id=self.name, boot=f"boot-{next(_boots)}", slots=2, labels={}, version="0")
        self.node = Node(
            self.world.metadata,
            offer,
            self.drivers,
            Places(Path("/nowhere")),
            secrets=lambda names: {},
            state_data=lambda run, token: lambda epoch: None,
            monotonic=lambda: self.world.seconds,
        )
        with contextlib.suppress(ExternalFailure):
            self.node.start()

    def hear(self):
        for driver in self.drivers.living():
            driver.last_heard = self.world.seconds


class Sweeper:
    """A dispatcher, and since when it has been able to reach the database: nobody may be declared lost before that."""

    def __init__(self, world):
        self.world = world
        self.restart()

    def restart(self):
        self.reconciler = reconcile.Reconciler(self.world.metadata, monotonic=lambda: 0.0)
        self.reached = None

    def round(self):
        if self.world.metadata.away:
            self.reached = None
        elif self.reached is None:
            self.reached = self.world.seconds
        self.reconciler.round()


class World:
    """Everything of one case."""

    def __init__(self, metadata, clock, mutant=None):
        self.metadata, self._clock, self.mutant = metadata, clock, mutant
        clock.now = NOON
        self.counts = metadata.counts
        metadata.away, metadata.lost_reply, self.crash_at = False, None, None
        self.reader = sqlite3.connect(metadata.url.path, isolation_level=None)
        self.reader.row_factory = sqlite3.Row
        for table in TABLES:
            self.reader.execute(f"DELETE FROM {table}")
        self.reader.execute("UPDATE pipeline_job_definition SET desired = 'STOPPED'")
        self.sinks = {name: FencedSink(mutant) for name in JOBS}
        self.machines = [ModelMachine(self, name) for name in ("n1", "n2")]
        self.sweepers = [Sweeper(self), Sweeper(self)]
        for module in (node, adopting, leases, claims, reconcile):
            module.failpoint = self._failpoint
        for machine in self.machines:
            machine.start()
        with acting(metadata, "ada") as act:
            self.seen = [start(act, name, StartOptions()) for name in JOBS]
        for sweeper in self.sweepers:
            sweeper.round()
        self.machines[0].node.round()

    def close(self):
        self.reader.close()

    @property
    def seconds(self):
        return (self._clock.now - NOON).total_seconds() + 1000

    def forward(self, seconds):
        self._clock.now += dt.timedelta(seconds=seconds)

    def _failpoint(self, name):
        if name == self.crash_at:
            self.crash_at = None
            raise Crashed(name)

    def select(self, statement):
        return self.reader.execute(statement).fetchall()
