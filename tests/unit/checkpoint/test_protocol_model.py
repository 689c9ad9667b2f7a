"""Any mixture of owners, crashes, pauses, lost replies, repeats and restores shows each epoch once, in order.

The coordinator, the head and the participants are the real ones; every owner runs in a process that can be stopped or ended
before and after each thing it does outside. A failing run prints how to repeat it.
"""

import os
from collections import Counter

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from protocol import Owner, World, stop_at_failpoints
from stepping import Process

from millstream.errors import CheckpointRefused, ExternalFailure, Fenced

RUNS = int(os.environ.get("MILLSTREAM_MODEL_RUNS", "2000"))
STEPS = 16
FAULTS = [f"{when}{what}" for what in ("create", "swap", "publish") for when in ("", "before ")]
FAULTS += ["before acknowledge", "recover", "delete"]

HOW_FAR = st.integers(0, 29).map(lambda places: None if places > 22 else places)
"""Places a process passes before it is stopped; all of them for `None`."""
WHICH = st.integers(0, 5)
seen = Counter()

SOMETIMES = {
    "runs",
    "fenced by a sink",
    "fenced by the head",
    "published twice",
    "orphan dropped",
    "undecided manifest removed",
    "replay adopted",
    "same reports twice",
    "killed",
    "resumed after another took over",
    "restored",
    "newer output refused",
    *(f"failed: {fault}" for fault in FAULTS),
}


class Protocol(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        seen["runs"] += 1
        self.world = World()
        self.idle, self.parked = [], []
        """Owners that wait for work, and pairs of an owner and what it was stopped in."""
        self.savepoints = []
        self.is_oracle_whole = True

    # What happens to owners.

    def go(self, owner, process, places):
        """Let a process move; the owner goes on when it ends well."""
        if process.advance(places):
            self.ended(owner, process)
        else:
            self.parked.append((owner, process))

    def ended(self, owner, process):
        problem, is_newest = process.error, owner.token == self.world.tokens
        if problem is None:
            self.idle.append(owner)
        elif isinstance(problem, Fenced):
            seen["fenced by the head"] += "checkpoint" in problem.message
            assert not is_newest, f"the newest owner was fenced: {problem}"
        elif isinstance(problem, CheckpointRefused):
            seen["newer output refused"] += problem.code == "SINK-003"
            assert problem.code == "SINK-003" or not is_newest, f"a sound checkpoint was refused: {problem}"
        elif not isinstance(problem, ExternalFailure):
            raise problem
        elif owner.coordinator is not None and problem.code == "TEST-LOST":
            self.idle.append(owner)  # tries again in the same process

    def take(self, owners, which):
        return owners.pop(which % len(owners))

    @rule(places=HOW_FAR, is_watchful=st.booleans(), retained=st.sampled_from([1, 2, 50]))
    def start(self, places, is_watchful, retained):
        self.begin(Owner(self.world, is_watchful=is_watchful, retained=retained), places)

    def begin(self, owner, places):
        self.go(owner, Process(owner.start), places)

    @precondition(lambda self: self.idle)
    @rule(which=WHICH, places=HOW_FAR, fault=st.sampled_from([None, *FAULTS]))
    def step(self, which, places, fault):
        self.world.faults = [fault]
        owner = self.take(self.idle, which)
        self.go(owner, Process(owner.epoch), places)

    @precondition(lambda self: self.idle)
    @rule(which=WHICH)
    def several_steps(self, which):
        owner = self.take(self.idle, which)
        self.go(owner, Process(lambda: [owner.epoch() for _ in range(3)]), None)

    @precondition(lambda self: self.idle)
    @rule(which=WHICH, places=HOW_FAR)
    def replay(self, which, places):
        owner = self.take(self.idle, which)
        number = max(0, owner.durable)
        seen["replay adopted"] += owner.durable >= 0
        self.go(owner, Process(lambda: owner.epoch(number)), places)

    @precondition(lambda self: any(owner.last_staged for owner in self.idle))
    @rule(which=WHICH, places=HOW_FAR)
    def repeat(self, which, places):
        owner = self.take([owner for owner in self.idle if owner.last_staged], which)
        if owner.last_staged.epoch >= owner.durable:
            self.idle.remove(owner)
            seen["same reports twice"] += 1
            self.go(owner, Process(owner.repeat), places)

    @precondition(lambda self: self.parked)
    @rule(which=WHICH, places=HOW_FAR)
    def resume(self, which, places):
        owner, process = self.take(self.parked, which)
        seen["resumed after another took over"] += owner.token < self.world.tokens
        self.go(owner, process, places)

    @precondition(lambda self: self.parked)
    @rule(which=WHICH, epochs=st.integers(0, 2), places=HOW_FAR)
    def overtake(self, which, epochs, places):
        """While one is stopped, another takes over and works on; then the first goes on where it was."""
        owner, process = self.take(self.parked, which)
        other = Owner(self.world)

        def work():
            other.start()
            for _ in range(epochs):
                other.epoch()

        self.go(other, Process(work), None)
        seen["resumed after another took over"] += 1
        self.go(owner, process, places)

    @precondition(lambda self: self.parked)
    @rule(which=WHICH)
    def kill(self, which):
        _, process = self.take(self.parked, which)
        seen["killed"] += 1
        process.kill()

    @precondition(lambda self: self.idle)
    @rule(which=WHICH)
    def kill_idle(self, which):
        self.take(self.idle, which)

    # What happens outside.

    @rule(fault=st.sampled_from(FAULTS), places=HOW_FAR)
    def start_with_a_fault(self, fault, places):
        self.world.faults = [fault]
        self.begin(Owner(self.world), places)

    @rule()
    def take_savepoint(self):
        found = self.world.savepoint()
        if found is not None:
            self.savepoints.append(found)

    @precondition(lambda self: self.idle)
    @rule(which=WHICH, newer=st.sampled_from(["truncate", "refuse"]), places=HOW_FAR)
    def roll_back(self, which, newer, places):
        """A savepoint, some epochs more, and back to it."""
        self.take_savepoint()
        self.several_steps(which)
        if self.savepoints:
            self.restore(-1, newer, places)

    @precondition(lambda self: self.savepoints)
    @rule(which=WHICH, newer=st.sampled_from(["truncate", "truncate", "keep", "refuse"]), places=HOW_FAR)
    def restore(self, which, newer, places):
        savepoint = self.savepoints[which % len(self.savepoints)]
        if newer == "keep":
            self.is_oracle_whole = False
        # A restore ends the savepoints behind it: their output is gone, or was left on purpose.
        self.savepoints = [each for each in self.savepoints if each.position <= savepoint.position]
        seen["restored"] += 1
        self.begin(Owner(self.world, savepoint=savepoint, newer=newer), places)

    def heal(self):
        self.world.faults.clear()
        while self.parked:
            owner, process = self.parked.pop()
            self.go(owner, process, None)
        self.idle.clear()
        before = self.world.store.names("manifests/")
        self.idle.append(self.world.heal())
        seen["undecided manifest removed"] += len(set(before) - set(self.world.store.names("manifests/")))

    # What always holds.

    @invariant()
    def everything_is_shown_once(self):
        self.world.check()

    def teardown(self):
        try:
            self.heal()
            if self.is_oracle_whole:
                self.world.check_rows_are_the_oracle()
        finally:
            for _, process in self.parked:
                process.kill()
            seen.update({event: count for event, count in self.world.events.items() if event in SOMETIMES})


def test_protocol_model(monkeypatch, capsys):
    stop_at_failpoints(monkeypatch)
    seen.clear()
    run_state_machine_as_test(
        Protocol,
        settings=settings(
            max_examples=RUNS,
            stateful_step_count=STEPS,
            deadline=None,
            database=None,
            print_blob=True,
            phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        ),
    )
    with capsys.disabled():
        print(f"\nprotocol model: {seen['runs']} runs of up to {STEPS} steps; {dict(sorted(seen.items()))}")
    assert seen["runs"] >= RUNS
    assert sorted(event for event in SOMETIMES if not seen[event]) == []
