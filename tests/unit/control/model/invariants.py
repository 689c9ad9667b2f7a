"""What must hold after every step of the model, and after everything is well again."""

import datetime as dt

from tests.unit.control.model.rules import _part

from millstream.control.lifecycle.states import FINAL, OPEN, OWNED, Status, is_legal
from millstream.control.nodes.claims import TERM


class Invariants:
    """Remembers what was seen in one case."""

    def __init__(self, world):
        self._world, self._last_event = world, 0
        self._leases, self._runs, self._owners, self._states = {}, {}, {}, {}

    def check(self):
        world = self._world
        rows = world.select("SELECT * FROM pipeline_job_execution")
        for row in world.select("SELECT name, token FROM lease"):
            assert row["token"] >= self._leases.get(row["name"], 0), f"the token of {row['name']} fell"
            self._leases[row["name"]] = row["token"]
        for row in rows:
            self._one(row)
        slots = [(row["job_id"], row["slot_no"]) for row in rows if row["status"] in OPEN]
        assert len(slots) == len(set(slots)), f"two open runs of one job: {slots}"
        self._events()
        for name, sink in world.sinks.items():
            epochs = [epoch for epoch, _ in sink.log]
            assert epochs == list(range(1, len(epochs) + 1)), f"epochs of {name}: {epochs}"
            claims = [claim for _, claim in sink.log]
            assert claims == sorted(claims), f"a late owner published: {claims}"

    def _one(self, row):
        status, token, wanted = self._runs.get(row["execution_id"], (None, 0, None))
        assert row["token"] >= token, "the token of a run fell"
        assert status not in FINAL or row["status"] == status, f"{status} became {row['status']}"
        if wanted == "cancel":
            assert row["token"] == token, "a cancelled run was claimed again"
        self._runs[row["execution_id"]] = (row["status"], row["token"], row["wanted"])

    def _events(self):
        found = self._world.select(f"SELECT * FROM run_event WHERE id > {self._last_event} ORDER BY id")
        for each in found:
            self._last_event = each["id"]
            if each["to_status"] is not None:
                before = self._states.get(each["execution_id"])
                assert each["from_status"] == before, f"moved from {each['from_status']}, but was {before}"
                if before is not None:
                    assert is_legal(Status(before), Status(each["to_status"])), f"{before} to {each['to_status']}"
                self._states[each["execution_id"]] = each["to_status"]
            if each["cause"].startswith("claimed by node"):
                self._claimed(each)
            if "fell silent" in each["cause"]:
                self._reaped()

    def _claimed(self, event):
        job = self._world.select(
            f"SELECT job_id FROM pipeline_job_execution WHERE execution_id = '{event['execution_id']}'"
        )
        key = (job[0]["job_id"], event["token"])
        assert key not in self._owners, f"two owners under token {key}"
        others = {owner for (job_id, _), owner in self._owners.items() if job_id == key[0]}
        if others - {event["actor"]}:
            self._world.counts["take-over"] += 1
        self._owners[key] = event["actor"]

    def _reaped(self):
        """Whoever sweeps must have been able to hear owners for a whole term."""
        self._world.counts["reaped"] += 1
        heard = [self._world.seconds - each.reached for each in self._world.sweepers if each.reached is not None]
        assert max(heard, default=0) >= TERM.total_seconds(), "an owner was swept that had no time to come back"

    def check_healed(self):
        """Everything works again: after a while every open run has an owner that lives, or a time at which it starts."""
        world = self._world
        world.metadata.away, world.metadata.lost_reply = False, None
        for machine in world.machines:
            if machine.node is None:
                machine.start()
            world.reader.execute("UPDATE node SET state = 'ACTIVE'")
        for _ in range(14):
            world.forward(4)
            for sweeper in world.sweepers:
                sweeper.round()
            for machine in world.machines:
                _part(world, machine, machine.node.round)
            self.check()
        for row in world.select("SELECT * FROM pipeline_job_execution"):
            if row["status"] in OPEN and not self._is_looked_after(row):
                raise AssertionError(f"nobody looks after a run that is {row['status']} of {row['node_id']}")

    def _is_looked_after(self, row):
        world = self._world
        if row["status"] not in OWNED:
            at = dt.datetime.fromisoformat(row["not_before"]).replace(tzinfo=dt.UTC)
            return at > world._clock.now or world.full()
        owner = next(machine for machine in world.machines if machine.name == row["node_id"])
        owned = owner.node.runs().get(row["execution_id"])
        return owned is not None and owned.token == row["token"] and owner.drivers.is_alive(owned.id, owned.token)
