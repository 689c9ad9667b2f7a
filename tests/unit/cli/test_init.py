"""`millstream init`: the project it makes is tested, typed and runs at once; nothing that is there is touched."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from millstream.cli.projects import init as command

MAIN = [sys.executable, "-m", "millstream.cli.main"]


def run(folder, *words):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
    return subprocess.run(words, cwd=folder, capture_output=True, text=True, env=environment)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("work")
    done = run(folder, *MAIN, "init", "my-shop")
    assert done.returncode == 0, done.stderr
    assert "cd my-shop" in done.stdout
    return folder / "my-shop"


def test_it_holds_what_a_project_needs(project):
    found = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert found >= {"job.py", "test_job.py", "data/orders.json", "README.md", "pyproject.toml", ".gitignore"}
    assert 'name = "my-shop"' in (project / "pyproject.toml").read_text()
    assert 'ms.Job("my-shop"' in (project / "job.py").read_text()
    assert [path for path in found if "$name" in (project / path).read_text(errors="replace")] == []


def test_its_tests_pass(project):
    done = run(project, sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout


def shown(text):
    """Customer, cents and orders of each printed row."""
    rows = [line.split() for line in text.splitlines() if line.split()[:1] in (["ann"], ["bob"], ["cleo"])]
    return sorted((row[0], int(row[-2]), int(row[-1])) for row in rows)


EXPECTED = sorted(
    [("ann", 2000, 2), ("bob", 800, 1), ("cleo", 3000, 1), ("ann", 425, 1), ("cleo", 275, 1), ("bob", 1999, 1)]
)


def test_its_job_shows_a_result(project):
    done = run(project, *MAIN, "run", "job.py", "--local")
    assert done.returncode == 0, done.stderr
    assert shown(done.stdout) == EXPECTED


def test_it_is_valid_and_typed(project):
    assert run(project, *MAIN, "validate", "job.py").returncode == 0
    done = run(project, sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, "job.py", "test_job.py")
    assert done.returncode == 0, done.stdout
    checked = run(project, sys.executable, "-m", "ruff", "check", "--isolated", "--line-length", "120", ".")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    "name", ["", "../shop", "a/b", "-shop", "1shop", "my shop", "shop-", ".", "sh\nop", "é", "a" * 65]
)
def test_a_name_that_is_none_is_refused(cli, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    result = cli("init", "--", name)
    assert result.exit_code == 2
    assert "CLI-040" in result.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_is_there_is_left_alone(cli, tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    there = Path("shop")
    if kind == "folder":
        there.mkdir()
        (there / "job.py").write_text("mine")
    elif kind == "file":
        there.write_text("mine")
    else:
        there.symlink_to("nowhere")
    result = cli("init", "shop")
    assert result.exit_code == 2
    assert "CLI-041" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["shop"]
    assert kind != "folder" or [(path.name, path.read_text()) for path in there.iterdir()] == [("job.py", "mine")]
    assert kind != "file" or there.read_text() == "mine"


def test_a_project_that_cannot_be_finished_is_not_left_behind(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(command, "project_files", lambda name: {"job.py": "", "no/such/depth.py": ""})
    result = cli("init", "shop")
    assert (result.exit_code, "CLI-042" in result.stderr) == (2, True)
    assert list(tmp_path.iterdir()) == []
