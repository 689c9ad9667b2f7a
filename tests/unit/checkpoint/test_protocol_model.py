"""Any mixture of epochs, crashes, lost replies, restarts and replays shows each epoch once, in order."""

import os
from unittest import mock

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from protocol import World

from millstream.checkpoint import failpoint
from millstream.checkpoint.manifest import manifest_name
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import ExternalFailure

PLACES = ["staged", "prepared", "durable", "sink_published", "published"]


class Protocol(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.world = World(MemoryStore())
        self.start()

    def start(self):
        self.run = self.world.coordinator()
        newest = self.run.recover()
        self.done = -1 if newest is None else newest.epoch

    def rows(self, epoch):
        return [f"{epoch}-{i}" for i in range(epoch % 3)]

    def attempt(self, epoch, armed=""):
        failpoint.reset()
        with mock.patch.dict(os.environ, {failpoint.VARIABLE: armed}):
            self.run.commit(self.world.staged(epoch, self.rows(epoch)))
        self.done = max(self.done, epoch)

    @rule()
    def epoch(self):
        self.attempt(self.done + 1)

    @precondition(lambda self: self.done >= 0)
    @rule()
    def replay(self):
        self.attempt(self.done)

    @rule(place=st.sampled_from(PLACES), nth=st.integers(1, 2), is_replay=st.booleans())
    def crash(self, place, nth, is_replay):
        """Stops at a place of the protocol, if it is passed; then a new process takes over."""
        epoch = self.done if is_replay and self.done >= 0 else self.done + 1
        try:
            self.attempt(epoch, f"{place}:{nth}:raise")
        except ExternalFailure:
            self.start()

    @rule(sink=st.sampled_from(["first", "second"]))
    def lose_a_reply(self, sink):
        self.world.sinks[sink].lose_reply = True
        try:
            self.attempt(self.done + 1)
        except ConnectionError:
            self.start()

    @rule()
    def restart(self):
        self.start()

    @invariant()
    def visible_epochs_are_a_prefix_and_whole(self):
        for name in self.world.sinks:
            visible = self.world.visible(name)
            assert list(visible) == list(range(len(visible)))
            assert all(rows == self.rows(epoch) for epoch, rows in visible.items())
            for epoch in visible:
                assert self.world.store.read(manifest_name(epoch)) is not None

    @invariant()
    def nothing_is_staged_that_nobody_will_publish(self):
        for sink in self.world.sinks.values():
            assert {epoch for epoch, _ in sink.staged} <= set(range(self.done + 1))

    def teardown(self):
        self.start()
        for name in self.world.sinks:
            assert list(self.world.visible(name)) == list(range(self.done + 1))


TestProtocol = Protocol.TestCase
TestProtocol.settings = settings(
    max_examples=60, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
)
