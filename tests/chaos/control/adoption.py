"""`python -m tests.chaos.control.adoption`: how long runs are without a node when its process is killed and started at once.

From the kill until the new process has connected to the driver of each run; the renewal goes over the line with the hello.
"""

import argparse
import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.chaos.control.cluster import Cluster
from tests.chaos.control.jobs import jobs_of, prepared

from millstream.control.nodes.calling import ChannelCalls
from millstream.errors import MillstreamError

_LONGEST = 60.0


def percentiles(seconds):
    ordered = sorted(seconds)
    at = {
        name: ordered[min(len(ordered) - 1, int(len(ordered) * share))] for name, share in (("p50", 0.5), ("p95", 0.95))
    }
    return {name: round(value, 2) for name, value in {**at, "max": ordered[-1]}.items()}


def adopted_in(cluster, node, runs):
    """Kill the process of a node, start another at once, and wait for each driver."""
    before, calls = node.registrations(), ChannelCalls(cluster.metadata)
    killed_at, wall = time.monotonic(), time.time()
    node.kill()
    node.start()
    waiting, took = set(runs), []
    while waiting and time.monotonic() < killed_at + _LONGEST:
        for run in list(waiting):
            # The address in the row is that of the killed process until the new one has registered.
            with contextlib.suppress(MillstreamError):
                if calls._ask(calls._place(run), "live", kind="hello") is not None:
                    took.append(time.monotonic() - killed_at)
                    waiting.discard(run)
        time.sleep(0.02)
    there = [at - wall for at in node.registrations()[len(before) :]]
    return took + [_LONGEST] * len(waiting), there


def measured(folder, *, kills, jobs, burners):
    with contextlib.ExitStack() as stack:
        cluster = stack.enter_context(Cluster(folder, nodes=1, dispatchers=1))
        chosen = jobs_of(folder / "out", cluster.output.url, endless=jobs, spark=0)
        prepared(cluster.output, chosen)
        runs = [cluster.submit(job) for job in chosen]
        cluster.until(lambda: all(cluster.row(job).progress for job in chosen), 120, "every job has published")
        for _ in range(burners):
            burning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            stack.callback(lambda each=burning: (each.kill(), each.wait()))
        took, there = [], []
        for _ in range(kills):
            more, at = adopted_in(cluster, cluster.nodes[0], runs)
            took, there = took + more, there + at
            time.sleep(4)
        attempts = [cluster.row(job).attempt for job in chosen]
    figures = {"kills": kills, "drivers": jobs, "busy processes": burners, "restarts": sum(attempts) - len(attempts)}
    return {**figures, "registered": percentiles(there), "connected and renewed": percentiles(took)}


def main():
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--kills", type=int, default=20)
    asked.add_argument("--jobs", type=int, default=6)
    asked.add_argument("--burners", type=int, default=0, help="processes that only use up processors")
    chosen = asked.parse_args()
    with tempfile.TemporaryDirectory(prefix="ms-adoption-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        print(json.dumps(measured(folder, kills=chosen.kills, jobs=chosen.jobs, burners=chosen.burners)), flush=True)


if __name__ == "__main__":
    main()
