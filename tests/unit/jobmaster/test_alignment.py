"""Which sources wait for slower ones, and that somebody always goes on."""

from hypothesis import given
from hypothesis import strategies as st

from millstream.graph.operations.watermark import EventTime, WatermarkSpec
from millstream.jobmaster.planner.alignment import paused, source_of
from millstream.jobmaster.planner.learned import PlannerState, Seen
from millstream.jobmaster.planner.watermarks import PlanningFacts, TimeStep

NOW = 1000


def step(name, *sources, align="g", drift=10, **options):
    return TimeStep(name, EventTime(column="at", align=align, max_drift=drift, **options), sources, True)


def seen(**steps):
    partitions = {
        name: {partition: Seen(newest + 1, NOW) for partition, newest in content.items()}
        for name, content in steps.items()
    }
    return PlannerState(started=0, partitions=partitions)


def waiting(steps, state, *, finished=(), selective=(), now=NOW):
    return paused(steps, state, PlanningFacts(now, finished, {}), selective)


def test_a_source_waits_when_it_is_ahead_by_more_than_the_drift():
    steps = [step("l", "a"), step("r", "b")]
    assert waiting(steps, seen(l={"a/0": 60}, r={"b/0": 50})) == []
    assert waiting(steps, seen(l={"a/0": 61}, r={"b/0": 50})) == ["a"]
    assert waiting(steps, seen(l={"a/0": 50}, r={"b/0": 61})) == ["b"]


def test_its_slowest_partition_counts():
    assert waiting([step("t", "a", "b")], seen(t={"a/0": 90, "a/1": 55, "b/0": 50})) == []
    assert waiting([step("t", "a", "b")], seen(t={"a/0": 90, "a/1": 61, "b/0": 50})) == ["a"]


def test_partitions_wait_where_a_source_can_leave_them_out():
    state = seen(t={"a/0": 90, "a/1": 55, "b/0": 50})
    assert waiting([step("t", "a", "b")], state, selective={"a"}) == ["a/0"]
    state = seen(t={"a/0": 90, "a/1": 61, "b/0": 50})
    assert waiting([step("t", "a", "b")], state, selective={"a"}) == ["a"], "all of it is ahead"


def test_idle_finished_and_silent_members_hold_nobody_back():
    steps = [step("l", "a"), step("r", "b", idle_after=5)]
    state = seen(l={"a/0": 90}, r={"b/0": 10})
    assert waiting(steps, state) == ["a"]
    assert waiting(steps, state, now=NOW + 5) == []
    assert waiting(steps, state, finished=("b",)) == []
    assert waiting(steps, seen(l={"a/0": 90})) == [], "it has shown nothing yet"
    without = [step("l", "a"), step("r", "b", watermark=WatermarkSpec(kind="none"))]
    assert waiting(without, state) == [], "it has no watermark to wait for"


def test_other_groups_and_steps_without_one_do_not_count():
    other = [step("l", "a"), step("r", "b", align="h"), TimeStep("n", EventTime(column="at"), ("c",), True)]
    assert waiting(other, seen(l={"a/0": 90}, r={"b/0": 10}, n={"c/0": 0})) == []


def test_every_member_has_its_own_drift():
    steps = [step("l", "a", drift=100), step("m", "b", drift=5), step("r", "c")]
    assert waiting(steps, seen(l={"a/0": 90}, m={"b/0": 17}, r={"c/0": 10})) == ["b"]


def test_the_slowest_of_one_group_is_read_though_it_is_ahead_in_another():
    """By one column a is ahead of b, by the other b is ahead of a: one of them must go on."""
    steps = [
        step("g1", "a"), step("g2", "b"),
        step("h1", "a", align="h"), step("h2", "b", align="h"),
    ]  # fmt: skip
    assert waiting(steps, seen(g1={"a/0": 90}, g2={"b/0": 10}, h1={"a/0": 10}, h2={"b/0": 90})) == []


members = st.dictionaries(
    st.tuples(st.sampled_from("abcd"), st.integers(0, 2)), st.tuples(st.integers(0, 99), st.booleans()), min_size=1
)


@given(
    groups=st.dictionaries(st.sampled_from("gh"), members, min_size=1),
    drift=st.integers(1, 40),
    finished=st.sets(st.sampled_from("abcd")),
    selective=st.sets(st.sampled_from("abcd")),
)
def test_somebody_who_is_not_ahead_can_always_go_on(groups, drift, finished, selective):
    steps = [step(f"t{group}", *"abcd", align=group, drift=drift, idle_after=5) for group in groups]
    partitions = {
        f"t{group}": {
            f"{source}/{number}": Seen(newest, NOW - (9 if idle else 0))
            for (source, number), (newest, idle) in found.items()
        }
        for group, found in groups.items()
    }
    state = PlannerState(started=0, partitions=partitions)
    found = waiting(steps, state, finished=finished, selective=selective)
    for content in partitions.values():
        active = {
            name: each.newest for name, each in content.items() if each.at == NOW and source_of(name) not in finished
        }
        lowest = min(active.values(), default=0)
        for name, newest in active.items():
            if newest == lowest:
                assert name not in found
                assert source_of(name) not in found
    assert not {source_of(name) for name in found} & finished
    assert all("/" not in name or source_of(name) in selective for name in found)
