"""Results do not depend on the order of arrival within the allowed delay, on how a run is cut into epochs, on its parallelism,
on crashes, on a savepoint on the way, on the state backend, or on how little state may be held at once."""

from hypothesis import HealthCheck, Phase, given, settings
from job_family import as_they_come_job, in_time_job, rows_in_time, run_as, straight, ways

# A failure is shown as it was found: making it smaller would take minutes.
RUN = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)


@settings(RUN, max_examples=60)
@given(rows_in_time(), rows_in_time(name="right"), ways)
def test_event_time_decides(left, right, way):
    expected = straight(in_time_job(), {"left": left[0], "right": right[0]})
    assert run_as(in_time_job(), {"left": left[1], "right": right[1]}, way) == expected


@settings(RUN, max_examples=60)
@given(rows_in_time(most=25), ways)
def test_the_order_within_a_key_decides(rows, way):
    expected = straight(as_they_come_job(), {"left": rows[1]})
    assert run_as(as_they_come_job(), {"left": rows[1]}, way) == expected


def test_the_comparison_can_fail():
    rows = [{"k": "a", "v": number, "at": number, "n": number} for number in range(4)]
    for job in (as_they_come_job, in_time_job):
        inputs = {"left": rows, "right": rows} if job is in_time_job else {"left": rows}
        fewer = {name: script[:-1] for name, script in inputs.items()}
        whole, part = straight(job(), inputs), straight(job(), fewer)
        assert {name for name in whole if whole[name] == part[name]} <= {"first", "again-out", "timers-out"}
    assert straight(as_they_come_job(), {"left": rows}) != straight(as_they_come_job(), {"left": rows[::-1]})
