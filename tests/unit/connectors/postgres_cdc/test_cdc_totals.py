"""Sums over the changes of a table are those of the table itself, epoch by epoch, whatever happens to rows and to the job."""

import pytest
from tests.unit.connectors.postgres_cdc.cdc_totals import ChangingTable

from millstream.errors import MillstreamError

SEEDS = range(4)
PLACES = ("staged", "prepared", "durable", "published")


@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_those_of_the_table_at_every_epoch(make_source, tmp_path, failpoints, seed):
    table = ChangingTable(make_source(), tmp_path, seed)
    failpoints(f"{PLACES[seed % 4]}:{4 + seed % 5}:raise")
    with pytest.raises(MillstreamError, match="TEST-FAILPOINT"):
        table.job().run(local=True, checkpoint=tmp_path / "checkpoint", on_epoch=table.after_epoch)
    failpoints("")
    with pytest.raises(MillstreamError) as ended:
        table.job().run(local=True, checkpoint=tmp_path / "checkpoint", on_epoch=table.after_epoch)
    assert table.is_done(ended.value), str(ended.value)
