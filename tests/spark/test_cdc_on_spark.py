"""Sums over the changes of a table on Spark: a run dies, its successor is suspended, and the rest runs at another parallelism."""

import pytest
from tests.unit.connectors.postgres_cdc.cdc_totals import ChangingTable
from tests.unit.connectors.sources.cdc_under_test import CdcUnderTest

from millstream.errors import MillstreamError

pytestmark = pytest.mark.spark
_PATIENCE = "200s"


@pytest.mark.timeout(600)
def test_sums_are_those_of_the_table_at_every_epoch(spark, logical_postgres, tmp_path, failpoints):
    source = CdcUnderTest(logical_postgres, tmp_path)
    try:
        table = ChangingTable(source, tmp_path, "spark", epochs=4)
        first = {"checkpoint": tmp_path / "first", "master": "local[2]", "on_epoch": table.after_epoch}
        failpoints("durable:2:raise")
        with pytest.raises(MillstreamError, match="TEST-FAILPOINT"):
            table.job(parallelism=2).run(**first)
        failpoints("")
        running = table.job(parallelism=2).start(**first)
        table.wait_for(table.epochs + 1, running)
        suspended = running.suspend(to=tmp_path / "savepoint", timeout=_PATIENCE)
        second = {**first, "checkpoint": tmp_path / "second", "from_savepoint": suspended.savepoint}
        with pytest.raises(MillstreamError) as ended:
            table.job(parallelism=3).run(**second)
        assert table.is_done(ended.value), str(ended.value)
    finally:
        source.dispose()
