"""A secret planted in addresses and settings: nothing that Spark or its workers write holds it."""

import json

import pytest
from tests.canary import SECRET, VARIABLE, found_in, found_in_files, found_in_tables, urls_of, write_job
from typer.testing import CliRunner

from millstream.cli.main import app

pytestmark = pytest.mark.spark


def test_a_run_on_spark_leaves_it_nowhere(spark, postgres, tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, SECRET)
    postgres.execute("DROP SCHEMA IF EXISTS public CASCADE")
    postgres.execute("CREATE SCHEMA public")
    job = write_job(tmp_path / "canary_job.py", postgres, "t")
    # Workers of the shared JVM do not have the variable, so the sink whose address holds the secret is the subject here.
    text = job.read_text()
    job.write_text(text[: text.index('sums.sink("named"')])
    store = urls_of(postgres)["named"]
    command = ["run", job, "--checkpoint", tmp_path / "c", "--manifests", store, "--master", "local[2]", "--debug"]
    command += ["-D", f"spark.sql.canary.secret={SECRET}", "--log-level", "info", "--log-format", "json"]
    done = CliRunner().invoke(app, [str(word) for word in command])
    assert done.exit_code == 0, done.output
    assert postgres.execute("SELECT count(*) FROM t_literal")[0][0] > 10
    lines = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    events = [line["event"] for line in lines]
    assert events == ["run started", *["epoch published"] * (len(events) - 2), "run ended"]
    assert {(line["job"], line["token"]) for line in lines} == {("canary", 1)}
    assert lines[0]["engine"] == "spark"
    assert found_in(done.stdout, done.stderr) == []
    assert found_in_files(tmp_path / "c") == []
    assert found_in_tables(postgres) == []
