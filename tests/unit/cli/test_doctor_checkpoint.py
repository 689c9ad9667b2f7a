"""`doctor CHECKPOINT`: explains what is there and what is damaged, repairs what is safe, and changes nothing unasked."""

import json
import shutil

import pytest


@pytest.fixture
def checkpoint(cli, job_file, tmp_path):
    """A checkpoint of a job that is complete, with several epochs."""
    job_file.write_text(
        job_file.read_text().replace('"orders", parallelism', '"orders", rows_per_epoch=1, parallelism')
    )
    assert cli("run", job_file, "--local", "--checkpoint", tmp_path / "c").exit_code == 0
    return tmp_path / "c"


def examined(cli, checkpoint, *options):
    result = cli("doctor", checkpoint, "-o", "json", *options)
    found = json.loads(result.stdout)
    assert result.exit_code == (0 if found["ok"] else 1)
    return found


def problems(found):
    return [(remark["part"], remark["code"]) for remark in found["remarks"] if remark["status"] == "problem"]


def content(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_healthy_checkpoint(cli, checkpoint):
    found = examined(cli, checkpoint)
    assert found["verdict"] == "complete: epoch 3 was the last one, there is nothing left to run"
    text = cli("doctor", checkpoint).stdout
    for part in (
        "free: released by process",
        "job orders, lineage",
        "started afresh",
        "epochs 0 to 3",
        "was not contacted",
    ):
        assert part in text


def test_a_running_one(cli, ticks, tmp_path):
    ticks()
    text = cli("doctor", tmp_path / "checkpoint").stdout
    assert "held: process" in text
    assert "verdict: resumes at epoch" in text
    result = cli("doctor", tmp_path / "nowhere")
    assert (result.exit_code, "CKPT-016" in result.stderr) == (5, True)


@pytest.mark.parametrize("damage", ["missing", "cut", "changed"])
def test_a_lost_head_is_rebuilt(cli, checkpoint, job_file, damage):
    file = checkpoint / "millstream" / "head.json"
    stored = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(stored[:40] if damage == "cut" else stored.replace(b'"epoch":3', b'"epoch":2'))
    before = content(checkpoint)
    found = examined(cli, checkpoint)
    assert problems(found) == [("head", "CKPT-012" if damage == "missing" else "CKPT-003")]
    assert found["verdict"].startswith("refused because of the head")
    assert content(checkpoint) == before
    mended = examined(cli, checkpoint, "--repair")
    assert (mended["ok"], len(mended["done"])) == (True, 1)
    again = cli("run", job_file, "--local", "--checkpoint", checkpoint, "-o", "json")
    assert json.loads(again.stdout)["resumed_from"] == 3


def test_a_head_that_may_be_one_of_two_is_not_rebuilt(cli, checkpoint):
    (checkpoint / "millstream" / "head.json").unlink()
    manifests = next((checkpoint / "millstream" / "manifests").iterdir())
    other = manifests.with_name("other")
    other.mkdir()
    (other / "000000000000-000001.json").write_bytes((manifests / "000000000000-000001.json").read_bytes())
    before = content(checkpoint)
    assert "cannot be rebuilt" in cli("doctor", checkpoint).stdout
    result = cli("doctor", checkpoint, "--repair")
    assert (result.exit_code, "CKPT-019" in result.stderr) == (5, True)
    changed = {path for path, data in content(checkpoint).items() if before.get(path) != data}
    assert changed <= {checkpoint / "millstream" / "lease.json"}


def test_a_damaged_lease_is_replaced_by_a_free_one(cli, checkpoint, job_file):
    file = checkpoint / "millstream" / "lease.json"
    file.write_bytes(b"{}")
    assert problems(examined(cli, checkpoint)) == [("lease", "CKPT-003")]
    mended = examined(cli, checkpoint, "--repair")
    assert mended["ok"]
    assert json.loads(file.read_bytes())["content"]["token"] > 1000
    assert cli("run", job_file, "--local", "--checkpoint", checkpoint).exit_code == 0


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_a_damaged_newest_manifest_has_no_repair(cli, checkpoint, damage):
    file = max((checkpoint / "millstream" / "manifests").rglob("*.json"))
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-10])
    found = examined(cli, checkpoint)
    assert problems(found) == [("manifest", "CKPT-003")]
    assert "going back to an older epoch is not safe" in cli("doctor", checkpoint).stdout
    assert problems(examined(cli, checkpoint, "--repair")) == [("manifest", "CKPT-003")]


def test_a_damaged_older_manifest_is_only_noted(cli, checkpoint):
    min((checkpoint / "millstream" / "manifests").rglob("*.json")).write_bytes(b"")
    found = examined(cli, checkpoint)
    assert found["ok"]
    assert ("older", "note") in [(remark["part"], remark["status"]) for remark in found["remarks"]]


def test_a_damaged_state_file(cli, checkpoint):
    file = max((checkpoint / "local").rglob("state-*"))
    file.write_bytes(file.read_bytes() + b"x")
    assert problems(examined(cli, checkpoint)) == [("state", "CKPT-009")]


def test_a_missing_source_log(cli, checkpoint):
    folder = next((checkpoint / "sources").iterdir()) / "in"
    folder.rmdir()
    assert problems(examined(cli, checkpoint)) == [("source", "CKPT-022")]


def test_a_manifest_that_never_became_durable(cli, checkpoint):
    file = max((checkpoint / "millstream" / "manifests").rglob("*.json"))
    file.with_name("000000000004-000002.json").write_bytes(file.read_bytes())
    found = examined(cli, checkpoint)
    assert found["ok"]
    assert "undecided" in [remark["part"] for remark in found["remarks"]]


def test_repair_needs_a_checkpoint_that_nobody_runs(cli, ticks, tmp_path):
    ticks()
    shutil.rmtree(min((tmp_path / "checkpoint" / "sources").iterdir()) / "ticks")
    result = cli("doctor", tmp_path / "checkpoint", "--repair")
    assert (result.exit_code, "CKPT-021" in result.stderr) == (5, True)
    assert cli("doctor", "--repair").exit_code == 2
