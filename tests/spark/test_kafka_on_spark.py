"""Kafka in, windows, Kafka and files out, exactly once on Spark, with the process killed in the middle."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE

pytestmark = [pytest.mark.spark, pytest.mark.kafka]

JOB = """
import sys
import millstream as ms

folder, servers, orders, totals = sys.argv[1:5]
job = ms.Job("kafka-totals", rows_per_epoch=600, parallelism=2)
rows = job.source(
    "orders",
    ms.kafka(orders, servers=servers, start="earliest", until="latest", metadata={"place": "offset", "part": "partition"}),
    schema="user string, amount long, at long, place long, part int",
)
rows.sink("all", ms.files(folder + "/all", format="parquet"))
windows = rows.event_time("at", max_delay="5s").key_by("user").window(ms.tumbling("10s"))
counted = windows.aggregate(total=ms.sum("amount"), n=ms.count(), id="totals")
counted.sink("totals", ms.kafka(totals, servers=servers, key_fields=["user"]))
if __name__ == "__main__":
    job.run(checkpoint=folder + "/checkpoint", master="local[2]")
"""


def test_a_job_between_two_topics_is_killed_and_loses_and_doubles_nothing(kafka, tmp_path):
    orders, totals = kafka.topic(3, name="orders"), kafka.topic(2, name="totals")
    rows = [{"user": f"u{n % 7}", "amount": n % 50, "at": n * 100} for n in range(2400)]
    for part in range(3):
        kafka.send(orders, [json.dumps(row).encode() for row in rows[part::3]], partition=part)
    script = tmp_path / "job.py"
    script.write_text(JOB)
    for armed, code in (("prepared:2:kill", -signal.SIGKILL), ("durable:2:kill", -signal.SIGKILL), ("", 0)):
        done = subprocess.run(
            [sys.executable, str(script), str(tmp_path), kafka.servers, orders, totals],
            env={**os.environ, VARIABLE: armed},
            check=False,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == code, done.stderr[-3000:]
    written = ms.read_files(str(tmp_path / "all")).to_pylist()
    assert Counter((row["part"], row["place"]) for row in written) == Counter(
        (part, place) for part in range(3) for place in range(800)
    )
    assert Counter((row["user"], row["amount"], row["at"]) for row in written) == Counter(
        (row["user"], row["amount"], row["at"]) for row in rows
    )
    expected = {}
    for row in rows:
        total, count = expected.get((row["user"], row["at"] // 10_000), (0, 0))
        expected[row["user"], row["at"] // 10_000] = (total + row["amount"], count + 1)
    sent = [json.loads(message.value()) for message in kafka.read(totals)]
    assert Counter((row["user"], row["total"], row["n"]) for row in sent) == Counter(
        (user, total, count) for (user, _), (total, count) in expected.items()
    )
    assert {message.key() for message in kafka.read(totals)} == {f"u{n}".encode() for n in range(7)}
