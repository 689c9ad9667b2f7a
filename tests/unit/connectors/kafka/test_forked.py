"""A child of a process that has read and written topics: it finds none of its parent's clients, and ends."""

import subprocess
import sys

_PROGRAM = """
import os, sys, time
from millstream.connectors.kafka import direct, fetching
from millstream.connectors.kafka.positions import KafkaPartition
options = {"servers": "127.0.0.1:1", "client": {}, "isolation": "read_committed", "poll_messages": 20_000}
config, place = {"bootstrap.servers": "127.0.0.1:1"}, KafkaPartition("t", 0)
reader = fetching.take(options, place, 0, step="s")
fetching.park(options, reader, step="s")
connection = direct._parked.take(config, "s")
direct._parked.park(config, connection)
assert fetching._parked and direct._parked._waiting
del reader, connection
child = os.fork()
if not child:
    # It opens none itself: the client library makes no promise to a child whose parent has threads of it.
    print("none", not fetching._parked and not direct._parked._waiting, flush=True)
    sys.exit(0)
for _ in range(200):
    ended, status = os.waitpid(child, os.WNOHANG)
    if ended:
        print("ended", status)
        break
    time.sleep(0.05)
else:
    os.kill(child, 9)
    print("hangs")
"""


def test_a_child_has_no_client_of_its_parent_and_ends():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["none True", "ended 0"], done.stderr
