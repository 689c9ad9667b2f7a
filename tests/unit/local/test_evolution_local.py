"""A job whose steps, sources and sinks changed goes on from a savepoint, or in place where its state may stay as it lies."""

import pytest
from evolving import (
    ROWS,
    SCHEMA,
    STRAIGHT,
    SUMS,
    Sum,
    SumAndCount,
    forget,
    go_on,
    new_job,
    new_rows,
    refused,
    saved,
    source,
    summing,
)
from stories import Ask, play

import millstream as ms
from millstream.connectors.collect.sink import clear, collected
from millstream.errors import CheckpointRefused


@pytest.fixture(autouse=True)
def fresh():
    yield
    forget()


def test_the_same_job_goes_on(tmp_path):
    saved(summing(), tmp_path)
    go_on(summing(), tmp_path)
    assert new_rows() == STRAIGHT


def test_stateless_steps_come_go_and_change(tmp_path):
    job = new_job()
    made = source(job).filter("v >= 0").key_by("k").process(Sum, schema=SUMS, id="sums")
    made.map(lambda row: row, schema=SUMS).sink("out", ms.collect("evolving/sums"))
    saved(job, tmp_path)
    changed = new_job()
    rows = source(changed).with_columns(w="v * 2").filter("v <> 7").select("k", "v", "at")
    rows.key_by("k").process(Sum, schema=SUMS, id="sums").filter("x > 0").sink("out", ms.collect("evolving/sums"))
    go_on(changed, tmp_path)
    assert sorted(new_rows()) == sorted([("a", 12), ("a", 20), ("b", 18), ("a", 30), ("b", 29)])


def test_a_new_keyed_step_starts_empty(tmp_path):
    saved(summing(), tmp_path)
    changed = new_job(parallelism=3)
    keyed = source(changed).key_by("k")
    keyed.process(Sum, schema=SUMS, id="extra").sink("extra.out", ms.collect("evolving/extra"))
    keyed.process(Sum, schema=SUMS, id="sums").sink("out", ms.collect("evolving/sums"))
    go_on(changed, tmp_path)
    assert sorted(new_rows()) == sorted(STRAIGHT)
    assert sorted(new_rows("extra", 0)) == sorted([("a", 6), ("b", 7), ("a", 14), ("b", 16), ("a", 24), ("b", 27)])


def test_a_step_that_is_gone_needs_a_word(tmp_path):
    job = new_job()
    keyed = source(job).key_by("k")
    keyed.process(Sum, schema=SUMS, id="extra").sink("extra.out", ms.collect("evolving/extra"))
    keyed.process(Sum, schema=SUMS, id="sums").sink("out", ms.collect("evolving/sums"))
    saved(job, tmp_path)
    problem = refused(summing(), tmp_path)
    assert problem.code == "CKPT-040"
    assert problem.step == "extra"
    assert "allow-dropped-state" in problem.hint
    go_on(summing(), tmp_path, allow_dropped_state=True)
    assert new_rows() == STRAIGHT
    assert len(collected("evolving/extra")) == 6, "what its sink wrote stays"


def test_a_renamed_step_keeps_its_state_by_uid(tmp_path):
    saved(summing(), tmp_path)
    assert refused(summing(id="totals"), tmp_path).code == "CKPT-040"
    go_on(summing(id="totals", uid="sums"), tmp_path)
    assert new_rows() == STRAIGHT


def timed(*, names=("in", "time", "bins", "out"), uids=(None, None, None, None), parallelism=2):
    """Windows over event time, all steps with names."""
    job = new_job(parallelism)
    rows = source(job, name=names[0], uid=uids[0]).event_time("at", max_delay="50ms", id=names[1], uid=uids[1])
    bins = rows.key_by("k").window(ms.tumbling("500ms"))
    made = bins.aggregate(x=ms.sum("v"), id=names[2], uid=uids[2]).select("k", "x")
    made.sink(names[3], ms.collect("evolving/sums"), uid=uids[3])
    return job


def test_everything_is_renamed_at_once(tmp_path):
    """Positions, watermarks and what the planner knows of partitions follow the uids too."""
    told = play(timed(), tmp_path / "straight")
    wanted = sorted(new_rows(known=0))
    clear("evolving/sums")
    old = play(timed(), tmp_path / "old", Ask(after=4, to=tmp_path, id="s"))
    assert 0 < len(collected("evolving/sums")) < len(wanted)
    renamed = timed(names=("rows", "clock", "panes", "sums"), uids=("in", "time", "bins", "out"), parallelism=3)
    new = go_on(renamed, tmp_path)
    assert old.result.rows_in + new.result.rows_in == told.result.rows_in
    assert sorted(new_rows(known=0)) == wanted
    assert new.epochs[0].watermark == 849, "the newest time of the partition, 900, is known under the new names"


def test_a_renamed_source_without_uid_is_another_source(tmp_path):
    saved(timed(), tmp_path)
    problem = refused(timed(names=("rows", "time", "bins", "out")), tmp_path)
    assert problem.step == "in"
    assert "source 'in' is dropped" in problem.message
    told = go_on(timed(names=("rows", "time", "bins", "out")), tmp_path, allow_dropped_state=True)
    assert told.result.rows_in == len(ROWS), "a new source starts at its beginning"


def test_sources_come_and_go(tmp_path):
    def job(*names):
        made = new_job()
        first, *rest = (source(made, name=name) for name in names)
        rows = first.union(*rest) if rest else first
        rows.key_by("k").process(Sum, schema=SUMS, id="sums").sink("out", ms.collect("evolving/sums"))
        return made

    saved(job("in"), tmp_path)
    told = play(
        job("in", "more"), tmp_path / "1", Ask(after=0, to=tmp_path, id="s2"), savepoint=tmp_path / "savepoint-s"
    )
    read = {step: counts.rows_in for step, counts in told.result.counts.items() if step in ("in", "more")}
    assert read == {"in": 1, "more": 1}
    with pytest.raises(CheckpointRefused, match="source 'in' is dropped"):
        play(job("more"), tmp_path / "2", savepoint=tmp_path / "savepoint-s2")
    last = play(job("more"), tmp_path / "2", savepoint=tmp_path / "savepoint-s2", allow_dropped_state=True)
    assert last.result.rows_in == 11
    assert new_rows()[-1] == ("b", 9 + 36)


def test_sinks_come_and_go(tmp_path):
    def job(*sinks):
        made = new_job()
        sums = source(made).key_by("k").process(Sum, schema=SUMS, id="sums")
        for sink in sinks:
            sums.sink(f"{sink}.out", ms.collect(f"evolving/{sink}"))
        return made

    saved(job("sums"), tmp_path)
    play(job("extra", "sums"), tmp_path / "1", Ask(after=0, to=tmp_path, id="s2"), savepoint=tmp_path / "savepoint-s")
    play(job("extra"), tmp_path / "2", savepoint=tmp_path / "savepoint-s2")
    assert new_rows() == STRAIGHT[:2]
    assert new_rows("extra", 0) == STRAIGHT


def test_reordered_steps_find_their_state(tmp_path):
    def job(*order):
        made = new_job(3)
        keyed = source(made).key_by("k")
        steps = {"sums": (Sum, "sums"), "counted": (SumAndCount, "extra")}
        for name in order:
            function, sink = steps[name]
            keyed.process(function, schema=SUMS, id=name).sink(f"{sink}.out", ms.collect(f"evolving/{sink}"))
        return made

    saved(job("sums", "counted"), tmp_path)
    go_on(job("counted", "sums"), tmp_path)
    assert sorted(new_rows()) == sorted(STRAIGHT)
    counted = [(k, x + 1000 * n) for (k, x), n in zip(STRAIGHT, (4, 4, 5, 5, 6, 6), strict=True)]
    assert sorted(new_rows("extra")) == sorted(counted)


def test_a_step_moves_to_another_level(tmp_path):
    """The keyed step stands behind another one now; its pages are of its uid, not of its place."""
    saved(summing(), tmp_path)
    changed = new_job()
    rows = source(changed).key_by("v").process(Through, schema=SCHEMA, id="through")
    rows.key_by("k").process(Sum, schema=SUMS, id="sums").sink("out", ms.collect("evolving/sums"))
    go_on(changed, tmp_path)
    assert sorted(new_rows()) == sorted(STRAIGHT)


class Through(ms.ProcessFunction):
    def process(self, row, ctx):
        yield row


# In place, without a savepoint.


def in_place(job, tmp_path, **flags):
    return play(job, tmp_path / "old", **flags)


def test_stateless_changes_go_on_in_place(tmp_path):
    saved(summing(), tmp_path)
    changed = new_job()
    rows = source(changed).with_columns(w="v").filter("v <> 7").select("k", "v", "at")
    sums = rows.key_by("k").process(Sum, schema=SUMS, id="sums")
    sums.sink("out", ms.collect("evolving/sums"))
    sums.sink("extra.out", ms.collect("evolving/extra"))
    told = in_place(changed, tmp_path)
    assert told.result.resumed_from == 3
    assert sorted(new_rows()) == sorted([("a", 12), ("a", 20), ("b", 18), ("a", 30), ("b", 29)])
    assert sorted(new_rows("extra", 0)) == sorted(new_rows())


def test_a_source_is_added_in_place(tmp_path):
    saved(summing(), tmp_path)
    changed = new_job()
    source(changed).union(source(changed, name="more")).key_by("k").process(Sum, schema=SUMS, id="sums").sink(
        "out", ms.collect("evolving/sums")
    )
    told = in_place(changed, tmp_path)
    assert told.result.rows_in == 6 + len(ROWS)
    assert max(new_rows()) == ("b", 2 * 36)


def test_changed_state_in_place_asks_for_a_savepoint(tmp_path):
    saved(summing(), tmp_path)
    for job in (summing(SumAndCount), summing(id="totals")):
        with pytest.raises(CheckpointRefused) as caught:
            in_place(job, tmp_path)
        assert "savepoint" in caught.value.hint or "uid=" in caught.value.hint
    in_place(summing(), tmp_path)
    assert new_rows() == STRAIGHT
