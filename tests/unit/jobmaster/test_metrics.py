"""Figures for Prometheus: every sample has help and type, unknown values are left out, labels are escaped."""

import re

from millstream.api.functions.user_metrics import StepMetrics, empty_spread
from millstream.api.running.result import EpochSummary, Load, PartitionWatermark, RunResult, VertexLoad
from millstream.jobmaster.metrics import file as figures_file
from millstream.jobmaster.metrics.file import MetricsFile
from millstream.jobmaster.metrics.totals import Totals
from millstream.model.counts import StepCounts
from millstream.model.time import MAX_TIME, MIN_TIME

NOW = 1_700_000_000.0


def prometheus(totals):
    return figures_file.prometheus(totals, now=NOW)


def summary(**changes):
    fields = {
        "epoch": 4,
        "rows_in": 10,
        "rows_out": 3,
        "lag": None,
        "watermark": MIN_TIME,
        "seconds": 0.5,
        "terminal": False,
    }
    return EpochSummary(**{**fields, "token": 7, "guarantee": "at_least_once", **changes})


def samples(text):
    return {line.split("{")[0]: line.rpartition(" ")[2] for line in text.splitlines() if not line.startswith("#")}


def test_totals_grow_with_the_epochs():
    totals = (
        Totals(job="j", guarantee="exactly_once", mode="STREAMING")
        .after(summary(), at=NOW - 3)
        .after(summary(epoch=5, lag=8, watermark=1000), at=NOW)
    )
    found = samples(prometheus(totals))
    assert found == {
        "millstream_guarantee": "1", "millstream_mode": "1", "millstream_epochs_total": "2", "millstream_rows_in_total": "20",
        "millstream_rows_out_total": "6", "millstream_failures_total": "0", "millstream_epoch": "5",
        "millstream_epoch_seconds": "0.5", "millstream_epoch_size_bytes": "0", "millstream_lag_rows": "8",
        "millstream_fencing_token": "7", "millstream_epoch_duration_seconds_bucket": "2",
        "millstream_epoch_duration_seconds_sum": "1", "millstream_epoch_duration_seconds_count": "2",
    }  # fmt: skip


def test_what_is_not_known_is_left_out():
    for watermark in (MIN_TIME, MAX_TIME):
        newest = summary(watermark=watermark, steps={"t": watermark})
        found = samples(prometheus(Totals(job="j", guarantee="best_effort", mode="STREAMING").after(newest, at=NOW)))
        assert "millstream_watermark_ms" not in found
        assert "millstream_watermark_lag_seconds" not in found
        assert "millstream_lag_rows" not in found


def test_watermarks_by_step_and_partition():
    def partition(name, watermark, **flags):
        known = {"is_idle": False, "is_holding": False, "is_paused": False, **flags}
        return PartitionWatermark(step="t", partition=name, watermark=watermark, **known)

    newest = summary(
        now=9_500,
        steps={"t": 4_000, 'u"': 5_000},
        watermarks=(
            partition("a/0", 4_000, is_holding=True),
            partition("a/1", 7_000, is_paused=True),
            partition("b", MIN_TIME, is_idle=True),
        ),
    )
    lines = prometheus(Totals(job="j", guarantee="exactly_once", mode="STREAMING").after(newest, at=NOW)).splitlines()
    assert [line for line in lines if "watermark" in line and not line.startswith("#")] == [
        'millstream_watermark_ms{job_name="j",step="t"} 4000',
        'millstream_watermark_ms{job_name="j",step="u\\""} 5000',
        'millstream_watermark_lag_seconds{job_name="j",step="t"} 5.5',
        'millstream_watermark_lag_seconds{job_name="j",step="u\\""} 4.5',
        'millstream_watermark_holder{job_name="j",step="t",partition="a/0"} 1',
        'millstream_partition_watermark_ms{job_name="j",step="t",partition="a/0"} 4000',
        'millstream_partition_watermark_ms{job_name="j",step="t",partition="a/1"} 7000',
    ]
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("millstream_partition_idle")] == list("001")
    assert [line.rpartition(" ")[2] for line in lines if line.startswith("millstream_partition_paused")] == list("010")
    helped = [line.split()[2] for line in lines if line.startswith("# HELP")]
    assert sorted(helped) == sorted(
        {re.sub("_(bucket|sum|count)$", "", line.split("{")[0]) for line in lines if not line.startswith("#")}
    )


def test_a_vertex_is_less_and_less_blocked_while_nothing_happens():
    vertex = VertexLoad(busy=1.0, idle=0.0, blocked=3.0, rows_in=1, rows_out=1, bytes_in=1, bytes_out=1)
    newest = summary(seconds=4.0, load=Load(vertices={"v": vertex}))
    totals = Totals(job="j", guarantee="exactly_once", mode="STREAMING").after(newest, at=10.0).after(newest, at=14.0)

    def ratios(now):
        found = samples(figures_file.prometheus(totals, now=now))
        return [float(found[f"millstream_vertex_{name}_ratio"]) for name in ("busy", "blocked", "idle")]

    assert ratios(14.0) == [0.25, 0.75, 0.0], "epochs followed each other at once"
    assert ratios(50.0) == [0.025, 0.075, 0.9], "no epoch came since"


def test_rows_of_a_sink_count_by_how_long_they_took():
    counts = {"out": StepCounts(rows_in=3, passed=3)}
    slow = summary(latency={"out": 4.0}, counts=counts)
    totals = Totals(job="j", guarantee="exactly_once", mode="STREAMING").after(slow, at=NOW)
    lines = prometheus(totals.after(summary(latency={"out": 20.0}, counts=counts), at=NOW)).splitlines()
    assert 'millstream_latency_seconds_bucket{job_name="j",sink="out",le="2.5"} 0' in lines
    assert 'millstream_latency_seconds_bucket{job_name="j",sink="out",le="5"} 3' in lines
    assert 'millstream_latency_seconds_bucket{job_name="j",sink="out",le="+Inf"} 6' in lines
    assert 'millstream_latency_seconds_sum{job_name="j",sink="out"} 72' in lines


def test_labels_are_escaped():
    assert 'job_name="a\\"b\\\\c"' in prometheus(Totals(job='a"b\\c', guarantee="exactly_once", mode="STREAMING"))


def test_the_file_is_replaced_as_a_whole(tmp_path):
    file = MetricsFile(tmp_path / "m.prom", job="j", guarantee="exactly_once", mode="STREAMING")
    file.epoch(summary())
    assert 'guarantee="at_least_once"' in (tmp_path / "m.prom").read_text()
    file.result(RunResult(job="j", checkpoint=None, epochs=1, rows_in=10, failures=2))
    assert samples((tmp_path / "m.prom").read_text())["millstream_failures_total"] == "2"
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]


def test_metrics_of_the_users_own_bear_their_names_as_labels(tmp_path):
    first = StepMetrics(counters={"hits": 2}, gauges={"depth": {0: 4.0, 1: 1.5}})
    spread = empty_spread((1.0, 5.0))
    for value in (0.5, 5, 7):
        spread.observe(value)
    second = StepMetrics(counters={"hits": 3, 'odd"name': 1}, gauges={"depth": {1: 2.5}}, histograms={"size": spread})
    file = MetricsFile(tmp_path / "figures", job="j", guarantee="exactly_once", mode="STREAMING")
    file.epoch(summary(metrics={"s": first}))
    file.epoch(summary(metrics={"s": second, "t": StepMetrics(counters={"hits": 9})}))
    lines = (tmp_path / "figures").read_text().splitlines()
    assert [line for line in lines if "millstream_user" in line and not line.startswith("# HELP")] == [
        "# TYPE millstream_user_counter_total counter",
        'millstream_user_counter_total{job_name="j",step="s",name="hits"} 5',
        'millstream_user_counter_total{job_name="j",step="s",name="odd\\"name"} 1',
        'millstream_user_counter_total{job_name="j",step="t",name="hits"} 9',
        "# TYPE millstream_user_gauge gauge",
        'millstream_user_gauge{job_name="j",step="s",name="depth",subtask="0"} 4',
        'millstream_user_gauge{job_name="j",step="s",name="depth",subtask="1"} 2.5',
        "# TYPE millstream_user_histogram histogram",
        'millstream_user_histogram_bucket{job_name="j",step="s",name="size",le="1"} 1',
        'millstream_user_histogram_bucket{job_name="j",step="s",name="size",le="5"} 2',
        'millstream_user_histogram_bucket{job_name="j",step="s",name="size",le="+Inf"} 3',
        'millstream_user_histogram_sum{job_name="j",step="s",name="size"} 12.5',
        'millstream_user_histogram_count{job_name="j",step="s",name="size"} 3',
    ]


def test_the_end_of_a_run_keeps_what_its_functions_counted(tmp_path):
    file = MetricsFile(tmp_path / "figures", job="j", guarantee="exactly_once", mode="STREAMING")
    result = RunResult(job="j", checkpoint=None)
    for hits in (2, 3):
        counted = summary(metrics={"s": StepMetrics(counters={"hits": hits})})
        result.add(counted, 1.0)
        file.epoch(counted)
    file.result(result)
    assert 'name="hits"} 5' in (tmp_path / "figures").read_text()
