"""Any order of turns, crashes, edits, pauses and clocks that jump: what the tables hold is what plain Python expects.

Servers share one SQLite file; a crash undoes a turn at a random fire. The plain model knows only minutes and matching.
"""

import os
import tempfile
from collections import Counter

from cron_oracle import expected_fires
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from schedule_world import SECOND, World, utc

from millstream.control.lifecycle.states import OPEN, Status
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.schedule.firing import RunActs
from millstream.control.schedule.loop import tick
from millstream.control.schedule.store import pause_schedule, resume_schedule
from millstream.errors import ExternalFailure

RUNS = int(os.environ.get("MILLSTREAM_SCHEDULE_MODEL_RUNS", "40"))
STARTS = [
    ("Europe/Berlin", "2026-10-25T00:20"),
    ("America/New_York", "2026-03-08T06:20"),
    ("Australia/Lord_Howe", "2026-04-04T14:20"),
]
EXPRESSIONS = st.sampled_from(["* * * * *", "*/5 * * * *", "30 * * * *", "30 2 * * *", "*/10 1-3 * * *", "45 1 * * *"])
POLICIES = st.sampled_from(["skip", "queue(2)", "cancel_running", "allow(3)"])
MISFIRES = st.sampled_from(["skip", "one", "all"])
reached = Counter()


class Model:
    """What a job's schedule must have decided: every fire behind `since` once, up to the latest turn."""

    def __init__(self):
        self.decided = []
        self.since = None
        self.kind = None
        self.is_on = False


class Schedules(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        url = f"sqlite:///{self.folder.name}/metadata.db"
        self.servers = [World(Metadata(url)) for _ in range(2)]
        migrate.upgrade(self.servers[0].metadata)
        self.world = self.servers[0]
        self.jobs = [self.world.job(name) for name in "ab"]
        self.models = {job: Model() for job in self.jobs}
        self.now = utc("2026-10-25T00:20")

    def teardown(self):
        for server in self.servers:
            server.metadata.close()
        self.folder.cleanup()

    @initialize(place=st.sampled_from(STARTS), data=st.data())
    def begin(self, place, data):
        self.now = utc(place[1]) + 13 * SECOND
        for which in (0, 1):
            self.save(which, place, data.draw(EXPRESSIONS), data.draw(POLICIES), data.draw(MISFIRES))

    @rule(seconds=st.integers(1, 40 * 60))
    def back(self, seconds):
        reached["clock back"] += any(model.decided for model in self.models.values())
        self.now -= seconds * SECOND

    @rule(
        which=st.integers(0, 1),
        place=st.sampled_from(STARTS),
        expression=EXPRESSIONS,
        policy=POLICIES,
        misfire=MISFIRES,
    )
    def save(self, which, place, expression, policy, misfire):
        job, zone = self.jobs[which], place[0]
        model = self.models[job]
        reached["edit"] += model.kind is not None
        more = {"time_zone": zone, "concurrency": policy, "misfire": misfire, "grace": "10m"}
        saved = self.world.cron(job, expression, now=self.now, **more)
        assert saved.next_time is None or saved.next_time > self.now, "never at once"
        model.is_on = saved.enabled
        model.kind, model.since = (expression, zone), max([self.now, *model.decided[-1:]])

    @rule(which=st.integers(0, 1), is_pause=st.booleans())
    def switch(self, which, is_pause):
        job = self.jobs[which]
        model = self.models[job]
        with self.world.metadata.begin() as connection:
            if is_pause:
                pause_schedule(connection, job)
            else:
                resume_schedule(connection, job, now=self.now)
        if not is_pause and not model.is_on:
            reached["resumed"] += 1
            model.since = max(model.since, self.now)
        model.is_on = not is_pause

    @rule(server=st.integers(0, 1), seconds=st.integers(60, 1200))
    def turn_later(self, server, seconds):
        self.turn(server, seconds)

    @rule(server=st.integers(0, 1), seconds=st.integers(-5, 120))
    def turn(self, server, seconds):
        world = self.servers[server]
        self.now += seconds * SECOND
        results = world.tick(self.now)
        reached["skipped"] += any(result == "SKIPPED" for _, _, result in results)
        self._expect()

    @rule(server=st.integers(0, 1), at=st.integers(1, 2), seconds=st.integers(1, 600))
    def crash(self, server, at, seconds):
        """The server dies at its n-th start: the transaction it was in never was."""
        world, starts = self.servers[server], []
        self.now += seconds * SECOND

        def start(connection, job_id, **more):
            starts.append(job_id)
            run = world.start_run(connection, job_id, **more)
            if len(starts) == at:
                raise ExternalFailure("gone", code="CTL-002")
            return run

        try:
            tick(world.metadata, self.now, RunActs(start, world.cancel_run))
        except ExternalFailure:
            reached["crash"] += 1
            return
        self._expect()

    @rule(data=st.data())
    def end_run(self, data):
        running = [run for run in self.world.runs() if run["status"] in OPEN]
        if running:
            run = data.draw(st.sampled_from(running))
            self.world.end(run["execution_id"], self.now, Status.COMPLETED)

    def _expect(self):
        for model in self.models.values():
            if model.is_on and model.kind is not None and self.now > model.since:
                fires = expected_fires(*model.kind, model.since, self.now)
                model.decided += fires
                model.since = max([model.since, *fires[-1:]])

    @invariant()
    def every_fire_is_decided_once(self):
        for job, model in self.models.items():
            fires = self.world.fires(job)
            assert sorted(row["fire_time"] for row in fires) == sorted(model.decided)

    @invariant()
    def every_run_has_its_fire(self):
        for job in self.jobs:
            fired = {row["execution_id"] for row in self.world.fires(job) if row["result"] == "FIRED"}
            runs = self.world.runs(job)
            assert fired == {run["execution_id"] for run in runs}
            open_slots = [run["slot_no"] for run in runs if run["status"] in OPEN]
            assert len(open_slots) == len(set(open_slots))
            reached["queued"] += any(row["result"] == "QUEUED" for row in self.world.fires(job))


def test_the_tables_hold_what_plain_python_expects():
    reached.clear()
    chosen = settings(
        max_examples=RUNS,
        stateful_step_count=25,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(Schedules, settings=chosen)
    wanted = {"clock back", "edit", "resumed", "skipped", "crash", "queued"}
    assert {name for name, count in reached.items() if count} >= wanted, reached
