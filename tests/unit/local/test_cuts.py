"""While rows keep to `max_delay`, random jobs give what plain Python gives, however they are cut into epochs and subtasks."""

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from time_jobs import SOURCES, Drawn, expected, job_of, scripts, steps

from millstream.testing import run_job

RUN = settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
cuts = st.fixed_dictionaries({"parallelism": st.integers(1, 3), "rows_per_epoch": st.sampled_from([1, 1, 2, 3, 7])})


def check(drawn, inputs, **cut):
    output = run_job(job_of(drawn), inputs, **cut)
    found = {name: sorted((row["k"], row["n"]) for row in rows) for name, rows in output.sinks.items()}
    assert found == expected(drawn, inputs)
    assert not {step: counts.late for step, counts in output.counts.items() if counts.late}


@RUN
@given(steps(), st.fixed_dictionaries({name: scripts() for name in SOURCES}), cuts)
def test_random_jobs(drawn, inputs, cut):
    check(drawn, inputs, **cut)


def rows_at(*times):
    return [{"k": 1, "n": 1, "at": at} for at in times]


def test_windows_of_a_source_that_ended_behind_a_union():
    drawn = [
        Drawn("windows", (0,), {"window": ("tumbling", 20)}),
        Drawn("union", (0, 2), {}),
        Drawn("windows", (0,), {"window": ("tumbling", 50)}),
    ]
    check(drawn, {"one": rows_at(0, 30, 60, 90, 120), "other": rows_at(0)}, rows_per_epoch=1)


def test_windows_behind_a_temporal_join_and_an_outer_interval_join():
    window = {"window": ("tumbling", 20)}
    for join in (Drawn("as of", (0, 1), {"how": "left"}), Drawn("near", (0, 1), {"how": "left", "within": (0, 0)})):
        drawn = [join, Drawn("windows", (0,), window)]
        rows = rows_at(0, 19, 39, 40, 59, 60, 80, 200)
        check(drawn, {"one": rows, "other": rows}, rows_per_epoch=1)
