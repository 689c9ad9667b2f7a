"""A driver process that runs its job on Spark: the same reports, and secrets that reach its workers inside the program alone."""

import os
import tempfile
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.control.drivers.node_side import NodeSide, spec_of

import millstream as ms
from millstream.control.metrics.exposition import RunCollector, text
from millstream.control.metrics.runs import RunFigures

pytestmark = pytest.mark.spark
CANARY = "canary-on-spark-4b1d"
JOB = """
import os
import millstream as ms
from millstream.model.secret import secret

class Signed(ms.ProcessFunction):
    def open(self, context):
        self.rows, self.newest = context.counter("rows"), context.gauge("newest")
        self.sizes = context.histogram("sizes", buckets=[10, 40])

    def process(self, row, ctx):
        self.rows.add()
        self.newest.set(row["n"])
        self.sizes.observe(row["n"])
        assert "CANARY" not in os.environ
        print("worker says", secret("CANARY"))
        yield {"n": row["n"], "length": len(secret("CANARY"))}

job = ms.Job("signed", parallelism=2, rows_per_epoch=20, epoch_interval=0)
rows = job.source("r", ms.rate(10_000, rows=60)).select(k="value % 4", n="value")
rows.key_by("k").process(Signed, schema="n long, length long").sink("out", ms.files(__OUT__, format="json"))
"""


def process_texts(session):
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                if int(fields[3]) == session:
                    yield b"".join((folder / name).read_bytes() for name in ("environ", "cmdline"))
            except OSError:
                continue


def leaks(*folders):
    """Files that hold the secret; those that vanish meanwhile are Spark's own business."""
    found = []
    for path in (path for folder in folders for path in folder.rglob("*") if path.is_file()):
        try:
            found += [path] if CANARY.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def figures_of(reports):
    """What Prometheus would read of them, by name and labels."""
    told = RunFigures("signed", 0)
    for report in reports:
        told.take(report)
    registry = CollectorRegistry()
    registry.register(RunCollector(lambda: [told]))
    families = text_string_to_metric_families(text(registry).decode())
    return {
        (
            sample.name,
            *sorted(value for name, value in sample.labels.items() if name not in ("job_name", "slot", "step")),
        ): sample.value
        for family in families
        for sample in family.samples
    }


def of_spark_move(figures):
    """The figures that only a run on Spark has."""
    heap, limit = figures["millstream_jvm_heap_bytes",], figures["millstream_jvm_heap_limit_bytes",]
    assert 1 << 20 < heap < limit
    assert figures["millstream_rocksdb_memory_bytes",] > 0
    assert figures["millstream_shuffle_bytes_total",] > 0
    assert figures["millstream_process_memory_ratio", "jvm"] > 0


def own_metrics_are_told(figures):
    assert figures["millstream_user_counter_total", "rows"] == 60
    newest = {figures.get(("millstream_user_gauge", subtask, "newest")) for subtask in "01"}
    assert max(value for value in newest if value is not None) == 59
    assert figures["millstream_user_histogram_bucket", "10", "sizes"] == 11
    assert figures["millstream_user_histogram_bucket", "40", "sizes"] == 41
    assert figures["millstream_user_histogram_sum", "sizes"] == sum(range(60))


def test_a_job_on_spark_is_reported_and_its_workers_know_the_secret(tmp_path):
    node, artifact = NodeSide(tmp_path / "node"), tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "signed.py").write_text(JOB.replace("__OUT__", repr(str(tmp_path / "node" / "out"))))
    local = tmp_path / "node" / "spark-local"
    spec = spec_of(
        tmp_path / "node",
        definition={"kind": "code", "entry": "signed.py:job"},
        code=str(artifact),
        job="signed",
        engine="spark",
        master="local[2]",
        confs={"spark.local.dir": str(local)},
        secret_names=["CANARY"],
    )
    try:
        node.start(spec, secrets={"CANARY": CANARY})
        node.until(lambda: node.of("epoch"), "the first epoch", patience=60)
        seen = list(process_texts(node.identity.pid))
        assert len(seen) > 2  # the driver, the JVM and Python workers
        found = leaks(local, tmp_path / "node", Path(tempfile.gettempdir()) / f"millstream-{os.getuid()}")
        node.until(lambda: node.link.is_over, "the end", patience=60)
        result = node.await_result()
    finally:
        node.close()
    assert (result["status"], node.states()) == ("COMPLETED", ["INITIALIZING", "RUNNING", "COMPLETED"])
    rows = ms.read_files(str(tmp_path / "node" / "out")).to_pylist()
    assert sorted(row["n"] for row in rows) == list(range(60))
    assert {row["length"] for row in rows} == {len(CANARY)}
    assert not [text for text in seen if CANARY.encode() in text]
    assert found == leaks(tmp_path / "node") == []
    figures = figures_of(node.reports)
    of_spark_move(figures)
    own_metrics_are_told(figures)
    epochs = [report.body for report in node.of("epoch")]
    staged = sum(
        epoch["load"]["vertices"]["out"]["bytes_out"] for epoch in epochs if "out" in epoch["load"]["vertices"]
    )
    assert sum(epoch["size"] for epoch in epochs) > staged, "state was written as well"
    assert "worker says ***" in (node.folder.logs / "jvm.log").read_text()


DYING = """
import os, time
import millstream as ms

class Dying(ms.ProcessFunction):
    def open(self, context):
        self.context, self.slept = context, False

    def process(self, row, ctx):
        if self.context.subtask == 1 and row["n"] < 20 and not self.slept:
            self.slept = True
            time.sleep(1 + 4 * self.context.attempt)
            if self.context.attempt == 0:
                os.kill(os.getpid(), 9)
        yield {"n": row["n"]}

job = ms.Job("dying", parallelism=2, rows_per_epoch=20, epoch_interval=0)
rows = job.source("r", ms.rate(10_000, rows=40)).select(k="value % 16", n="value")
rows.key_by("k").process(Dying, schema="n long").sink("out", ms.files(__OUT__, format="json"))
"""


def test_a_killed_worker_is_seen_while_its_epoch_goes_on(tmp_path):
    node, artifact = NodeSide(tmp_path / "node"), tmp_path / "artifact"
    artifact.mkdir()
    (artifact / "dying.py").write_text(DYING.replace("__OUT__", repr(str(tmp_path / "node" / "out"))))
    definition = {"kind": "code", "entry": "dying.py:job"}
    given = {"definition": definition, "code": str(artifact), "job": "dying", "engine": "spark", "master": "local[2]"}

    def states(subtask=1, epoch=0):
        told = node.of("subtasks")
        epochs = {each["epoch"]: each["attempts"] for each in told[-1].body["epochs"]} if told else {}
        return [(each[2], each[3]) for each in epochs.get(epoch, []) if each[:2] == [1, subtask]]

    try:
        node.start(spec_of(tmp_path / "node", **given))
        node.until(lambda: states() == [(0, "FAILED"), (1, "RUNNING")], "the second attempt", patience=60)
        assert node.of("epoch") == []
        (failed,) = [each for each in node.of("subtasks")[-1].body["epochs"][0]["attempts"] if each[3] == "FAILED"]
        assert "exited unexpectedly" in failed[5] or "crashed" in failed[5]
        node.until(lambda: node.link.is_over, "the end", patience=60)
        assert node.await_result()["status"] == "COMPLETED"
    finally:
        node.close()
    assert states() == [(0, "FAILED"), (1, "FINISHED")]
    assert sorted(row["n"] for row in ms.read_files(str(tmp_path / "node" / "out")).to_pylist()) == list(range(40))
