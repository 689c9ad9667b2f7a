"""The state that real operators keep travels through a savepoint, each in its own form."""

import msgspec
import pytest
from tests.unit.state.savepoints import Subtasks, restored, savepoint_of

import millstream as ms
from millstream.checkpoint.savepoint import create_savepoint
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.inspect.state.view import SavepointState, StoreState, state_diff, state_get, state_table
from millstream.local.run import LocalPages, run
from millstream.plan.deployment import Deployment
from millstream.runtime.operators.layouts import layouts_of

KEYS = 23
ROWS = [{"k": f"u{i % KEYS}", "at": i, "v": i} for i in range(400)]


class Seen(ms.ProcessFunction):
    count = ms.ValueState(int)
    prices = ms.MapState(str, float)
    recent = ms.ListState(int, ttl="1h")

    def process(self, row, ctx):
        self.count.update((self.count.value() or 0) + 1)
        self.prices.put("last", row["v"] / 2)
        self.recent.update([row["v"]])
        ctx.event_timer(10**9 + row["v"])


def latest(held, came):
    return came


def job_of():
    job = ms.Job("savepoints", rows_per_epoch=1000, parallelism=2)
    stream = job.source("in", ms.memory(ROWS), schema="k string, at long, v long").event_time("at", max_delay="1s")
    keyed = stream.key_by("k")
    steps = {
        "seen": keyed.process(Seen, schema="k string", id="seen"),
        "latest": keyed.reduce(latest, id="latest"),
        "running": keyed.aggregate(n=ms.count(), top=ms.max("v"), emit="row", id="running"),
        "totals": keyed.aggregate(n=ms.sum("v"), emit="end", id="totals"),
        "bins": keyed.window(ms.tumbling("1s")).aggregate(n=ms.count(), mean=ms.avg("v"), id="bins"),
        "sessions": keyed.window(ms.session("5s")).aggregate(n=ms.count(), id="sessions"),
        "ordered": keyed.window(ms.session("5s")).aggregate(v=ms.last("v"), id="ordered"),
        "panes": keyed.window(ms.session("5s")).aggregate(n=ms.count(), pane=True, id="panes"),
        "clock": keyed.window(ms.tumbling("100d", time="processing")).aggregate(n=ms.count(), id="clock"),
        "counts": keyed.window(ms.count_window(1000)).aggregate(n=ms.count(), id="counts"),
    }
    for name, step in steps.items():
        step.sink(f"out_{name}", ms.collect(f"savepoints/{name}"))
    return job


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The layouts, and the subtasks' stores as the last epoch with open windows left them."""
    folder = tmp_path_factory.mktemp("run")
    deployment = job_of().compile(Deployment(checkpoint=str(folder))).deployment
    run(deployment)
    newest = sorted((folder / "local").rglob("state-*"))[-2]
    state = msgspec.msgpack.decode(newest.read_bytes(), type=dict[str, dict[str, bytes]])
    subtasks = Subtasks(2)
    subtasks.stores = [LocalPages(state[f"1/{subtask}"]) for subtask in range(2)]
    return layouts_of(deployment), subtasks


def test_every_form_of_state_is_carried(kept, tmp_path):
    layouts, subtasks = kept
    create_savepoint(tmp_path, savepoint_of(tmp_path, subtasks, layouts))
    made = verify_savepoint(tmp_path).savepoint
    assert {uid: made.entries(uid) for uid in layouts} == dict.fromkeys(layouts, KEYS)
    assert {layout.form for layout in layouts.values()} == {"entries", "columns"}
    for parallelism in (1, 3, 5):
        after, _ = restored(tmp_path, made, layouts, parallelism)
        for uid, layout in layouts.items():
            stored, loaded = SavepointState(tmp_path, made, uid), StoreState(list(after), layout)
            assert state_table(loaded).num_rows == KEYS
            assert state_diff(stored, loaded).num_rows == 0


def test_every_form_of_state_is_read(kept):
    layouts, subtasks = kept
    found = {uid: state_get(StoreState(list(subtasks), layouts[uid]), ["u3"]).to_pylist() for uid in layouts}
    last = max(row["v"] for row in ROWS if row["k"] == "u3")
    times = len([row for row in ROWS if row["k"] == "u3"])
    assert [len(rows) for rows in found.values()] == [1] * len(layouts)
    seen = found["seen"][0]
    assert (seen["k"], seen["count"], seen["prices"], seen["recent"]) == ("u3", times, [("last", last / 2)], [last])
    assert len(seen["timers"]["event"]) == times
    assert found["sessions"][0]["__ms_end"] == last + 5000
    for step in ("ordered", "panes"):
        assert found[step][0]["timers"]["event"] == [last + 4999]
    assert found["panes"][0]["windows"] == f"[[3,{last + 5000},[{times}],{last},0,false,[],[{last + 4999}],[],[]]]"
    assert found["counts"][0]["windows"].startswith("[[-")
    assert found["clock"][0]["__ms_part0_0"] == times
