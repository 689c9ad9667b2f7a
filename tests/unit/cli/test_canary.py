"""A secret planted in addresses and settings is found nowhere: output, plans, manifests, state, savepoints, metrics."""

import signal
import subprocess
import sys

import pytest
from tests.canary import SECRET, VARIABLE, found_in, found_in_files, found_in_tables, urls_of, write_job

from millstream.plan.explain import LAYERS

SETTING = ["-D", f"spark.hadoop.fs.s3a.secret.key={SECRET}"]


@pytest.fixture
def planted(tmp_path, postgres, monkeypatch):
    monkeypatch.setenv(VARIABLE, SECRET)
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    return write_job(tmp_path / "canary_job.py", postgres, "t")


@pytest.mark.parametrize("manifests", ["literal", "named"])
def test_a_run_leaves_it_nowhere(cli, planted, tmp_path, postgres, manifests):
    store = urls_of(postgres)[manifests]
    command = ["run", planted, "--local", "--checkpoint", tmp_path / "c", "--manifests", store, *SETTING, "--debug"]
    done = cli(*command, "-o", "json", "--metrics", tmp_path / "m.prom", "--log-level", "debug")
    assert done.exit_code == 0, done.stderr
    expected = postgres.execute("SELECT count(*) FROM t_literal")
    assert expected[0][0] > 10
    assert postgres.execute("SELECT count(*) FROM t_named") == expected
    assert postgres.execute("SELECT count(*) FROM t_variable") == expected
    saved = cli("savepoint", "create", tmp_path / "c", "--manifests", store, "--to", tmp_path / "sp")
    looked = cli("doctor", tmp_path / "c", "--manifests", store)
    assert (saved.exit_code, looked.exit_code) == (0, 0), saved.stderr + looked.stderr
    assert found_in(*(text for each in (done, saved, looked) for text in (each.stdout, each.stderr))) == []
    assert found_in_files(tmp_path / "c", tmp_path / "sp") == []
    assert found_in((tmp_path / "m.prom").read_text()) == []
    assert found_in_tables(postgres) == []


@pytest.mark.parametrize("form", ["text", "json", "mermaid"])
@pytest.mark.parametrize("layer", LAYERS)
def test_a_plan_does_not_show_it(cli, planted, tmp_path, layer, form):
    shown = cli("plan", planted, "--layer", layer, "--format", form, "--checkpoint", tmp_path / "c", *SETTING)
    assert shown.exit_code == 0, shown.stderr
    assert found_in(shown.stdout, shown.stderr) == []


def test_errors_do_not_show_it(cli, planted, tmp_path, postgres):
    store = urls_of(postgres)["literal"]
    refused = [
        cli("run", planted, "--local", "--manifests", store, "--debug"),
        cli("run", planted, "--local", "--checkpoint", store, "--debug"),
        cli("doctor", tmp_path / "c", "--manifests", store.replace("postgresql://", "postgres+x://"), "--debug"),
        cli("cancel", tmp_path / "c", "--manifests", store, "--debug"),
    ]
    postgres.execute("CREATE TABLE t_literal (total text)")
    refused.append(cli("run", planted, "--local", "--debug"))
    # The line that the user wrote is shown, and the password stands in it.
    wrong = tmp_path / "wrong_job.py"
    wrong.write_text(planted.read_text().replace('table="t_literal"', 'table="t literal"'))
    shown = cli("plan", wrong)
    assert "sums.sink(" in shown.stderr
    assert "postgres:***@" in shown.stderr
    refused.append(shown)
    assert all(each.exit_code for each in refused)
    assert found_in(*(text for each in refused for text in (each.stdout, each.stderr))) == []


ENDLESS = """
import millstream as ms

job = ms.Job("endless", epoch_interval="20ms")
job.source("ticks", ms.rate(1000)).sink("out", ms.collect("canary"))
"""


def test_the_command_to_resume_with_does_not_show_it(tmp_path, postgres, planted):
    (tmp_path / "endless.py").write_text(ENDLESS)
    command = [
        sys.executable,
        "-m",
        "millstream.cli.main",
        "run",
        str(tmp_path / "endless.py"),
        "--local",
        "-o",
        "json",
    ]
    command += ["--checkpoint", str(tmp_path / "c"), "--manifests", urls_of(postgres)["literal"], *SETTING]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert "cancelled; resume with the same command: millstream run" in errors
    assert "postgres:***@127.0.0.1" in errors
    assert found_in(first, output, errors) == []
