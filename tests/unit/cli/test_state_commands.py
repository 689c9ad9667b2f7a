"""`millstream state`: what the steps keep, at any retained epoch, without changing anything."""

import json

import pytest

import millstream as ms

JOB = """
import millstream as ms


class Last(ms.ProcessFunction):
    seen = ms.ValueState(int)
    notes = ms.MapState(str, int)

    def process(self, row, ctx):
        self.seen.update(row["amount"])
        self.notes.put("x", row["amount"] * 2)
        ctx.event_timer(10**9)
        return None


rows = [{"user": "a", "amount": n, "at": n} for n in range(3)] + [{"user": "b", "amount": 9, "at": 9}]
job = ms.Job("kept", rows_per_epoch=1)
keyed = job.source("in", ms.memory(rows), schema="user string, amount long, at long").event_time("at").key_by("user")
keyed.process(Last, schema="user string", id="last").sink("out", ms.collect("kept"))
keyed.aggregate(total=ms.sum("amount"), mean=ms.avg("amount"), id="sums").sink("sums", ms.collect("kept-sums"))
"""


@pytest.fixture
def checkpoint(cli, tmp_path):
    path = tmp_path / "kept_job.py"
    path.write_text(JOB)
    result = cli("run", path, "--local", "--checkpoint", tmp_path / "c")
    assert result.exit_code == 0, result.stderr
    return tmp_path / "c"


def rows(result):
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def files(folder):
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def test_ls(cli, checkpoint):
    found = {row["step"]: row for row in rows(cli("state", "ls", checkpoint, "--epoch", "1", "--json"))}
    assert found["last"] == {
        "job": "kept", "epoch": 1, "step": "last", "operation": "process", "key": "user string", "state": "seen, notes",
        "keys": 1,
    }  # fmt: skip
    assert found["sums"]["state"].startswith("user, total")
    assert "kept, epoch 4, written on local" in cli("state", "ls", checkpoint).stdout


def test_get_a_key_at_an_epoch(cli, checkpoint):
    shown = [rows(cli("state", "get", checkpoint, "last", "a", "--epoch", epoch, "--json"))[0] for epoch in (0, 2)]
    assert [row["seen"] for row in shown] == [0, 2]
    assert shown[1]["notes"] == [["x", 4]]
    assert shown[1]["timers"]["event"] == [10**9]
    header, line = cli("state", "get", checkpoint, "last", "a").stdout.splitlines()
    assert (header.split()[:2], line.split()[:2]) == (["user", "seen"], ["a", "2"])


def test_a_key_that_is_not_there(cli, checkpoint):
    assert cli("state", "get", checkpoint, "last", "zoe", "--epoch", "2").exit_code == 1
    assert "SAVE-011" in cli("state", "get", checkpoint, "last", "a", "b").stderr
    assert "SAVE-010" in cli("state", "get", checkpoint, "paid", "a").stderr
    assert "CKPT-017" in cli("state", "get", checkpoint, "last", "a", "--epoch", "99").stderr


def test_diff(cli, checkpoint):
    result = cli("state", "diff", f"{checkpoint}@2", f"{checkpoint}@3", "last", "--json")
    assert result.exit_code == 1
    changed = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(row["in"], row["user"], row["seen"]) for row in changed] == [("b", "b", 9)]
    assert cli("state", "diff", f"{checkpoint}@2", f"{checkpoint}@2").exit_code == 0
    assert cli("state", "diff", f"{checkpoint}@2", f"{checkpoint}@3").exit_code == 1


def test_nothing_is_changed(cli, checkpoint):
    before = files(checkpoint)
    cli("state", "ls", checkpoint)
    cli("state", "get", checkpoint, "sums")
    cli("state", "diff", f"{checkpoint}@1", checkpoint)
    cli("doctor", checkpoint)
    assert files(checkpoint) == before


def test_a_table_in_python(checkpoint):
    table = ms.read_state(checkpoint, "sums", epoch=3)
    assert {row["user"]: row["total"] for row in table.to_pylist()} == {"a": 3, "b": 9}
    assert {"mean.0", "mean.1"} <= set(table.column_names)
    assert ms.read_state(checkpoint, "last", epoch=0).column("seen").to_pylist() == [0]


def test_savepoints_of_both_kinds(cli, checkpoint):
    for options in ([], ["--native"]):
        name = f"s{len(options)}"
        assert cli("savepoint", "create", checkpoint, "--id", name, *options).exit_code == 0
        where = checkpoint / "savepoints" / f"savepoint-{name}"
        assert ms.read_state(where, "sums").equals(ms.read_state(checkpoint, "sums"))
        assert "CKPT-017" in cli("state", "ls", where, "--epoch", "0").stderr


def test_a_ranking_shows_the_rows_that_count(tmp_path):
    """A row that was replaced lies marked in its segment until that is merged with others."""
    rows = [{"k": key, "n": n} for n, keys in enumerate((range(3000), range(20), range(10))) for key in keys]
    job = ms.Job("ranks", rows_per_epoch=3000, parallelism=1, max_parallelism=1)
    keyed = job.source("in", ms.memory(rows), schema="k long, n long").key_by("k")
    keyed.top_n(1, by="n desc", id="best").sink("out", ms.collect("ranks"))
    job.run(local=True, checkpoint=tmp_path)
    epochs = [ms.read_state(tmp_path, "best:best", epoch=epoch) for epoch in (0, 1)]
    assert [table.num_rows for table in epochs] == [3000, 3000]
    assert sorted(epochs[1].column("n").to_pylist()) == [0] * 2980 + [1] * 10 + [2] * 10
