"""What is made of the reports of a run, as functions over values."""

import pytest

from millstream.api.running.result import EpochSummary, Holder, Load, PartitionWatermark, VertexLoad
from millstream.control.lifecycle.states import Status
from millstream.control.refusals import UnknownName
from millstream.control.sights.progress import holder_of, progress_of
from millstream.control.sights.sight import RunSight, SeenEpoch
from millstream.control.sights.vertices import attempts_of, level_of, pressure_of, subtasks_of, vertices_of
from millstream.control.sights.watermarks import watermarks_of
from millstream.model.counts import StepCounts
from millstream.model.time import MIN_TIME


def vertex(id, level, *steps):
    told = [{"id": step, "uid": step, "kind": "map"} for step in (steps or (id,))]
    return {"id": id, "uid": f"uid-{id}", "name": id, "level": level, "parallelism": 2, "is_keyed": True, "steps": told}


GRAPH = {
    "vertices": [vertex("a", 0), vertex("b", 0, "b", "time-b"), vertex("join", 1), vertex("late", 2, "late", "time-l")],
    "edges": [
        {"source": "a", "target": "join"},
        {"source": "b", "target": "join"},
        {"source": "join", "target": "late"},
    ],
}


def load(busy, blocked, subtasks=2):
    return VertexLoad(
        busy=busy, idle=0.0, blocked=blocked, rows_in=100, rows_out=90, bytes_in=7, bytes_out=8, subtasks=subtasks
    )


def epoch(number, at, *, seconds=2.0, **more):
    given = {"rows_in": 100, "rows_out": 90, "lag": 5, "watermark": MIN_TIME, "terminal": False}
    return SeenEpoch(at, EpochSummary(epoch=number, seconds=seconds, **{**given, **more}))


def sight(*epochs, **more):
    given = {"run": "r", "status": Status.RUNNING, "source": "live", "now": 110.0, "graph": GRAPH}
    return RunSight(**{**given, "epochs": epochs, **more})


def test_shares_of_the_window_of_the_worst_subtask_and_of_all():
    told = {"load": Load(vertices={"a": load(1.5, 0.5)}), "busy": {"a": 2.0}}
    seen = sight(
        epoch(0, 102.0, **told), epoch(1, 108.0, **told), counts={"a": StepCounts(rows_in=9, failed=1, late=2)}
    )
    first = vertices_of(seen)[0]
    assert first["load"] == {"busy": 0.3, "blocked": 0.1, "idle": 0.6, "mean_busy": 0.2, "level": "ok"}
    assert (first["rows"]["in_per_second"], first["rows"]["dead"], first["rows"]["late"]) == (20.0, 1, 2)
    assert first["bytes"] == {"in": 7, "out": 8}


@pytest.mark.parametrize(("blocked", "level"), [(0.1, "ok"), (0.11, "low"), (0.5, "low"), (0.51, "high"), (None, None)])
def test_levels_are_those_of_flink(blocked, level):
    assert level_of(blocked) == level


def test_back_pressure_by_subtask():
    told = {"load": Load(vertices={"a": load(1.0, 1.0)}), "busy": {"a": 1.2}}
    seen = sight(epoch(0, 110.0, **told), measures={"a": {"0": (1.0, 70, 60), "1": (0.2, 30, 30)}})
    first, second = pressure_of(seen, "a")["subtasks"]
    assert first == {"subtask": 0, "level": "low", "busy": 0.5, "blocked": 0.5, "idle": 0.0}
    assert (second["busy"], second["idle"]) == (0.1, 0.4)
    assert [each["rows_in"] for each in subtasks_of(seen, "uid-a")] == [70, 30]


def test_a_watermark_is_the_lowest_of_what_comes_in_unless_a_step_states_it():
    held = PartitionWatermark(
        step="time-a", partition="p", watermark=1000, is_idle=False, is_holding=True, is_paused=False
    )
    steps = {"a": 1000, "time-b": 5000, "time-l": 700}
    seen = sight(epoch(0, 110.0, steps=steps, now=6000, watermarks=(held,)))
    told = {each["id"]: watermarks_of(seen, each) for each in GRAPH["vertices"]}
    assert {name: each["lag_seconds"] for name, each in told.items()} == {"a": 5.0, "b": 1.0, "join": 5.0, "late": 5.3}
    assert sorted(told["join"]["steps"]) == ["a", "time-b"]
    assert watermarks_of(sight(), GRAPH["vertices"][0])["watermark"] is None


def test_attempts_of_a_subtask_with_the_first_error():
    attempts = [
        {"epoch": 7, "attempts": [[0, 0, 0, "FINISHED", 0.1, ""], [1, 0, 0, "FAILED", None, "a worker was killed"]]},
        {"epoch": 8, "attempts": [[1, 0, 0, "FAILED", None, "again"], [1, 0, 1, "RUNNING", None, ""]]},
    ]
    seen = sight(epoch(7, 105.0), attempts=attempts)
    found = [(each["epoch"], each["attempt"], each["state"]) for each in attempts_of(seen, "join", 0)]
    assert found == [(7, 0, "FAILED"), (8, 0, "FAILED"), (8, 1, "RUNNING")]
    join = vertices_of(seen)[2]
    assert (join["first_error"], join["tasks"], join["status"]) == ("a worker was killed", {"RUNNING": 1}, "RUNNING")
    with pytest.raises(UnknownName, match="CTL-152"):
        attempts_of(seen, "join", 3)


def test_who_holds_the_job_back_and_why():
    held = Holder(step="slow", kind="map", vertex="a", seconds=1.8, share=0.9)
    busy = sight(epoch(0, 110.0, load=Load(holder=held)))
    assert (holder_of(busy)["step"], "90%" in holder_of(busy)["why"]) == ("slow", True)
    phases = sight(epoch(0, 110.0, phases={"tasks": 0.2, "persist": 1.6}))
    assert (holder_of(phases)["step"], holder_of(phases)["phase"]) == (None, "persist")
    waits = sight(epoch(0, 100.0, lag=0, seconds=0.5, load=Load(holder=held)))
    assert holder_of(waits)["step"] is None
    assert "nothing waits" in holder_of(waits)["why"]
    assert holder_of(sight()) is None


def test_progress_by_partition():
    seen = sight(epoch(0, 110.0, lags={"s/1": 4, "s/0": 1}, blocked={"s/1": "no leader"}, buffers={"s": 0.25}))
    told = progress_of(seen)
    assert told["rates"] == {"rows_in": 50.0, "rows_out": 45.0, "epochs": 0.5}
    assert [(each["partition"], each["rows"], each["blocked"]) for each in told["lag"]["partitions"]] == [
        ("0", 1, None),
        ("1", 4, "no leader"),
    ]
    assert (told["buffers"], told["watermark"]["lag_seconds"]) == ({"s": 0.25}, None)
    nothing = progress_of(sight())
    assert (nothing["rates"], nothing["lag"], nothing["holder"]) == (None, None, None)
