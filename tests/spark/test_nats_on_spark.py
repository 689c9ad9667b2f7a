"""NATS in, windows, NATS and files out, exactly once on Spark, with the process killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import uuid
from collections import Counter

import pytest
from tests.servers.nats_orders import JOB, ROWS, counted, expected

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE

pytestmark = pytest.mark.spark


def test_a_job_between_two_streams_is_killed_and_loses_and_doubles_nothing(nats_server, tmp_path):
    orders, totals = nats_server.stream(), f"totals{uuid.uuid4().hex[:12]}"
    nats_server.send(orders, [json.dumps(row).encode() for row in ROWS])
    (tmp_path / "job.py").write_text(JOB)
    for armed, code in (("sink_sent:2:kill", -signal.SIGKILL), ("", 0)):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "job.py"), str(tmp_path), nats_server.servers, orders, totals, "local[2]"],
            env={**os.environ, VARIABLE: armed},
            check=False,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, done.stderr[-3000:]
    written = ms.read_files(str(tmp_path / "all")).to_pylist()
    assert Counter(row["place"] for row in written) == Counter(range(1, len(ROWS) + 1))
    assert counted(nats_server, totals) == expected()
