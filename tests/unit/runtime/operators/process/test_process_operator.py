"""Process functions: timers, state, side outputs and error policies, epoch by epoch."""

import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.errors import StepFailed
from millstream.state.pages import NEVER

ROW = "k string, at long, v string"


def job_of(function, *, on_error="fail", outputs=None, timed=True, schema="k string, text string"):
    job = ms.Job("process", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema=ROW)
    rows = rows.event_time("at") if timed else rows
    made = rows.key_by("k").process(function, schema=schema, outputs=outputs, on_error=on_error, id="p")
    made.sink("out", ms.collect("x"))
    for name in outputs or ():
        made.side_output(name).sink(name, ms.collect(name))
    return job


def row(k, v, at=0):
    return {"k": k, "at": at, "v": v}


def texts(made, sink="out"):
    return [each["text"] for each in made[sink]]


class Timers(ms.ProcessFunction):
    """Does what the row's text says: `e5` sets an event timer at 5, `-e5` deletes it, `p5` a processing timer."""

    kept = ms.ValueState(str)

    def process(self, row, ctx):
        for word in row["v"].split():
            kind, at = word.lstrip("-")[0], int(word.lstrip("-")[1:])
            delete = "delete_" if word.startswith("-") else ""
            getattr(ctx, f"{delete}{'event' if kind == 'e' else 'processing'}_timer")(at)

    def on_timer(self, timestamp, ctx):
        yield {"k": ctx.key[0], "text": f"{ctx.key[0]}{timestamp} ts={ctx.timestamp} wm={ctx.watermark}"}


def fired(made):
    return [text.split()[0] for text in texts(made)]


def test_timers_fire_in_the_order_of_time_across_keys_and_pages():
    run = Epochs(job_of(Timers), page_bytes=1)
    keys = "abcdefgh"
    run.run([row(key, f"e{100 - i} e{i}") for i, key in enumerate(keys)])
    made = run.run([], 200)
    expected = sorted([(i, key) for i, key in enumerate(keys)] + [(100 - i, key) for i, key in enumerate(keys)])
    assert fired(made) == [f"{key}{at}" for at, key in expected]
    assert texts(made)[0] == "a0 ts=0 wm=200"
    assert run.is_empty


def test_due_timers_only_fire_and_the_next_one_is_reported():
    run = Epochs(job_of(Timers), parallelism=2)
    made = run.run([row("a", "e10 e20 p7"), row("b", "e15")], now=3)
    assert (made.event_due["p"], made.processing_due) == (10, 7)
    assert fired(run.run([], 9)) == []
    made = run.run([], 15, now=6)
    assert sorted(fired(made)) == ["a10", "b15"]
    assert made.event_due["p"] == 20
    made = run.run([], now=7)
    assert (texts(made), made.processing_due) == (["a7 ts=None wm=15"], NEVER)
    assert fired(run.run(terminal=True)) == ["a20"]
    assert run.is_empty


def test_a_timer_in_the_past_fires_with_the_next_epoch_and_once():
    run = Epochs(job_of(Timers))
    run.run([], 50)
    made = run.run([row("a", "e10 e10")], 60)
    assert (fired(made), made.event_due["p"]) == ([], 10)
    assert fired(run.run()) == ["a10"]
    assert fired(run.run()) == []
    made = run.run([row("a", "p1")], now=100)
    assert made.processing_due == 1
    assert fired(run.run(now=100)) == ["a1"]
    assert run.is_empty


def test_deleted_timers_do_not_fire():
    run = Epochs(job_of(Timers))
    run.run([row("a", "e10 e20 p5"), row("a", "-e10 -p5 -e99")])
    assert fired(run.run([], 30, now=30)) == ["a20"]
    assert run.is_empty


def test_timers_set_while_firing_fire_in_time_order():
    class Chain(ms.ProcessFunction):
        def process(self, row, ctx):
            ctx.event_timer(int(row["v"]))

        def on_timer(self, timestamp, ctx):
            if timestamp < 40:
                ctx.event_timer(timestamp + 10)
            if ctx.key == ("a",) and timestamp == 10:
                ctx.delete_event_timer(20)
                ctx.event_timer(15)
            yield {"k": ctx.key[0], "text": f"{ctx.key[0]}{timestamp}"}

    run = Epochs(job_of(Chain))
    run.run([row("a", "10"), row("b", "12")])
    assert fired(run.run([], 35)) == ["a10", "b12", "a15", "b22", "a25", "b32", "a35"]
    assert fired(run.run([], 60)) == ["b42", "a45"]
    assert run.is_empty


def test_a_processing_timer_set_while_firing_waits_for_the_next_epoch():
    class Again(ms.ProcessFunction):
        left = ms.ValueState(int)

        def process(self, row, ctx):
            ctx.processing_timer(5)

        def on_timer(self, timestamp, ctx):
            done = (self.left.value() or 0) + 1
            self.left.update(done)
            if done < 3:
                ctx.processing_timer(ctx.now)
            else:
                self.left.clear()
            yield {"k": "a", "text": str(done)}

    run = Epochs(job_of(Again, timed=False))
    run.run([row("a", "")])
    made = [run.run(now=9) for _ in range(4)]
    assert [texts(each) for each in made] == [["1"], ["2"], ["3"], []]
    assert [each.processing_due for each in made] == [9, 9, NEVER, NEVER]
    assert run.is_empty


def test_due_timers_of_a_key_run_before_its_new_rows():
    class Both(ms.ProcessFunction):
        def process(self, row, ctx):
            ctx.event_timer(row["at"] + 5)
            yield {"k": "a", "text": f"row at {row['at']} wm={ctx.watermark if ctx.watermark > 0 else '-'}"}

        def on_timer(self, timestamp, ctx):
            yield {"k": "a", "text": f"timer {timestamp}"}

    run = Epochs(job_of(Both))
    assert texts(run.run([row("a", "", at=1)])) == ["row at 1 wm=-"]
    assert texts(run.run([row("a", "", at=9)], 8)) == ["timer 6", "row at 9 wm=8"]


def test_rows_before_the_watermark_are_taken_before_timers_fire():
    """A keyed step behind another one gets what that one made when the watermark moved before its own timers."""

    class First(ms.ProcessFunction):
        def process(self, row, ctx):
            ctx.event_timer(10)
            yield {"k": "a", "text": "row"}

        def on_timer(self, timestamp, ctx):
            yield {"k": "a", "text": "first timer"}

    class Second(ms.ProcessFunction):
        seen = ms.ListState(str)

        def process(self, row, ctx):
            self.seen.add(row["text"])
            ctx.event_timer(10)

        def on_timer(self, timestamp, ctx):
            for text in self.seen:
                yield {"k": "a", "text": text}
            self.seen.clear()

    job = ms.Job("two")
    rows = job.source("in", ms.memory([]), schema=ROW).event_time("at").key_by("k")
    made = rows.process(First, schema="k string, text string", id="first").key_by("k")
    made.process(Second, schema="k string, text string", id="second").sink("out", ms.collect("x"))
    run = Epochs(job, parallelism=2)
    run.run([row("a", "")])
    assert texts(run.run([row("a", "")], 10)) == ["row", "first timer"]


class Fails(ms.ProcessFunction):
    seen = ms.ValueState(int)

    def process(self, row, ctx):
        self.seen.update((self.seen.value() or 0) + 1)
        if row["v"] == "raise":
            raise RuntimeError("asked to")
        if row["v"] == "half":
            yield {"k": row["k"], "text": "half"}
            raise RuntimeError("half way")
        if row["v"] == "odd":
            yield {"k": row["k"], "nothing": 1}
        if row["v"] == "side":
            ctx.output("aside", {"text": row["k"]})
        if row["v"] == "unknown":
            ctx.output("nowhere", {})
        yield {"k": row["k"], "text": row["v"]}


ALL = [row("a", word) for word in ("good", "raise", "odd", "half", "good")]


def test_fail_names_the_step_the_line_and_the_record():
    with pytest.raises(StepFailed) as caught:
        Epochs(job_of(Fails)).run(ALL)
    assert caught.value.step == "p"
    assert "asked to" in caught.value.message
    assert "test_process_operator.py" in caught.value.message


@pytest.mark.parametrize("policy", ["skip", "dead_letter"])
def test_bad_rows_leave_good_ones_alone_and_are_counted(policy):
    on_error = "skip" if policy == "skip" else ms.dead_letter(ms.collect("dead"))
    made = Epochs(job_of(Fails, on_error=on_error)).run(ALL)
    assert [text for text in texts(made) if text != "half"] == ["good", "odd", "good"]
    counts = made.counts["p"]
    assert counts.is_balanced
    assert counts.rows_in == 5
    assert (counts.skipped, counts.failed) == ((2, 0) if policy == "skip" else (0, 2))
    if policy == "dead_letter":
        letters = made["p.dead"]
        assert sorted(letter["error"].split(":")[0] for letter in letters)[:2] == ["RuntimeError", "RuntimeError"]
        assert len(letters) == 3
        assert all(letter["step"] == "p" for letter in letters)


def test_side_outputs():
    made = Epochs(job_of(Fails, outputs={"aside": "text string"}), parallelism=2).run(
        [row("a", "side"), row("b", "side"), row("c", "x")]
    )
    assert sorted(texts(made, "aside")) == ["a", "b"]
    assert len(texts(made)) == 3
    with pytest.raises(StepFailed, match="nowhere"):
        Epochs(job_of(Fails, outputs={"aside": "text string"})).run([row("a", "unknown")])


def test_a_failing_timer_names_key_and_time():
    class Broken(ms.ProcessFunction):
        def process(self, row, ctx):
            ctx.event_timer(5)

        def on_timer(self, timestamp, ctx):
            raise KeyError("gone")

    run = Epochs(job_of(Broken, on_error="skip"))
    run.run([row("a", "")])
    with pytest.raises(StepFailed, match=r"on_timer failed for key \('a',\).*timer 5") as caught:
        run.run([], 5)
    assert caught.value.step == "p"


def test_state_expires_and_is_swept_without_being_read():
    class Remembers(ms.ProcessFunction):
        short = ms.ValueState(str, ttl="10ms")
        long = ms.ListState(str, ttl="30ms")
        by = ms.MapState(str, int, ttl="30ms")

        def process(self, row, ctx):
            yield {"k": row["k"], "text": f"{self.short.value()} {self.long.get()} {self.by.items()}"}
            self.short.update(row["v"])
            self.long.add(row["v"])
            self.by.put(row["v"], 1)

    run = Epochs(job_of(Remembers, timed=False), page_bytes=1)
    run.run([row("a", "x"), row("b", "y")], now=0)
    assert texts(run.run([row("a", "z")], now=9)) == ["x ['x'] [('x', 1)]"]
    assert texts(run.run([row("a", "w")], now=19)) == ["None ['x', 'z'] [('x', 1), ('z', 1)]"]
    assert not run.is_empty
    run.run(now=30)
    assert texts(run.run([row("b", "q")], now=30)) == ["None [] []"]
    run.run(now=1000)
    assert run.is_empty


def test_cleared_state_leaves_nothing():
    class Clears(ms.ProcessFunction):
        value, items, pairs = ms.ValueState(int), ms.ListState(int), ms.MapState(str, int)

        def process(self, row, ctx):
            if row["v"] == "set":
                self.value.update(0), self.items.add(1), self.pairs.put("x", 1)
            else:
                self.value.clear(), self.items.update([]), self.pairs.remove("x")
            yield {"k": row["k"], "text": f"{self.value.value()} {self.items.get()} {'x' in self.pairs}"}

    run = Epochs(job_of(Clears, timed=False), parallelism=2, page_bytes=1)
    assert set(texts(run.run([row(key, "set") for key in "abcdefgh"]))) == {"0 [1] True"}
    assert not run.is_empty
    assert set(texts(run.run([row(key, "clear") for key in "abcdefgh"]))) == {"None [] False"}
    assert run.is_empty


def test_rows_of_a_key_keep_their_order_over_chunks(monkeypatch):
    monkeypatch.setattr("millstream.runtime.operators.grouping.CHUNK", 7)
    monkeypatch.setattr("millstream.runtime.operators.output.CHUNK", 7)

    class Numbers(ms.ProcessFunction):
        n = ms.ValueState(int)

        def process(self, row, ctx):
            number = self.n.value() or 0
            self.n.update(number + 1)
            yield {"k": row["k"], "text": f"{row['k']}{number}-{row['v']}"}

    run = Epochs(job_of(Numbers, timed=False), parallelism=2)
    rows = [row("ab"[i % 3 == 0], str(i)) for i in range(50)]
    made = texts(run.run(rows[:30])) + texts(run.run(rows[30:]))
    for key in "ab":
        values = [each["v"] for each in rows if each["k"] == key]
        assert [text for text in made if text[0] == key] == [f"{key}{i}-{v}" for i, v in enumerate(values)]
