"""`plan` and `validate`: nothing runs, everything is shown."""

import json

import pytest

from millstream.plan.serialize import from_json


@pytest.mark.parametrize(
    ("layer", "title"),
    [
        ("stream", "StreamGraph of job 'orders'"),
        ("job", "JobGraph of job 'orders'"),
        ("partitioned", "PartitionedPlan of job 'orders'"),
        ("deployment", "DeploymentPlan of job 'orders'"),
    ],
)
def test_layers_in_every_format(cli, job_file, layer, title):
    assert cli("plan", job_file, "--layer", layer).stdout.startswith(title)
    assert cli("plan", job_file, "--layer", layer, "--format", "mermaid").stdout.startswith("flowchart LR\n")
    value = json.loads(cli("plan", job_file, "--layer", layer, "--format", "json").stdout)
    assert value["layer"] == layer
    assert from_json(value).model.name == "orders"


def test_options_reach_the_plan(cli, job_file):
    options = [
        "--parallelism",
        "4",
        "--master",
        "local[1]",
        "--state-backend",
        "memory",
        "--checkpoint",
        "c",
        "-D",
        "a.b=c=d",
    ]
    text = cli("plan", job_file, "--layer", "deployment", *options).stdout
    for line in (
        "parallelism 4",
        "master       local[1]",
        "state        memory",
        "checkpoint   c",
        "conf         a.b=c=d",
    ):
        assert line in text


def test_an_unknown_state_backend_is_refused(cli, job_file):
    result = cli("plan", job_file, "--state-backend", "redis")
    assert (result.exit_code, "PLAN-031" in result.stderr) == (3, True)


def test_a_plan_with_a_lambda_can_be_shown(cli, job_file):
    changed = job_file.read_text().replace('"amount > 0"', 'lambda row: row["amount"] > 0')
    job_file.write_text(changed)
    result = cli("plan", job_file, "--format", "json")
    assert result.exit_code == 0
    assert "<lambda>" in result.stdout


def test_validate_warns_about_derived_ids_of_state(cli, job_file):
    note = "note: step 'paid.aggregate': id derived from its path; give id= before you rely on its state"
    assert note in cli("validate", job_file).stdout


def test_version(cli):
    assert cli("version").stdout == "millstream 0.1.0\n"
