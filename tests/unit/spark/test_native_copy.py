"""A copy of Spark's checkpoint stands alone: one epoch, its state, and paths that name the copy."""

import hashlib
import shutil

import pytest
from tests.unit.spark.spark_files import digest, write_checked, write_checkpoint

from millstream.errors import CheckpointRefused
from millstream.spark.files.log_files import read_logs
from millstream.spark.files.logs import refuse_damaged
from millstream.spark.files.native import copy_spark_checkpoint


@pytest.fixture
def folder(tmp_path):
    return write_checkpoint(tmp_path / "spark", committed=5, begun=True)


def test_the_copy_can_be_resumed_without_the_original(folder, tmp_path):
    target = tmp_path / "save point" / "spark"
    copy_spark_checkpoint(folder, target, 3)
    shutil.rmtree(folder)
    refuse_damaged(target, 3, digest(3))
    logs = read_logs(target)
    assert (sorted(logs.offsets), sorted(logs.commits)) == ([2, 3], [3])


def test_a_copy_of_the_copy_is_the_restore(folder, tmp_path):
    copy_spark_checkpoint(folder, tmp_path / "saved", 3)
    shutil.rmtree(folder)
    moved = (tmp_path / "saved").rename(tmp_path / "moved")
    copy_spark_checkpoint(moved, tmp_path / "restored", 3)
    shutil.rmtree(moved)
    refuse_damaged(tmp_path / "restored", 3, digest(3))


def test_nothing_after_the_epoch_is_copied(folder, tmp_path):
    copied = copy_spark_checkpoint(folder, tmp_path / "copy", 2)
    versions = {file.name.split("/")[3].split("_")[0] for file in copied if file.name.endswith(".changelog")}
    assert versions == {"2", "3"}
    assert len([file for file in copied if file.name.endswith(".sst")]) == 4


def test_every_file_is_listed_with_its_checksum(folder, tmp_path):
    target = tmp_path / "copy"
    copied = copy_spark_checkpoint(folder, target, 4)
    assert sorted(file.name for file in copied) == sorted(
        str(file.relative_to(target)) for file in target.rglob("*") if file.is_file()
    )
    for file in copied:
        content = (target / file.name).read_bytes()
        assert (len(content), hashlib.sha256(content).hexdigest()) == (file.size, file.checksum)


def test_rewritten_files_leave_their_hidden_checksum_behind(folder, tmp_path):
    target = tmp_path / "copy"
    copy_spark_checkpoint(folder, target, 4)
    record = target / "state/0/_metadata/v2/0"
    assert str(target) in record.read_text()
    assert str(folder) not in record.read_text()
    assert not record.with_name(".0.crc").exists()
    assert list(target.glob("state/0/0/*.changelog.crc"))


def test_the_first_epoch_has_one_offset(folder, tmp_path):
    copy_spark_checkpoint(folder, tmp_path / "copy", 0)
    assert sorted(read_logs(tmp_path / "copy").offsets) == [0]
    refuse_damaged(tmp_path / "copy", 0, digest(0))


def test_a_fork_has_an_id_of_its_own(folder, tmp_path):
    copy_spark_checkpoint(folder, tmp_path / "same", 4)
    copy_spark_checkpoint(folder, tmp_path / "fork", 4, query_id="another")
    assert (tmp_path / "same/metadata").read_text() == (folder / "metadata").read_text()
    assert (tmp_path / "fork/metadata").read_text() == '{"id":"another"}'
    assert not (tmp_path / "fork/.metadata.crc").exists()


@pytest.mark.parametrize("epoch", [6, 99])
def test_an_epoch_that_is_not_committed_is_refused(folder, tmp_path, epoch):
    with pytest.raises(CheckpointRefused, match="epochs 0 to 5") as refused:
        copy_spark_checkpoint(folder, tmp_path / "copy", epoch)
    assert refused.value.code == "CKPT-055"
    assert not (tmp_path / "copy").exists()


@pytest.mark.parametrize("name", ["offsets/4", "commits/5", "metadata"])
def test_a_damaged_checkpoint_is_not_copied(folder, tmp_path, name):
    write_checked(folder / name, b"torn")
    with pytest.raises(CheckpointRefused, match=name) as refused:
        copy_spark_checkpoint(folder, tmp_path / "copy", 5)
    assert refused.value.code == "CKPT-059"
    assert not (tmp_path / "copy").exists()


def test_damaged_state_is_not_copied(folder, tmp_path):
    newest = next((folder / "state/1/0").glob("6_*.changelog"))
    newest.write_bytes(newest.read_bytes()[:-3])
    with pytest.raises(CheckpointRefused, match="changelog"):
        copy_spark_checkpoint(folder, tmp_path / "copy", 5)
    copy_spark_checkpoint(folder, tmp_path / "copy", 4)


def test_a_folder_in_use_is_not_written_to(folder, tmp_path):
    copy_spark_checkpoint(folder, tmp_path / "copy", 5)
    with pytest.raises(CheckpointRefused) as refused:
        copy_spark_checkpoint(folder, tmp_path / "copy", 5)
    assert refused.value.code == "CKPT-059"
