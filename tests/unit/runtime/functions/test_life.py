"""Functions with a life: opened once before their first row, closed at the end, with metrics of their own."""

import dataclasses
import logging

import pytest

import millstream as ms
from millstream.errors import InvalidStep, StepFailed
from millstream.testing import ABORT, run_job

ROWS = [{"k": "a" if n % 2 else "b", "n": n} for n in range(6)]


class Told:
    """Keeps what happened to its copies: shallow copies share the list."""

    def __init__(self):
        self.happened = []

    def open(self, ctx):
        self.ctx = ctx
        self.rows = ctx.counter("rows")
        self.happened.append(("open", ctx.job, ctx.step, ctx.parallelism))

    def close(self):
        self.happened.append(("close", self.ctx.step))

    def met(self):
        self.rows.add()
        self.happened.append("row")

    @property
    def order(self):
        return [each if isinstance(each, str) else each[0] for each in self.happened]


class Doubled(Told):
    def __call__(self, row):
        self.met()
        return {"n": row["n"] * 2}


class Repeated(Told):
    def __call__(self, row):
        self.met()
        return [{"n": row["n"]}] * 2


class Kept(Told):
    def __call__(self, row):
        self.met()
        return row["n"] > 2


class Batched(Told):
    def __call__(self, batch):
        self.met()
        return batch


class Asked(Told):
    async def open(self, ctx):
        super().open(ctx)

    async def __call__(self, row):
        self.met()
        return {"n": row["n"]}

    async def close(self):
        super().close()


class Processed(Told, ms.ProcessFunction):
    total = ms.ValueState(int)

    def process(self, row, ctx):
        self.met()
        self.total.update((self.total.value() or 0) + 1)
        yield {"n": self.total.value()}


class Reduced(Told):
    def __call__(self, so_far, row):
        self.met()
        return {"k": row["k"], "n": so_far["n"] + row["n"]}


class Summed(Told):
    def __call__(self, key, window, rows):
        self.met()
        yield {"n": sum(row["n"] for row in rows)}


class Remembered(Told, ms.WindowFunction):
    def process(self, key, window, rows, ctx):
        self.met()
        yield {"n": len(list(rows))}


class Firing(Told, ms.Trigger):
    def on_row(self, row, window, ctx):
        self.met()
        return ms.TriggerResult.FIRE


class Wanted(Told):
    def __call__(self, row):
        self.met()
        return row["n"] > 2


class Chosen(Told):
    def __call__(self, match):
        self.met()
        return {"n": match["only"][0]["n"]}


def keyed(rows):
    return rows.key_by("k")


STEPS = {
    "map": lambda rows, f: rows.map(f, schema="n long", id="s"),
    "flat_map": lambda rows, f: rows.flat_map(f, schema="n long", id="s"),
    "filter": lambda rows, f: rows.filter(f, id="s"),
    "map_batches": lambda rows, f: rows.map_batches(f, schema="k string, n long", id="s"),
    "async_map": lambda rows, f: rows.async_map(f, schema="n long", id="s"),
    "process": lambda rows, f: keyed(rows).process(f, schema="n long", id="s"),
    "reduce": lambda rows, f: keyed(rows).reduce(f, id="s"),
    "window": lambda rows, f: keyed(rows).window(ms.count_window(2)).process(f, schema="n long", id="s"),
    "trigger": lambda rows, f: keyed(rows).window(ms.global_window(), trigger=f).aggregate(n=ms.count(), id="s"),
    "condition": lambda rows, f: keyed(rows).pattern(ms.pattern.begin("only").where(f)).measures(n="only.n", id="s"),
    "select": lambda rows, f: (
        keyed(rows).pattern(ms.pattern.begin("only").where("n > 2")).select(f, schema="n long", id="s")
    ),
}
GIVEN = {
    "map": Doubled,
    "flat_map": Repeated,
    "filter": Kept,
    "map_batches": Batched,
    "async_map": Asked,
    "process": Processed,
    "reduce": Reduced,
    "window": Summed,
    "trigger": Firing,
    "condition": Wanted,
    "select": Chosen,
}
CASES = [*((name, GIVEN[name]) for name in STEPS), ("window", Remembered)]


def job_of(step, function):
    job = ms.Job("living", parallelism=1)
    STEPS[step](job.source("in", ms.memory([]), schema="k string, n long"), function).sink("out", ms.collect("x"))
    return job


@pytest.mark.parametrize(("step", "kind"), CASES, ids=[f"{name}-{kind.__name__}" for name, kind in CASES])
def test_open_runs_once_before_the_first_row_and_close_once_behind_the_last(step, kind):
    function = kind()
    output = run_job(job_of(step, function), {"in": ROWS}, rows_per_epoch=2)
    assert len(output.epochs) > 2
    assert function.happened[0] == ("open", "living", "s", 1)
    assert function.happened[-1] == ("close", "s")
    assert function.order.count("open") == function.order.count("close") == 1
    met = function.order.count("row")
    assert met > 0
    assert output.metrics["s"].counters == {"rows": met}


def test_the_users_own_object_is_left_as_it_is():
    function = Doubled()
    run_job(job_of("map", function), {"in": ROWS})
    assert vars(function).keys() == {"happened"}


def test_a_function_given_to_two_steps_lives_once_in_each():
    function = Kept()
    job = ms.Job("twice")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    rows.filter(function, id="one").filter(function, id="two").sink("out", ms.collect("x"))
    output = run_job(job, {"in": ROWS})
    assert [each for each in function.happened if each != "row"] == [
        ("open", "twice", "one", 2),
        ("open", "twice", "two", 2),
        ("close", "two"),
        ("close", "one"),
    ]
    assert {step: found.counters["rows"] for step, found in output.metrics.items()} == {"one": 6, "two": 3}


class Plus:
    """Is given as a class: made once, where the job is built."""

    def open(self, ctx):
        self.more = 10

    def __call__(self, row):
        return {"n": row["n"] + self.more}


@pytest.mark.parametrize("given", [Plus, Plus(), f"{__name__}:Plus"])
def test_a_class_an_instance_and_a_name_do_the_same(given):
    job = job_of("map", given)
    assert [row["n"] for row in run_job(job, {"in": ROWS})["out"]] == [10, 11, 12, 13, 14, 15]
    reference = job.model.step("s").operation.function
    assert reference.name == f"{__name__}:Plus"
    assert reference.is_importable


class Needy:
    def __init__(self, amount):
        self.amount = amount

    def __call__(self, row):
        return row


def test_a_class_that_needs_arguments_is_refused_where_it_is_given():
    with pytest.raises(
        InvalidStep, match=r"STEP-260.*step 's'.*Needy cannot be made without arguments.*pass an instance"
    ):
        job_of("map", Needy)


def test_a_class_that_is_no_function_is_called_with_each_row():
    class Wrapped(dict):
        def __init__(self, row):
            super().__init__(n=row["n"])

    assert run_job(job_of("map", Wrapped), {"in": ROWS[:1]})["out"] == [{"n": 0}]


class Broken(Plus):
    def open(self, ctx):
        raise ConnectionError("no route to the model")


def test_an_error_in_open_names_the_step():
    with pytest.raises(StepFailed, match=r"STEP-261.*step 's'.*ConnectionError: no route to the model") as failed:
        run_job(job_of("map", Broken()), {"in": ROWS})
    assert failed.value.step == "s"
    assert isinstance(failed.value.__cause__, ConnectionError)


def test_a_close_that_fails_keeps_no_other_from_being_closed(caplog):
    class Stuck(Kept):
        def close(self):
            raise RuntimeError("stuck")

    function = Kept()
    job = ms.Job("stuck")
    rows = job.source("in", ms.memory([]), schema="k string, n long")
    rows.filter(function, id="one").filter(Stuck(), id="two").sink("out", ms.collect("x"))
    with caplog.at_level(logging.WARNING):
        run_job(job, {"in": ROWS})
    assert function.order[-1] == "close"
    assert "'two': close of" in caplog.text


def test_a_run_that_fails_closes_what_it_opened():
    class Failing(Doubled):
        def __call__(self, row):
            raise ValueError("bad row")

    function = Failing()
    with pytest.raises(StepFailed, match="bad row"):
        run_job(job_of("map", function), {"in": ROWS})
    assert function.order == ["open", "close"]


def test_what_open_sets_lives_across_epochs_and_what_a_row_sets_does_not():
    class Caching(ms.ProcessFunction):
        def open(self, ctx):
            self.seen = []

        def process(self, row, ctx):
            self.seen.append(row["n"])
            self.own = getattr(self, "own", 0) + 1
            yield {"n": len(self.seen) * 100 + self.own}

    output = run_job(job_of("process", Caching()), {"in": ROWS[:3]}, rows_per_epoch=1)
    assert [row["n"] for row in output["out"]] == [101, 201, 301]


def test_metrics_of_a_replayed_epoch_count_once():
    function = Doubled()
    output = run_job(job_of("map", function), {"in": [*ROWS[:3], ABORT(), *ROWS[3:]]}, rows_per_epoch=2)
    assert output.restarts == 1
    assert sum(each.metrics["s"].counters["rows"] for each in output.epochs if "s" in each.metrics) == 6
    assert function.order.count("open") == function.order.count("close") == 2


def test_every_kind_of_metric_reaches_epochs_and_result():
    class Measuring:
        def open(self, ctx):
            self.small, self.newest = ctx.counter("small"), ctx.gauge("newest")
            self.spread = ctx.histogram("spread", buckets=[1, 3])

        def __call__(self, row):
            self.small.add(0.5 if row["n"] < 2 else 0)
            self.newest.set(row["n"])
            self.spread.observe(row["n"])
            return {"n": row["n"]}

    output = run_job(job_of("map", Measuring()), {"in": ROWS}, rows_per_epoch=4)
    found = output.metrics["s"]
    assert found.counters == {"small": 1.0}
    assert found.gauges == {"newest": {0: 5.0}}
    spread = found.histograms["spread"]
    assert (spread.counts, spread.count, spread.sum, spread.least, spread.most) == ([2, 2, 2], 6, 15.0, 0.0, 5.0)
    first, second = (each.metrics["s"] for each in output.epochs if each.metrics)
    assert (first.gauges["newest"][0], second.gauges["newest"][0]) == (3.0, 5.0)
    assert (first.histograms["spread"].count, second.histograms["spread"].count) == (4, 2)


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda ctx: ctx.counter("no name"), "not the name of a metric"),
        (lambda ctx: (ctx.counter("n"), ctx.gauge("n")), "is a counter of this step already"),
        (lambda ctx: (ctx.histogram("h"), ctx.histogram("h", buckets=[1])), "has other buckets"),
        (lambda ctx: ctx.histogram("h", buckets=[2, 1]), "do not rise"),
        (lambda ctx: ctx.counter('evil"} 1\n'), "not the name of a metric"),
        (lambda ctx: [ctx.counter(f"user_{n}") for n in range(101)], "STEP-267.*one too many"),
    ],
)
def test_metrics_that_cannot_be_told_apart_are_refused(ask, said):
    class Asking(Plus):
        def open(self, ctx):
            ask(ctx)

    with pytest.raises(StepFailed, match=said):
        run_job(job_of("map", Asking()), {"in": ROWS})


def test_a_counter_only_grows():
    class Falling(Plus):
        def open(self, ctx):
            self.n = ctx.counter("n")

        def __call__(self, row):
            self.n.add(-1)

    with pytest.raises(StepFailed, match="a counter only grows"):
        run_job(job_of("map", Falling()), {"in": ROWS})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "much"])
@pytest.mark.parametrize("act", [lambda ctx, v: ctx.gauge("g").set(v), lambda ctx, v: ctx.histogram("h").observe(v),
                                 lambda ctx, v: ctx.counter("c").add(v)])  # fmt: skip
def test_values_that_figures_cannot_carry_fail_where_they_are_given(act, value):
    class Odd(Plus):
        def open(self, ctx):
            self.ctx = ctx

        def __call__(self, row):
            act(self.ctx, value)

    with pytest.raises(StepFailed, match=r"no finite number|only grows|could not convert"):
        run_job(job_of("map", Odd()), {"in": ROWS})


def test_a_counter_beyond_what_json_can_carry_goes_on_as_a_float():
    class Large(Plus):
        def open(self, ctx):
            self.n = ctx.counter("n")

        def __call__(self, row):
            self.n.add(2**62)
            return {"n": row["n"]}

    total = run_job(job_of("map", Large()), {"in": ROWS}, rows_per_epoch=2).metrics["s"].counters["n"]
    assert (type(total), total) == (float, len(ROWS) * 2.0**62)


def test_the_subtask_is_that_of_the_call_under_way():
    class Located(ms.ProcessFunction):
        def open(self, ctx):
            self.where = ctx

        def process(self, row, ctx):
            yield {"n": self.where.subtask * 10 + self.where.attempt}

    rows = [{"k": str(n), "n": n} for n in range(40)]
    job = ms.Job("located", parallelism=3)
    source = job.source("in", ms.memory([]), schema="k string, n long")
    keyed(source).process(Located(), schema="n long", id="s").sink("out", ms.collect("x"))
    assert {row["n"] for row in run_job(job, {"in": rows})["out"]} == {0, 10, 20}


def test_a_state_may_be_called_open():
    class Keeping(ms.ProcessFunction):
        open = ms.ValueState(int)

        def process(self, row, ctx):
            self.open.update((self.open.value() or 0) + 1)
            yield {"n": self.open.value()}

    output = run_job(job_of("process", Keeping), {"in": ROWS}, rows_per_epoch=2)
    assert sorted(row["n"] for row in output["out"]) == [1, 1, 2, 2, 3, 3]


def test_a_watermark_generator_has_no_life():
    class Opened(ms.WatermarkGenerator):
        def open(self, ctx):
            pass

        def on_epoch(self, *_):
            return None

    job = ms.Job("j")
    with pytest.raises(InvalidStep, match="STEP-264"):
        job.source("in", ms.memory([]), schema="n long").event_time("n", watermark=Opened())


@dataclasses.dataclass
class Answer:
    n: int


class Annotated:
    def __call__(self, row) -> Answer:
        return Answer(row["n"])


def test_the_schema_of_a_callable_object_comes_from_its_annotation():
    job = ms.Job("annotated")
    stream = job.source("in", ms.memory([]), schema="k string, n long").map(Annotated, id="s")
    assert stream.schema.ddl == "n long not null"
