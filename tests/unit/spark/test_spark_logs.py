"""Spark's logs against the newest manifest: what is fine, what is refused, and what is repaired without loss."""

import json
import shutil

import pytest
from tests.unit.spark.spark_files import digest, write_checked, write_checkpoint, write_commit, write_offset

from millstream.errors import CheckpointRefused
from millstream.spark.files.log_files import read_logs, retained_epochs, retained_text
from millstream.spark.files.log_repair import repair
from millstream.spark.files.logs import compare_logs, refuse_damaged

NEWEST = 3


@pytest.fixture
def folder(tmp_path):
    """Manifests up to 3, all committed, epoch 4 begun."""
    return write_checkpoint(tmp_path / "spark", committed=NEWEST, begun=True)


def errors(folder, newest=NEWEST, of=None):
    found = compare_logs(read_logs(folder), newest, of or (None if newest is None else digest(newest)))
    return [problem for problem in found if problem.severity == "error"]


def codes(folder, newest=NEWEST, of=None):
    return [problem.code for problem in errors(folder, newest, of)]


def remove(file):
    file.unlink()
    file.with_name(f".{file.name}.crc").unlink()


def newest_changelog(folder, version=4):
    return next((folder / "state/0/0").glob(f"{version}_*.changelog"))


def test_a_whole_checkpoint_has_no_problem(folder):
    assert compare_logs(read_logs(folder), NEWEST, digest(NEWEST)) == []
    refuse_damaged(folder, NEWEST, digest(NEWEST))


def test_a_new_checkpoint_has_no_problem(tmp_path):
    assert compare_logs(read_logs(tmp_path / "absent"), None, None) == []
    (tmp_path / "empty").mkdir()
    assert compare_logs(read_logs(tmp_path / "empty"), None, None) == []
    (tmp_path / "killed").mkdir()
    (tmp_path / "killed/.metadata.1f.tmp").write_bytes(b"")
    assert compare_logs(read_logs(tmp_path / "killed"), None, None) == []


def test_what_the_logs_say(folder):
    logs = read_logs(folder)
    assert {epoch: entry.plan.epoch for epoch, entry in logs.offsets.items()} == {n: n for n in range(5)}
    assert [len(uids) for uids in logs.commits[2].states.values()] == [2, 2]
    assert retained_epochs(logs) == [0, 1, 2, 3]
    assert retained_text(logs) == "epochs 0 to 3"


@pytest.mark.parametrize(("newest", "expected"), [(2, "CKPT-050"), (5, "CKPT-050"), (None, "CKPT-050")])
def test_the_manifest_must_fit_the_log(folder, newest, expected):
    assert expected in codes(folder, newest)


def test_the_last_commit_may_be_missing(folder):
    """The epoch after the manifest was not begun: the durable epoch is replayed."""
    remove(folder / "offsets/4")
    remove(folder / "commits/3")
    assert codes(folder) == []


def test_two_missing_commits_are_refused(folder):
    remove(folder / "commits/3")
    remove(folder / "commits/2")
    found = errors(folder)
    assert [problem.code for problem in found] == ["CKPT-052"]
    assert found[0].repair is None
    assert "savepoint" in found[0].way_out


def test_a_begun_epoch_needs_the_commit_before_it(folder):
    remove(folder / "commits/3")
    (problem,) = errors(folder)
    assert problem.code == "CKPT-057"
    assert repair(folder, NEWEST, digest(NEWEST)) != []
    assert codes(folder) == []
    assert (folder / "damaged-1/offsets/4").exists()


def test_another_digest_is_refused(folder):
    assert codes(folder, NEWEST, "0" * 64) == ["CKPT-053"]


def test_a_consistent_older_copy_of_an_offset_is_refused(folder):
    write_checked(folder / "offsets/3", (folder / "offsets/2").read_bytes())
    (problem,) = errors(folder)
    assert (problem.code, problem.repair) == ("CKPT-051", None)
    assert "plan of epoch 2" in problem.what


@pytest.mark.parametrize("content", [b"", b"v1", b"v1\n{}", b"v1\n{}\n{}", b"v1\n{}\nnull", b"\xff\xfe", b"v9\n{}\n{}"])
def test_an_offset_that_holds_no_plan_is_refused(folder, content):
    write_checked(folder / "offsets/3", content)
    assert codes(folder) == ["CKPT-051"]


@pytest.mark.parametrize("content", [b"", b"v2", b"v2\n[]", b'v2\n{"stateUniqueIds":{"0":[[]]}}', b"v7\n{}", b"v2\n{}"])
def test_a_torn_commit_is_set_aside_and_its_epoch_replayed(folder, content):
    write_checked(folder / "commits/3", content)
    assert codes(folder) == ["CKPT-052"]
    done = repair(folder, NEWEST, digest(NEWEST))
    assert "replayed" in done[0]
    assert not (folder / "commits/3").exists()
    assert not (folder / "offsets/4").exists()
    assert (folder / "damaged-1/commits/3").read_bytes() == content
    assert codes(folder) == []


def test_a_repair_that_would_not_help_leaves_everything_in_place(folder):
    write_checked(folder / "commits/3", b"")
    remove(folder / "offsets/3")
    before = sorted(folder.rglob("*"))
    with pytest.raises(CheckpointRefused) as refused:
        repair(folder, NEWEST, digest(NEWEST))
    assert refused.value.code == "CKPT-050"
    assert "CKPT-052" in str(refused.value)
    assert "--ignore-state-once" in refused.value.hint
    assert sorted(folder.rglob("*")) == before


def test_repairs_are_numbered_and_nothing_is_lost(folder):
    write_checked(folder / "offsets/4", b"first")
    repair(folder, NEWEST, digest(NEWEST))
    write_checked(folder / "offsets/4", b"second")
    repair(folder, NEWEST, digest(NEWEST))
    assert [(folder / f"damaged-{n}/offsets/4").read_bytes() for n in (1, 2)] == [b"first", b"second"]
    assert repair(folder, NEWEST, digest(NEWEST)) == []


@pytest.mark.parametrize("log", ["offsets/4", "commits/3"])
def test_a_checksum_without_its_file_would_stop_every_run(folder, log):
    (folder / log).unlink()
    assert "CKPT-057" in codes(folder)
    repair(folder, NEWEST, digest(NEWEST))
    assert codes(folder) == []
    assert not list((folder / log).parent.glob(f".{log[-1]}.crc"))


@pytest.mark.parametrize("content", [None, b"{}", b"", b'{"id":7}', b"[]"])
def test_a_lost_identity_is_replaced(folder, content):
    if content is None:
        remove(folder / "metadata")
    else:
        write_checked(folder / "metadata", content)
    assert codes(folder) == ["CKPT-054"]
    repair(folder, NEWEST, digest(NEWEST))
    assert codes(folder) == []
    assert len(json.loads((folder / "metadata").read_text())["id"]) == 36


def test_damage_in_the_newest_state_is_replayed_damage_before_it_is_not(folder):
    newest_changelog(folder, 4).unlink()
    assert codes(folder) == ["CKPT-056"]
    assert errors(folder)[0].repair is not None
    newest_changelog(folder, 3).unlink()
    assert {problem.code for problem in errors(folder)} == {"CKPT-056"}
    assert all(problem.repair is None for problem in errors(folder))


def test_a_snapshot_must_be_whole_with_all_its_tables(folder):
    table = next((folder / "state/1/1/SSTs").glob("*.sst"))
    remove(table)
    assert [(p.code, p.file, p.repair) for p in errors(folder)] == [("CKPT-056", table, None)]


def test_without_a_snapshot_the_changelogs_from_the_first_on_do(folder):
    for file in list(folder.glob("state/*/*/1_*.zip*")):
        remove(file)
    assert codes(folder) == []
    remove(next((folder / "state/0/0").glob("1_*.changelog")))
    assert codes(folder) == ["CKPT-056"]


def test_a_file_without_hidden_checksum_is_measured_by_sparks_record(folder):
    file = newest_changelog(folder)
    file.with_name(f".{file.name}.crc").unlink()
    assert codes(folder) == []
    file.write_bytes(file.read_bytes()[:-1])
    assert "size" in errors(folder)[0].what


def test_a_changelog_of_another_version_is_found_even_if_its_checksums_fit(folder):
    newest, older = newest_changelog(folder, 4), newest_changelog(folder, 3)
    for prefix, suffix in (("", ""), (".", ".crc"), ("", ".crc"), (".", ".crc.crc")):
        shutil.copy(
            older.with_name(f"{prefix}{older.name}{suffix}"), newest.with_name(f"{prefix}{newest.name}{suffix}")
        )
    assert "another version" in errors(folder)[0].what


def test_lost_operator_files_are_refused(folder):
    shutil.rmtree(folder / "state/0/_metadata")
    shutil.rmtree(folder / "state/1/_stateSchema")
    assert codes(folder) == ["CKPT-058", "CKPT-058"]


def test_a_moved_checkpoint_is_refused_until_its_paths_are_rewritten(folder, tmp_path):
    moved = folder.rename(tmp_path / "a new place")
    assert codes(moved) == ["CKPT-058", "CKPT-058"]
    repair(moved, NEWEST, digest(NEWEST))
    assert codes(moved) == []


def test_old_entries_only_warn(folder):
    write_checked(folder / "offsets/1", b"")
    write_checked(folder / "commits/0", b"")
    found = compare_logs(read_logs(folder), NEWEST, digest(NEWEST))
    assert {problem.severity for problem in found} == {"warning"}
    assert len(found) == 2
    refuse_damaged(folder, NEWEST, digest(NEWEST))


def test_entries_that_retention_removed_are_no_gap(folder):
    for epoch in (0, 1):
        remove(folder / f"offsets/{epoch}")
        remove(folder / f"commits/{epoch}")
    assert codes(folder) == []
    remove(folder / "offsets/2")
    assert codes(folder) == ["CKPT-057"]


def test_the_first_epoch(tmp_path):
    folder = write_checkpoint(tmp_path / "spark", committed=0)
    assert codes(folder, 0) == []
    remove(folder / "commits/0")
    assert codes(folder, 0) == []


def test_before_the_first_manifest_the_folder_is_set_aside(tmp_path):
    folder = tmp_path / "spark"
    write_checked(folder / "metadata", b'{"id":"a"}')
    write_offset(folder, 0)
    assert codes(folder, None) == []
    write_checked(folder / "offsets/0", b"")
    assert codes(folder, None) == ["CKPT-051"]
    repair(folder, None, None)
    assert [entry.name for entry in folder.iterdir()] == ["damaged-1"]
    assert codes(folder, None) == []


def test_state_that_a_lost_first_epoch_left_is_set_aside(tmp_path):
    folder = write_checkpoint(tmp_path / "spark", committed=0)
    remove(folder / "commits/0")
    remove(folder / "offsets/0")
    assert codes(folder, None) == ["CKPT-057"]
    repair(folder, None, None)
    assert codes(folder, None) == []


def test_a_job_without_state_has_no_state_to_check(tmp_path):
    folder = tmp_path / "spark"
    write_checked(folder / "metadata", b'{"id":"a"}')
    for epoch in range(2):
        write_offset(folder, epoch)
        write_commit(folder, epoch, {})
    assert codes(folder, 1) == []


def test_a_refusal_names_the_first_problem_and_the_others(folder):
    remove(folder / "offsets/3")
    remove(folder / "metadata")
    with pytest.raises(CheckpointRefused) as refused:
        refuse_damaged(folder, NEWEST, digest(NEWEST))
    assert refused.value.code == "CKPT-050"
    assert refused.value.found.endswith("offsets/3")
    assert "metadata is missing (CKPT-054)" in str(refused.value)
