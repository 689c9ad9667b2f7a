"""The ten steps between a node that starts and a run that is swept, and the processes that are killed right behind them."""

import collections

from millstream.checkpoint.failpoint import LOG, VARIABLE

POINTS = {
    "N1 node registered": "node_registered",
    "N2 driver adopted": "node_adopted",
    "N3 leases renewed": "node_renewed",
    "N4 run claimed": "node_claimed",
    "N5 folder prepared": "driver_prepared",
    "N6 driver launched": "node_launched",
    "N7 driver owns its checkpoint": "leased",
    "N8 reports written": "node_reported",
    "N9 result on the disk": "driver_ended",
    "N10 run swept": "reap",
}
_OF_NODES = ("node_registered", "node_adopted", "node_renewed", "node_claimed", "driver_prepared", "node_launched",
             "node_reported")  # fmt: skip


class Points:
    """Which process is to end where; what was reached stands in a file that all processes write to."""

    def __init__(self, folder, random, *, reach):
        self._log, self._random, self._reach = folder / "failpoints", random, reach

    def hits(self):
        """How often a process was killed at each point."""
        lines = self._log.read_text().split() if self._log.exists() else []
        names = collections.Counter(line.partition(":")[0] for line in lines)
        return {point: names[name] for point, name in POINTS.items()}

    def missing(self):
        """Names of those that were not reached often enough, the rarest first."""
        hits = self.hits()
        short = [point for point in POINTS if hits[point] < self._reach]
        return [POINTS[point] for point in sorted(short, key=lambda point: hits[point])]

    def of_nodes_missing(self):
        """Whether nodes have to be killed more often for it."""
        return any(name in _OF_NODES or name == "leased" for name in self.missing())

    def for_node(self):
        """The environment of a node process: one point of its own; its drivers inherit those of theirs."""
        missing, armed = self.missing(), []
        mine = [name for name in missing if name in _OF_NODES][:4]
        self._random.shuffle(mine)
        armed += [f"{name}:1:kill" for name in mine[:2]]
        if "driver_ended" in missing:
            armed.append("driver_ended:1:kill")
        if "leased" in missing and self._random.random() < 0.2:
            armed.append("leased:1:kill")
        return self._environment(armed)

    def for_dispatcher(self, number):
        """Of a dispatcher: one of them, for one that begins needs the time of a lease before it sweeps anybody."""
        return self._environment(["reap:1:kill"] if number == 0 and "reap" in self.missing() else [])

    def _environment(self, armed):
        return {VARIABLE: ",".join(armed), LOG: str(self._log)} if armed else {}
