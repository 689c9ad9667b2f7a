"""A task opens one reader for all splits of a source and closes it, whatever happens."""

import pytest

import millstream as ms
from millstream.connectors.memory.source import MemoryReader
from millstream.errors import StepFailed


@pytest.fixture
def lives(monkeypatch):
    """Opened and closed readers, in order."""
    lives = []

    class Watched(MemoryReader):
        def __init__(self, options, schema):
            super().__init__(options, schema)
            lives.append("opened")

        def read(self, split):
            lives.append("read")
            return super().read(split)

        def close(self):
            lives.append("closed")

    monkeypatch.setattr("millstream.connectors.memory.source.MemoryReader", Watched)
    return lives


def job_of(step=None, **options):
    job = ms.Job("readers", rows_per_epoch=100, **options)
    rows = [{"n": number, "user": f"u{number % 2}"} for number in range(4)]
    stream = job.source("in", ms.memory(rows, partition_by="user"), schema="n long, user string")
    (stream.map(step, schema="n long") if step else stream).sink("out", ms.collect("readers"))
    return job


def test_one_reader_reads_all_splits_of_a_task(lives):
    job_of(parallelism=1).run(local=True)
    assert lives == ["opened", "read", "read", "read", "read", "closed"]


def test_a_task_that_fails_closes_its_reader(lives):
    def fail(row):
        raise ValueError(row)

    with pytest.raises(StepFailed):
        job_of(fail, parallelism=1).run(local=True)
    assert lives == ["opened", "read", "closed"]


def test_a_reader_without_close_is_read_like_any_other(lives, monkeypatch):
    class Older:
        def __init__(self, options, schema):
            self._reader = MemoryReader(options, schema)

        def read(self, split):
            return self._reader.read(split)

    monkeypatch.setattr("millstream.connectors.memory.source.MemoryReader", Older)
    assert job_of(parallelism=1).run(local=True).rows_out == 4
