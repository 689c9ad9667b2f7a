"""Every example runs and prints what it says it prints."""

import ast
import random
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import millstream as ms

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTING = sorted(path for path in EXAMPLES.glob("*.py") if "\nOutput:\n" in path.read_text())
OTHERS = {"demo.py", "kafka_demo.py", "kafka_job.py", "make_orders.py", "orders.py", "recovery.py", "recovery_job.py"}
OTHERS |= {"serve.py", "demo_shop.py"}  # tests/unit/cli/test_serve_example.py


def promised(path):
    """The block behind `Output:` in the docstring."""
    _, _, text = (ast.get_docstring(ast.parse(path.read_text()), clean=False) or "").partition("Output:\n\n")
    return "".join(line.removeprefix("    ") + "\n" for line in text.rstrip().splitlines())


def job_of(path):
    return runpy.run_path(str(path), run_name="example")["job"]


@pytest.mark.parametrize("path", PRINTING, ids=lambda path: path.stem)
def test_an_example_prints_its_output(path, capsys):
    job_of(path).run(local=True)
    assert capsys.readouterr().out == promised(path)


def test_every_example_is_run_by_a_test():
    assert {path.name for path in EXAMPLES.glob("*.py")} - {path.name for path in PRINTING} == OTHERS


def test_the_yaml_example_prints_its_output(capsys):
    path = EXAMPLES / "orders.yaml"
    _, _, text = path.read_text().partition("# Output:\n#\n")
    ms.load_job(path).run(local=True)
    assert capsys.readouterr().out == "".join(line.removeprefix("#   ") + "\n" for line in text.splitlines())


@pytest.fixture
def demo(tmp_path, monkeypatch):
    """The demo's functions over a small input of their own."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    monkeypatch.setenv("ORDERS_DATA", str(tmp_path))
    found = __import__("demo")
    monkeypatch.setattr(found, "DATA", tmp_path)
    assert found.write_orders(tmp_path / "orders", rows=45_000) == 45_002
    return found


def test_the_orders_job_equals_plain_python(demo, tmp_path):
    job_of(EXAMPLES / "orders.py").run(local=True, checkpoint=tmp_path / "checkpoint")
    expected = demo.recomputed_totals()
    assert len(expected) > 300
    assert demo.written_totals() == expected
    assert demo.report_check(expected, demo.written_totals())
    rows = ms.read_files(tmp_path / "totals").to_pylist()
    shown = [f"{r['total']} {r['n']} {r['last_region']}" for r in rows if r["customer"] == "c7"][1]
    assert shown in " ".join((EXAMPLES / "orders.py").read_text().split())
    assert ms.read_files(tmp_path / "dead").num_rows == 2
    assert ms.read_files(tmp_path / "late").num_rows == 0


def figures_of(text):
    """Epochs decided and visible after the kill, and after the job was resumed."""
    killed = re.search(r"Epochs decided: (\d+)\. Epochs visible in the output: (\d+)\.", text)
    resumed = re.search(r"finished in \d+ s: (\d+) epochs decided, (\d+) visible\.", text)
    assert killed, text
    assert resumed, text
    return tuple(map(int, killed.groups())), tuple(map(int, resumed.groups()))


def test_the_demo_tells_true_figures(demo, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    local = [sys.executable, "-m", "millstream.cli.main", "run", str(EXAMPLES / "orders.py"), "--local", "-o", "quiet"]
    monkeypatch.setattr(demo, "JOB", [*local, "--checkpoint", str(tmp_path / "data" / "checkpoint")])
    monkeypatch.setattr(demo, "DATA", tmp_path / "data")
    monkeypatch.setenv("ORDERS_DATA", str(tmp_path / "data"))
    assert demo.main() == 0
    text = capsys.readouterr().out
    # Epoch 1 was decided and not yet shown when the job was killed; nobody disturbed the other run.
    monkeypatch.setenv("ORDERS_DATA", str(tmp_path / "alone"))
    demo.write_orders(tmp_path / "alone" / "orders")
    undisturbed = job_of(EXAMPLES / "orders.py").run(local=True).epochs
    assert figures_of(text) == ((2, 1), (undisturbed, undisturbed))
    assert "nothing lost, nothing doubled" in " ".join(text.split())


def test_the_demo_notices_a_lost_window(demo, tmp_path):
    job_of(EXAMPLES / "orders.py").run(local=True, checkpoint=tmp_path / "checkpoint")
    found = demo.written_totals()
    found.pop(next(iter(found)))
    assert not demo.report_check(found, demo.recomputed_totals())


@pytest.fixture
def recovery(tmp_path, monkeypatch):
    """The recovery demo's functions over a small input of their own."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = __import__("recovery")
    monkeypatch.setattr(found, "ROWS", 6_000)
    monkeypatch.setattr(found, "DATA", tmp_path)
    return found


def test_the_recovery_demo_finds_its_job_right(recovery, postgres, tmp_path):
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    rows = recovery.write_rows(tmp_path / "in", 7)
    build = __import__("recovery_job").build
    build(str(tmp_path), postgres.url).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert len(rows) == 6_000
    assert recovery.check(postgres.url, rows)
    assert recovery.published(postgres.url) == recovery.durable() + 1
    assert not recovery.check(postgres.url, rows[:-1])


@pytest.mark.spark
def test_an_example_prints_the_same_on_spark(spark, capsys):
    path = EXAMPLES / "inactivity.py"
    job_of(path).run()
    assert capsys.readouterr().out == promised(path)


@pytest.mark.spark
def test_the_demo_runs_on_spark(tmp_path):
    command = [sys.executable, str(EXAMPLES / "demo.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout + done.stderr
    (decided, seen), (all_decided, all_seen) = figures_of(done.stdout)
    assert (decided, seen) == (2, 1)
    assert all_decided == all_seen > 2
    assert "nothing lost, nothing doubled" in " ".join(done.stdout.split())


@pytest.fixture
def kafka_demo(tmp_path, monkeypatch):
    """The Kafka demo's functions over topics of their own."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    found = __import__("kafka_demo")
    monkeypatch.setattr(found, "DATA", tmp_path)
    monkeypatch.setattr(found, "ORDERS", 6_000)
    return found


@pytest.mark.kafka
def test_the_kafka_demo_finds_its_job_right(kafka_demo, postgres, tmp_path):
    from tests.servers.kafka import KafkaServer

    broker = KafkaServer().start()
    try:
        orders = kafka_demo.produce(broker, random.Random(7))
        build = __import__("kafka_job").build
        build(broker.servers, postgres.url).run(local=True, checkpoint=str(tmp_path / "checkpoint"))
        assert kafka_demo.check(broker, postgres.url, orders)
        assert kafka_demo.count(postgres.url, "paid") == 6_000
        assert not kafka_demo.check(broker, postgres.url, orders[:-1])
    finally:
        broker.stop()
