"""What is done to the processes of a service: a deck of faults, dealt out by a seed, several under way at once."""

import collections
import contextlib
import heapq
import itertools
import os
import random
import signal
import time

from tests.chaos.control.points import Points

from millstream.checkpoint.failpoint import VARIABLE
from millstream.errors import ExternalFailure

PAUSE_SECONDS = 18.0
"""Longer than a lease, shorter than what makes a driver count as hung."""
AWAY_SECONDS = 60.0
_ARM_SECONDS = 5.0
"""As long as points were reached too rarely, a node is killed so often, to come back armed, and a driver, to give it work."""


class ControlNemesis:
    """Deals faults until the deck is empty; `seconds` bounds the time."""

    def __init__(self, cluster, watcher, *, seed, deck, pause=PAUSE_SECONDS, away=AWAY_SECONDS, reach=0, when_up=False):
        self._cluster, self._watcher, self._random = cluster, watcher, random.Random(seed)
        self.points = Points(cluster.folder, random.Random(seed), reach=reach)
        self._deck = list(itertools.chain.from_iterable([name] * count for name, count in deck.items()))
        self._random.shuffle(self._deck)
        self._pause, self._away, self._when_up = pause, away, when_up
        self._later, self._numbers = [], itertools.count()
        self._busy, self._armed_at = set(), time.monotonic()
        self.done = collections.Counter()
        self.history = []
        """Which node was killed or started at what time: what a sweep is explained by."""
        self.troubled = []
        """When which node was paused or lost with its machine, or the database away: leases may run out then."""
        self._kinds = {
            "node kill": self._kill_node,
            "machine kill": self._kill_machine,
            "node pause": self._pause_node,
            "driver kill": self._kill_driver,
            "driver pause": self._pause_driver,
            "dispatcher kill": self._kill_dispatcher,
            "dispatcher pause": self._pause_dispatcher,
            "database kill": self._kill_database,
            "database away": self._take_database_away,
        }

    def deal(self, seconds, *, between=(0.2, 1.2), meanwhile=lambda: None):
        """Until every fault was done and is over, or the time is up; whatever is still under way then is ended."""
        end, next_at = time.monotonic() + seconds, 0.0
        while (self._deck or self._later or self.points.missing()) and time.monotonic() < end:
            self._do_later()
            self._raise_dead()
            self._arm_more()
            if self._deck and time.monotonic() >= next_at:
                self._draw()
                next_at = time.monotonic() + self._random.uniform(*between)
            with contextlib.suppress(ExternalFailure):
                meanwhile()
            time.sleep(0.05)
        self._do_later(everything=True)
        self.disarm()

    def disarm(self):
        """From now on nothing ends by itself: processes that still would are replaced."""
        for process in self._cluster.processes:
            if process.environment and process.is_running:
                process.kill()
            process.environment = {}

    def _raise_dead(self):
        """Processes that ended at one of the points come back."""
        for process in self._cluster.processes:
            if process.name not in self._busy and not process.is_running:
                self.done["killed at a point"] += 1
                self._watcher.forget(process.drivers().values())
                self._restart_in(process, self._random.uniform(0, 1))

    def _arm_more(self):
        now = time.monotonic()
        if now - self._armed_at > _ARM_SECONDS and "database" not in self._busy and self.points.of_nodes_missing():
            self._armed_at = now
            self.done["node kill to arm"] += self._kill_node(each=lambda node: node.is_up)
            self.done["driver kill to arm"] += self._kill_driver()

    def _draw(self):
        """The first of the deck that can be done now; the others wait."""
        for index, name in enumerate(self._deck[:40]):
            if "database" in self._busy and name != "dispatcher kill":
                continue
            if self._kinds[name]():
                del self._deck[index]
                self.done[name] += 1
                return

    def _in(self, seconds, act):
        heapq.heappush(self._later, (time.monotonic() + seconds, next(self._numbers), act))

    def _do_later(self, *, everything=False):
        while self._later and (everything or self._later[0][0] <= time.monotonic()):
            heapq.heappop(self._later)[2]()

    def _free(self, processes, *, fullest=False):
        free = [each for each in processes if each.name not in self._busy and each.is_running]
        if fullest:
            free.sort(key=lambda each: -len(each.drivers()))
            return free[0] if free and free[0].drivers() else None
        return self._random.choice(free) if free else None

    def _are_nodes_well(self):
        """While machines are gone somebody must be there to take over."""
        well = [node for node in self._cluster.nodes if node.name not in self._busy]
        return len(well) > len(self._cluster.nodes) // 2

    def _restart_in(self, process, seconds, then=lambda: None):
        self._busy.add(process.name)
        self.history.append((time.time(), process.name, "is gone"))

        def again():
            self._arm(process)
            process.start()
            self.history.append((time.time(), process.name, f"starts {process.environment.get(VARIABLE, '')}"))
            self._busy.discard(process.name)
            then()

        self._in(seconds, again)

    def _arm(self, process):
        is_node = process in self._cluster.nodes
        number = 0 if is_node else self._cluster.dispatchers.index(process)
        process.environment = self.points.for_node() if is_node else self.points.for_dispatcher(number)

    def _kill_node(self, each=lambda node: True):
        node = self._free([node for node in self._cluster.nodes if each(node) and (node.is_up or not self._when_up)])
        if node is None:
            return False
        runs = set(node.drivers().values())
        node.kill()
        self._watcher.forget(runs)
        adopted = self._watcher.adoptions
        self._restart_in(node, self._random.uniform(0, 1), lambda: self._watcher.await_epoch(runs, adopted))
        return True

    def _kill_machine(self):
        node = self._free(self._cluster.nodes, fullest=True) if self._are_nodes_well() else None
        if node is None:
            return False
        drivers = node.drivers()
        node.kill()
        for pid in drivers:
            _signal(pid, signal.SIGKILL)
        self._watcher.forget(drivers.values())
        self._watcher.await_epoch(drivers.values(), self._watcher.takeovers)
        self._trouble(node.name, 25)
        self._restart_in(node, 25)
        return True

    def _pause_node(self):
        node = self._free(self._cluster.nodes, fullest=True) if self._are_nodes_well() else None
        if node is None:
            return False
        runs = set(node.drivers().values())
        node.signal(signal.SIGSTOP)
        self._watcher.forget(runs)
        self._watcher.await_epoch(runs, self._watcher.takeovers)
        self._trouble(node.name, self._pause)
        self._busy.add(node.name)

        def wake():
            node.signal(signal.SIGCONT)
            self._in(3, lambda: self._busy.discard(node.name))

        self._in(self._pause, wake)
        return True

    def _a_driver(self):
        nodes = [node for node in self._cluster.nodes if node.name not in self._busy and node.is_running]
        found = [(pid, run) for node in nodes for pid, run in node.drivers().items() if pid not in self._busy]
        return self._random.choice(found) if found else (None, None)

    def _kill_driver(self):
        pid, run = self._a_driver()
        if pid is None:
            return False
        self._watcher.forget([run])
        _signal(pid, signal.SIGKILL)
        return True

    def _pause_driver(self):
        pid, run = self._a_driver()
        if pid is None:
            return False
        self._watcher.forget([run])
        _signal(pid, signal.SIGSTOP)
        self._busy.add(pid)

        def wake():
            _signal(pid, signal.SIGCONT)
            self._busy.discard(pid)

        self._in(self._pause, wake)
        return True

    def _kill_dispatcher(self):
        process = self._free(self._cluster.dispatchers)
        if process is None:
            return False
        process.kill()
        self._restart_in(process, self._random.uniform(0, 2))
        return True

    def _pause_dispatcher(self):
        process = self._free(self._cluster.dispatchers)
        if process is None:
            return False
        process.signal(signal.SIGSTOP)
        self._busy.add(process.name)

        def wake():
            process.signal(signal.SIGCONT)
            self._busy.discard(process.name)

        self._in(self._pause, wake)
        return True

    def _kill_database(self):
        self._cluster.database.kill()
        self._back_in(self._random.uniform(0, 3))
        return True

    def _take_database_away(self):
        if self._later:
            return False
        self._cluster.database.kill()
        self._back_in(self._away)
        return True

    def _back_in(self, seconds):
        self._trouble("database", seconds)
        self._watcher.forget(list(self._watcher.waiting))
        self._busy.add("database")

        def back():
            self._cluster.database.start()
            self._busy.discard("database")

        self._in(seconds, back)

    def _trouble(self, name, seconds):
        self.troubled.append((time.time(), time.time() + seconds + 25, name))


def _signal(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)
