"""The JOB argument: every form, and what is said when it leads nowhere."""

import sys

import pytest
from tests.unit.cli.conftest import JOB

YAML = """
job: from-yaml
steps:
  - source: in
    from: {rate: {rows_per_second: 10, rows: 3}}
  - map: beside:same
    schema: timestamp timestamp, value long
  - sink: out
    to: {collect: {name: x}}
"""


def test_a_python_file(cli, job_file):
    result = cli("validate", job_file)
    assert result.exit_code == 0
    assert result.stdout.startswith("orders: valid, steps: 4, shuffles: 1")


def test_a_variable_of_a_file(cli, job_file):
    assert cli("validate", f"{job_file}:job").exit_code == 0


def test_a_variable_of_a_module(cli, job_file, monkeypatch):
    monkeypatch.chdir(job_file.parent)
    assert cli("validate", "orders_job:job").exit_code == 0


@pytest.mark.parametrize("suffix", [".yaml", ".yml"])
def test_a_declarative_file_finds_functions_beside_it(cli, tmp_path, suffix):
    (tmp_path / "beside.py").write_text("def same(row):\n    return row\n")
    path = tmp_path / f"job{suffix}"
    path.write_text(YAML)
    result = cli("validate", path)
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_file_imports_what_lies_beside_it_and_is_known_by_its_stem(cli, tmp_path):
    (tmp_path / "beside.py").write_text("LIMIT = 3\n")
    path = tmp_path / "my-job.py"
    path.write_text("import beside\n" + JOB.replace("amount > 0", "amount > 1"))
    assert cli("validate", path).exit_code == 0
    assert sys.modules["my-job"].beside.LIMIT == 3


def test_the_same_file_may_be_loaded_twice(cli, job_file):
    assert cli("validate", job_file).exit_code == 0
    assert cli("validate", job_file).exit_code == 0


@pytest.mark.parametrize(
    ("content", "target", "code", "exit_code", "says"),
    [
        ("x = 1\n", "{file}", "CLI-004", 2, "holds no job"),
        (JOB, "{file}:jbo", "CLI-004", 2, "known: job"),
        (JOB, "{file}:rows", "CLI-004", 2, "found: list"),
        (JOB + "\nother = ms.Job('other')\n", "{file}", "CLI-005", 2, "found: job, other"),
        ("x = 1 / 0\n", "{file}", "CLI-006", 3, "found: ZeroDivisionError: division by zero"),
        ("def f(:\n", "{file}", "CLI-006", 3, "SyntaxError"),
        ("import no_such_module\n", "{file}", "CLI-006", 3, "No module named 'no_such_module'"),
        (JOB, "no/such/job.py", "CLI-002", 2, "there is no such job file"),
        (JOB, "no/such/job.yaml", "CLI-002", 2, "there is no such job file"),
        (JOB, "no_such_module:job", "CLI-002", 2, "there is no module 'no_such_module'"),
        (JOB, "orders", "CLI-001", 2, "known: path.py"),
    ],
)
def test_refusals(cli, tmp_path, content, target, code, exit_code, says):
    path = tmp_path / "some_job.py"
    path.write_text(content)
    result = cli("validate", target.format(file=path))
    assert result.exit_code == exit_code
    assert result.stderr.startswith(f"error [{code}] ")
    assert says in result.stderr
    assert "  fix: " in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""


def test_a_file_named_like_a_loaded_module_is_refused(cli, tmp_path):
    path = tmp_path / "json.py"
    path.write_text(JOB)
    result = cli("validate", path)
    assert (result.exit_code, "CLI-003" in result.stderr) == (2, True)


def test_one_job_under_two_names_is_one_job(cli, tmp_path):
    path = tmp_path / "two_names.py"
    path.write_text(JOB + "\nalias = job\n")
    assert cli("validate", path).exit_code == 0
