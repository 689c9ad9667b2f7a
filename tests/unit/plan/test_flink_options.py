"""Options of Flink: every one is answered, the page says the same, and a key given here is refused with its line."""

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

import millstream as ms
from millstream.cli.main import app
from millstream.errors import InvalidPlan
from millstream.plan.deployment import Deployment
from millstream.plan.flink_keys import flink_option, options_table
from millstream.plan.flink_options import FLINK_OPTIONS

PAGE = Path(__file__).parents[3] / "docs/differences-from-flink.md"
SUBJECTS = {
    "slot sharing": "taskmanager.numberOfTaskSlots",
    "co-location of operators": None,
    "resources of an operator": "cluster.fine-grained-resource-management.enabled",
    "parallelism of an operator": "pipeline.jobvertex-parallelism-overrides",
    "schedule mode and strategies": "jobmanager.scheduler",
    "fail-over strategy": "jobmanager.execution.failover-strategy",
    "operator coordinators": None,
    "master hooks": None,
    "local recovery": "state.backend.local-recovery",
    "network memory and buffers": "taskmanager.memory.network.fraction",
    "object reuse": "pipeline.object-reuse",
    "operator state": None,
    "partitioners": None,
    "asynchronous and incremental snapshots": "state.backend.incremental",
    "unaligned snapshots": "execution.checkpointing.unaligned.enabled",
    "concurrent checkpoints": "execution.checkpointing.max-concurrent-checkpoints",
    "minimum pause between checkpoints": "execution.checkpointing.min-pause",
    "externalized checkpoints": "execution.checkpointing.externalized-checkpoint-retention",
    "remote state services": "state.backend.forst.primary-dir",
}
"""What must be answered, with a key where Flink has one."""


def test_the_page_holds_the_table_of_the_code():
    _, _, section = PAGE.read_text().partition("## Options\n")
    table = [line for line in section.partition("\n## ")[0].splitlines() if line.startswith("|")]
    assert table == options_table()


def test_every_subject_is_answered_with_a_reason_or_an_option():
    assert set(SUBJECTS) <= {option.subject for option in FLINK_OPTIONS}
    assert [option.subject for option in FLINK_OPTIONS if not option.here] == []
    assert [option.subject for option in FLINK_OPTIONS if not option.reason and option.answer != "option"] == []


@pytest.mark.parametrize(("subject", "key"), [(subject, key) for subject, key in SUBJECTS.items() if key])
def test_a_key_finds_its_subject(subject, key):
    assert flink_option(key).subject == subject


def test_the_most_exact_answer_counts():
    assert flink_option("taskmanager.numberOfTaskSlots").subject == "slot sharing"
    assert flink_option("taskmanager.cpu.cores").subject == "everything else about Flink's processes"
    assert flink_option("state.backend.rocksdb.memory.managed").subject == "state backend"
    for key in ("spark.executor.cores", "spark.sql.shuffle.partitions", "mail", "statement"):
        assert flink_option(key) is None


def test_a_name_belongs_to_one_subject():
    names = [name for option in FLINK_OPTIONS for name in option.names.split()]
    assert len(names) == len(set(names))


def test_an_option_that_is_named_exists():
    parts = " ".join(option.here for option in FLINK_OPTIONS)
    fields = {"Job": ms.Job.__init__.__wrapped__.__kwdefaults__, "EpochPolicy": ms.EpochPolicy.__dataclass_fields__}
    for kind, known in fields.items():
        named = {name for call in re.findall(rf"`{kind}\(([^)]*)\)`", parts) for name in re.findall(r"(\w+)=", call)}
        assert named
        assert named <= set(known)
    flags = set(re.findall(r"`(--[a-z-]+)`", parts))
    shown = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).output
    assert flags
    assert [flag for flag in flags if flag not in shown] == []


@pytest.mark.parametrize("key", [key for key in SUBJECTS.values() if key])
def test_a_flink_key_among_sparks_settings_is_refused(key):
    with pytest.raises(InvalidPlan) as caught:
        Deployment(confs=(("spark.ui.enabled", "true"), (key, "1")))
    assert caught.value.code == "PLAN-061"
    assert flink_option(key).line in caught.value.message


def test_the_command_refuses_it_with_the_line_of_the_page(tmp_path):
    (tmp_path / "job.yaml").write_text("job: j\nsteps: []\n")
    words = ["plan", str(tmp_path / "job.yaml"), "-D", "execution.checkpointing.min-pause=5s"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 3
    assert "option: `EpochPolicy(min_pause=…)`, `--min-pause`" in done.output


@pytest.mark.parametrize(
    "text",
    ["execution.checkpointing.min-pause: 5s", "execution:\n  checkpointing:\n    min-pause: 5s"],
    ids=["flat", "nested"],
)
def test_a_job_file_with_a_flink_key_is_refused(text):
    with pytest.raises(InvalidPlan) as caught:
        ms.load_job(f"job: j\n{text}\nsteps: []\n")
    assert caught.value.code == "PLAN-061"
    assert "`EpochPolicy(min_pause=…)`" in caught.value.message
