"""Every example runs and prints what it says it prints."""

import ast
import runpy
from pathlib import Path

import pytest

import millstream as ms

EXAMPLES = Path(__file__).parents[2] / "examples"
PRINTING = sorted(path for path in EXAMPLES.glob("*.py") if "\nOutput:\n" in path.read_text())
OTHERS = {"demo.py", "make_orders.py", "orders.py", "recovery.py", "recovery_job.py"}


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
