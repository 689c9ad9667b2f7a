"""The table of exit codes, each with a command that ends in it."""

import re
from pathlib import Path

import pytest
from tests.servers.postgres import free_port

from millstream import errors
from millstream.checkpoint.stores import postgres as store
from millstream.cli import failure
from millstream.cli.failure import exit_code
from millstream.connectors.jdbc import database

REFERENCE = Path(__file__).parents[3] / "docs" / "reference"


@pytest.fixture
def away(monkeypatch):
    """A PostgreSQL that is not there, and nobody who waits long for it."""
    monkeypatch.setattr(database, "PATIENCE", 0.2)
    monkeypatch.setattr(store, "PATIENCE_SECONDS", 0.2)
    return f"postgresql://me@127.0.0.1:{free_port()}/shop"


def test_a_database_that_is_away_is_4(cli, job_file, away):
    sink = f'ms.jdbc("{away}", table="totals")'
    job_file.write_text(job_file.read_text().replace('ms.collect("cli-orders")', sink))
    result = cli("run", job_file, "--local")
    assert (result.exit_code, "JDBC-002" in result.stderr) == (4, True), result.stderr


def test_a_store_that_is_away_is_4(cli, job_file, tmp_path, away):
    (tmp_path / "c").mkdir()
    for command in (["run", job_file, "--local", "--checkpoint"], ["cancel"], ["doctor"], ["savepoint", "create"]):
        result = cli(*command, tmp_path / "c", "--manifests", away)
        assert (result.exit_code, "CKPT-032" in result.stderr) == (4, True), (command, result.output)


def test_a_full_disk_is_4(cli, job_file, tmp_path, failpoints):
    failpoints("prepared:1:enospc")
    result = cli("run", job_file, "--local", "--checkpoint", tmp_path / "c")
    assert (result.exit_code, "RUN-014" in result.stderr) == (4, True), result.stderr


def test_a_mistake_of_ours_is_70(cli, job_file, monkeypatch):
    def broken(*_):
        raise KeyError("nothing of the user's")

    monkeypatch.setattr("millstream.local.run.run_source_task", broken)
    result = cli("run", job_file, "--local")
    assert result.exit_code == 70
    assert "mistake of millstream's own" in result.stderr


def test_a_failing_function_is_1(cli, job_file):
    job_file.write_text(job_file.read_text().replace('"amount > 0"', 'lambda row: row["amout"] > 0'))
    assert cli("run", job_file, "--local").exit_code == 1


def test_usage_is_2_and_a_bad_job_3(cli, job_file, tmp_path):
    assert cli("run", tmp_path / "none.py").exit_code == 2
    assert cli("run", job_file, "--on-stop", "explode").exit_code == 2
    job_file.write_text(job_file.read_text().replace("amount > 0", "amout > 0"))
    assert cli("run", job_file, "--local").exit_code == 3


def test_conflicts_are_5(cli, ticks, ticks_file, tmp_path):
    ticks()
    second = cli("run", ticks_file(), "--local", "--checkpoint", tmp_path / "checkpoint")
    assert (second.exit_code, "CKPT-021" in second.stderr) == (5, True)


def test_the_answer_to_a_request_keeps_the_class_of_its_error(cli, ticks, tmp_path):
    ticks()
    (tmp_path / "file").write_text("not a folder")
    result = cli("savepoint", "create", tmp_path / "checkpoint", "--native", "--to", tmp_path / "file")
    assert result.exit_code == 4, result.stderr


def test_the_reference_shows_the_table():
    rows = re.findall(r"^\| `(\w+)`.*\| `(\w+)` \| (\d+) \|$", (REFERENCE / "errors.md").read_text(), re.MULTILINE)
    kinds = {name: getattr(errors, name, None) or getattr(failure, name) for name, _, _ in rows}
    known = {
        kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.MillstreamError)
    }
    assert set(kinds.values()) == known | {failure.BadTarget}
    for name, domain, code in rows:
        assert (kinds[name].domain, exit_code(kinds[name]("x"))) == (domain, int(code)), name
    documented = re.findall(r"^\| (\d+) \| ", (REFERENCE / "cli.md").read_text(), re.MULTILINE)
    assert {int(code) for code in documented} == {0, 1, 2, 3, 4, 5, 70, 130}
