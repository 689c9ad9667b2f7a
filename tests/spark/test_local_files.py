"""The file system under Spark's logs and state on one machine."""

import stat

import pytest

pytestmark = pytest.mark.spark


def test_files_are_made_without_a_process_and_keep_checksums_and_permissions(spark, tmp_path):
    hadoop = spark._jvm.org.apache.hadoop.fs
    where = spark._jvm.java.net.URI.create("file:///")
    files = hadoop.FileSystem.get(where, spark._jsc.hadoopConfiguration())
    assert files.getClass().getName() == "millstream.LocalFiles"
    path = hadoop.Path(str(tmp_path / "a"))
    files.create(path).close()
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o644
    assert (tmp_path / ".a.crc").exists()
    files.setPermission(path, hadoop.permission.FsPermission("1600"))
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o600


def test_queries_write_their_logs_through_it(spark):
    manager = spark.conf.get("spark.sql.streaming.checkpointFileManagerClass")
    assert manager.endswith("FileSystemBasedCheckpointFileManager")
