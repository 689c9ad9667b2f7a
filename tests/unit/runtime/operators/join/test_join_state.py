"""Joins forget: what can find no partner any more does not stay in state, and nothing is due without reason."""

import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.runtime.operators.join import streams, temporal
from millstream.state.pages import NEVER

SCHEMA = "side string, k string, n long, at long"


def job_of(build):
    job = ms.Job("joins", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema=SCHEMA).event_time("at")
    left = rows.filter("side = 'l'", id="l").select("k", "n", "at", id="left")
    right = rows.filter("side = 'r'", id="r").select("k", "n", "at", id="right")
    build(left.key_by("k"), right.key_by("k")).sink("out", ms.collect("x"))
    return job


def row(side, k, n, at):
    return {"side": side, "k": k, "n": n, "at": at}


def stored_rows(epochs):
    """Rows in the segments of both sides."""
    found = 0
    for store in epochs.stores.values():
        names = [name for name in store if "index" not in name and not name.endswith("directory")]
        found += len(names)
    return found


def test_an_interval_join_keeps_nothing_behind_its_bounds():
    epochs = Epochs(
        job_of(lambda left, right: left.join(right, within=("-1s", "2s"), how="full", prefix="r_", id="j")),
        parallelism=2,
    )
    made = epochs.run([row("l", "x", 1, 0), row("r", "y", 2, 0), row("l", "z", 3, 5000), row("r", "z", 4, 5000)])
    assert [(r["n"], r["r_n"]) for r in made["out"]] == [(3, 4)]
    assert made.event_due["j"] == 1000, "the right row without a partner has had its last chance one second later"
    assert epochs.run(watermark=999)["out"] == []
    made = epochs.run(watermark=1000)
    assert [(r["n"], r["r_n"]) for r in made["out"]] == [(None, 2)]
    assert made.event_due["j"] == 2000
    made = epochs.run(watermark=2000)
    assert [(r["n"], r["r_n"]) for r in made["out"]] == [(1, None)]
    assert made.event_due["j"] == NEVER
    made = epochs.run(watermark=8000)
    assert made["out"] == []
    assert epochs.is_empty


def test_an_inner_join_is_never_due():
    epochs = Epochs(job_of(lambda left, right: left.join(right, within=("-1s", "2s"), prefix="r_", id="j")))
    made = epochs.run([row("l", "x", 1, 0), row("r", "y", 2, 0)])
    assert made.event_due["j"] == NEVER
    epochs.run(watermark=8000)
    assert epochs.is_empty


def test_a_window_join_is_due_once_for_each_window():
    def build(left, right):
        return left.window(ms.sliding("4s", "2s"), allowed_lateness="1s").join(right, prefix="r_", id="j")

    epochs = Epochs(job_of(build))
    made = epochs.run([row("l", "x", 1, 1000), row("r", "x", 2, 3000)])
    assert made.event_due["j"] == 1999
    made = epochs.run(watermark=1999)
    assert made["out"] == []
    assert made.event_due["j"] == 3999
    made = epochs.run(watermark=3999)
    assert len(made["out"]) == 1
    assert made.event_due["j"] == 5999
    made = epochs.run(watermark=5999)
    assert made["out"] == []
    assert made.event_due["j"] == NEVER
    epochs.run(watermark=7000)
    assert epochs.is_empty


def test_a_temporal_join_forgets_versions_that_were_replaced():
    epochs = Epochs(job_of(lambda left, right: left.temporal_join(right, prefix="r_", id="j")))
    for number in range(40):
        rows = [row("r", key, number, number * 1000) for key in ("x", "y")]
        epochs.run([*rows, row("l", "x", number, number * 1000 + 500)], watermark=max(0, number - 2) * 1000)
    made = epochs.run(watermark=100_000)
    assert [(r["n"], r["r_n"]) for r in made["out"]][-1] == (39, 39)
    assert made.event_due["j"] == NEVER
    versions = sum(
        store.get(name) is not None and 1
        for store in epochs.stores.values()
        for name in store
        if name.startswith("j:right/") and not name.endswith("directory")
    )
    assert versions <= 8


def test_rows_kept_for_a_time_are_forgotten_by_the_clock():
    epochs = Epochs(job_of(lambda left, right: left.join(right, keep="10s", prefix="r_", id="j")))
    epochs.run([row("l", "x", 1, 0)], now=0)
    assert len(epochs.run([row("r", "x", 2, 0)], now=9999)["out"]) == 1
    assert epochs.run([row("r", "x", 3, 0)], now=10_000)["out"] == []
    epochs.run(now=30_000)
    assert epochs.is_empty


def test_a_row_that_comes_when_its_last_chance_has_passed_is_given_at_once():
    def build(left, right):
        return left.join(right, within=("2s", "5s"), how="right", prefix="r_", id="j")

    epochs = Epochs(job_of(build))
    made = epochs.run([row("r", "x", 1, 10_000), row("r", "y", 2, 12_000)], watermark=9000)
    assert [(r["n"], r["r_n"]) for r in made["out"]] == [(None, 1)]
    made = epochs.run([row("l", "y", 3, 9500)])
    assert [(r["n"], r["r_n"]) for r in made["out"]] == [(3, 2)]


@pytest.mark.parametrize(
    ("module", "name", "build"),
    [
        (streams, "_first_unmatched", lambda left, right: left.join(right, within=(0, 1), how="left", prefix="r_")),
        (temporal, "_first_waiting", lambda left, right: left.temporal_join(right, how="left", prefix="r_")),
    ],
    ids=["interval", "temporal"],
)
def test_segments_that_are_due_a_millisecond_too_late_are_opened_in_time(module, name, build, monkeypatch):
    """Earlier versions gave rows up one millisecond behind their last chance, and stored that instant."""
    first = getattr(module, name)
    epochs = Epochs(job_of(build), parallelism=2)
    with monkeypatch.context() as earlier:
        earlier.setattr(module, name, lambda segment, **options: first(segment, **options) + 1)
        last_chance = min(epochs.run([row("l", "x", 1, 1000)]).event_due.values()) - 1
    assert epochs.run(watermark=last_chance - 1)["out"] == []
    assert [r["n"] for r in epochs.run(watermark=last_chance)["out"]] == [1]
    epochs.run(watermark=9000)
    assert epochs.is_empty


def test_a_late_version_is_kept_no_longer_than_another_one():
    epochs = Epochs(job_of(lambda left, right: left.temporal_join(right, prefix="r_", id="j")))
    for number in range(40):
        rows = [row("r", "x", number, number * 1000), row("r", "x", -1, number * 1000 - 600)]
        made = epochs.run([*rows, row("l", "x", number, number * 1000 + 500)], watermark=number * 1000 - 500)
        assert made.counts["j"].late == 1
    made = epochs.run(watermark=100_000)
    assert [(r["n"], r["r_n"]) for r in made["out"]] == [(39, 39)]
    kept = [name for store in epochs.stores.values() for name in store if name.startswith("j:right/")]
    assert len(kept) <= 8
