"""Nexmark events as Parquet files, and the command that writes them."""

import pyarrow.parquet as pq
from typer.testing import CliRunner

from millstream.cli.main import app
from millstream.connectors.nexmark.dataset import event_table, write_parquet
from millstream.connectors.nexmark.spec import nexmark


def generate(*arguments):
    return CliRunner().invoke(app, ["nexmark", "generate", *map(str, arguments)])


def test_files_hold_the_events_in_order(tmp_path):
    (tmp_path / "part-00009.parquet").write_text("of an earlier call")
    paths = write_parquet(tmp_path, nexmark(2_500, kinds="bid"), events_per_file=1_000)
    assert [path.name for path in paths] == [f"part-0000{n}.parquet" for n in range(3)]
    assert sorted(tmp_path.iterdir()) == paths
    assert pq.read_table(tmp_path).equals(event_table(nexmark(2_500, kinds="bid")))
    assert pq.read_metadata(paths[2]).num_rows == 460


def test_a_file_without_rows_of_the_kind_has_its_columns(tmp_path):
    (path,) = write_parquet(tmp_path, nexmark(10, kinds="person"))
    assert pq.read_table(path).equals(event_table(nexmark(10, kinds="person")))


def test_the_command_writes_a_folder_per_kind(tmp_path):
    kinds = ["--kinds", "all", "--kinds", "auction"]
    result = generate("--events", 1_000, "--seed", 7, "--rate", 500, "--out", tmp_path, "--format", "parquet", *kinds)
    assert result.exit_code == 0, result.output
    assert "1,000 events" in result.stdout
    assert pq.read_table(tmp_path / "all").equals(event_table(nexmark(1_000, seed=7, rate=500)))
    assert pq.read_table(tmp_path / "auction").equals(event_table(nexmark(1_000, seed=7, rate=500, kinds="auction")))


def test_the_command_refuses_what_it_does_not_know(tmp_path):
    assert generate("--events", 10, "--out", tmp_path, "--format", "csv").exit_code == 2
    refused = generate("--events", 10, "--out", tmp_path, "--kinds", "bids")
    assert (refused.exit_code, "auction" in refused.stderr) == (3, True)
    assert generate("--events", 10, "--out", tmp_path, "--rate", 0).exit_code == 3
    assert not any(tmp_path.rglob("*.parquet"))
