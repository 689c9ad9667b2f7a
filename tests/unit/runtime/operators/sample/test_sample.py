"""A share of the rows of each key: exact, even, and the same however the run is cut."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream as ms
from millstream.errors import InvalidStep
from millstream.graph.operations.sample import MILLION
from millstream.runtime.operators.sample.operator import are_kept
from millstream.testing import run_job


def job_of(rate):
    job = ms.Job("sampled")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    rows.key_by("k").sample(rate, id="some").sink("out", ms.collect("out"))
    return job


@settings(max_examples=30, deadline=None)
@given(
    keys=st.lists(st.sampled_from(["a", "b", None]), max_size=60),
    rate=st.sampled_from([1, 0.5, 0.1, 1 / 3, 0.999, 0.000001]),
    cut=st.fixed_dictionaries({"parallelism": st.integers(1, 3), "rows_per_epoch": st.integers(1, 50)}),
)
def test_each_key_keeps_its_share_wherever_a_run_is_cut(keys, rate, cut):
    rows = [{"k": key, "n": number} for number, key in enumerate(keys)]
    kept = run_job(job_of(rate), {"in": rows}, **cut)
    whole = run_job(job_of(rate), {"in": rows}, parallelism=1, rows_per_epoch=1000)
    assert sorted(row["n"] for row in kept["out"]) == sorted(row["n"] for row in whole["out"])
    counts = Counter(keys)
    for key, count in Counter(row["k"] for row in kept["out"]).items():
        assert count - 1 < counts[key] * rate + 1e-3, "no more than the share, rounded up"
        assert count > counts[key] * rate - 1
    assert {row["k"] for row in kept["out"]} == set(keys), "the first row of each key stays"


def test_a_key_with_very_many_rows_keeps_its_share():
    numbers = 2**62 // MILLION * MILLION + np.arange(20)
    assert np.flatnonzero(are_kept(numbers, 300_000)).tolist() == [0, 4, 7, 10, 14, 17], "no product overflows"


@pytest.mark.parametrize("rate", [0, -0.1, 1.1, 1e-7, float("nan"), float("inf"), "0.1", True, None])
def test_what_is_no_share_is_refused(rate):
    with pytest.raises(InvalidStep, match="STEP-270"):
        job_of(rate)


def test_the_rate_may_change():
    """What is kept of a key is how many rows it had, whatever share of them stayed."""
    before, after = (job_of(rate).compile().partitioned.fingerprint for rate in (0.5, 0.25))
    assert before == after


def test_a_job_file_may_sample(tmp_path):
    (tmp_path / "job.yaml").write_text(
        "job: sampled\nsteps:\n"
        "  - source: in\n    from: {memory: {rows: []}}\n    schema: k string, n long\n"
        "  - sample: 0.1\n    key_by: [k]\n    id: some\n"
        "  - sink: out\n    to: {collect: {name: out}}\n"
    )
    model = ms.load_job(tmp_path / "job.yaml").model
    assert next(step for step in model.steps if step.id == "some").operation.describe() == "0.1 of the rows of each key"
