"""What a job tells about its slot: how much of the log the server keeps for it, until what was read is published."""

import pytest

import millstream as ms
from millstream.errors import MillstreamError
from millstream.jobmaster.metrics.file import prometheus
from millstream.jobmaster.metrics.totals import Totals

_ENOUGH = 60
"""More epochs than it takes to see both."""


def test_the_log_that_is_kept_for_the_slot_is_told_and_idle_epochs_move_the_slot(make_source, tmp_path):
    source = make_source(count=1)
    table = ms.postgres_cdc(source.server.url, table=source.table, keys=["id"], slot=source.slot, idle="100ms")
    job = ms.Job("orders", epoch_interval="0ms")
    job.source("rows", table, schema=source.schema).sink("out", ms.files(str(tmp_path / "out"), format="json"))
    kept, confirmed = [], []

    def after_epoch(summary):
        kept.append(summary.retained.get(f"rows/{source.table}", 0))
        confirmed.append(source.confirmed())
        lines = prometheus(Totals(job="orders", guarantee="", mode="").after(summary, at=0), now=0).splitlines()
        if kept[-1]:
            told = [line for line in lines if line.startswith("millstream_source_retained_bytes{")]
            assert told == [
                f'millstream_source_retained_bytes{{job_name="orders",source="rows",partition="{source.table}"}} {kept[-1]}'
            ]
        # Another table fills the log; this one is quiet, so that only idle epochs can let it go.
        source.do("CREATE TABLE IF NOT EXISTS others (a int)")
        source.do(f"INSERT INTO others SELECT generate_series(1, {20_000 if len(kept) == 1 else 1})")
        assert len(kept) < _ENOUGH, kept
        if max(kept) > 1_000_000 and confirmed[-1] not in {None, *confirmed[:1]}:
            raise ms.MillstreamError("seen")  # when the server removes its log then is its own affair

    with pytest.raises(MillstreamError, match=r"STEP-265.*seen"):
        job.run(local=True, checkpoint=tmp_path / "checkpoint", on_epoch=after_epoch)
