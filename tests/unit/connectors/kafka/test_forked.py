"""A child of a process that has read and written topics: it has clients of its own, and ends."""

import subprocess
import sys

_PROGRAM = """
import os, sys, time
from millstream.connectors.kafka import direct, fetching
from millstream.connectors.kafka.positions import KafkaPartition
options = {"servers": "127.0.0.1:1", "client": {}, "isolation": "read_committed"}
config, place = {"bootstrap.servers": "127.0.0.1:1"}, KafkaPartition("t", 0)
reader = fetching.take(options, place, 0, step="s")
fetching.park(options, reader, step="s")
connection = direct._parked.take(config, "s")
direct._parked.park(config, connection)
mine = [id(reader._consumer), id(connection.producer)]
del reader, connection
child = os.fork()
if not child:
    reader, connection = fetching.take(options, place, 0, step="s"), direct._parked.take(config, "s")
    taken = [id(reader._consumer), id(connection.producer)]
    print("strangers", set(taken).isdisjoint(mine), flush=True)
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


def test_a_child_takes_no_client_of_its_parent_and_ends():
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines() == ["strangers True", "ended 0"], done.stderr
