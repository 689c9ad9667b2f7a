"""Declared state that changed its type, windows and keys: carried over where it fits, refused by name where it does not."""

import dataclasses

import pytest
from evolving import STRAIGHT, SUMS, Sum, SumAndCount, forget, go_on, new_job, new_rows, refused, saved, source, summing

import millstream as ms
from millstream.errors import StepFailed


@dataclasses.dataclass
class Held:
    total: int


@dataclasses.dataclass
class HeldWithUnit:
    total: int
    unit: str = "none"


@dataclasses.dataclass
class HeldAsText:
    total: str


def keeping(kind, **state):
    """A process function whose state is an object with a total."""

    class Keeping(ms.ProcessFunction):
        held = ms.ValueState(kind, **state)

        def process(self, row, ctx):
            held = self.held.value() or kind(kind.__annotations__["total"](0))
            held.total = kind.__annotations__["total"](int(held.total) + row["v"])
            self.held.update(held)
            suffix = 0 if not hasattr(held, "unit") else 10_000 if held.unit == "none" else 20_000
            yield {"k": ctx.key[0], "x": int(held.total) + suffix}

    return Keeping


def to_text(content, version):
    assert version == 1
    return {"total": str(content["total"] * 100)}


def failing(content, version):
    raise ValueError(version)


@pytest.fixture(autouse=True)
def fresh():
    yield
    forget()


def test_a_new_state_starts_empty(tmp_path):
    saved(summing(), tmp_path)
    go_on(summing(SumAndCount), tmp_path)
    assert new_rows() == [(k, x + 1000 * n) for (k, x), n in zip(STRAIGHT, (1, 1, 2, 2, 3, 3), strict=True)]


def test_a_state_that_is_gone_needs_a_word(tmp_path):
    saved(summing(SumAndCount), tmp_path)
    problem = refused(summing(), tmp_path)
    assert problem.code == "CKPT-040"
    assert "count" in problem.message
    go_on(summing(), tmp_path, allow_dropped_state=True)
    assert new_rows() == STRAIGHT


def test_a_new_field_has_its_default(tmp_path):
    saved(summing(keeping(Held)), tmp_path)
    go_on(summing(keeping(HeldWithUnit)), tmp_path)
    assert new_rows() == [(k, x + 10_000) for k, x in STRAIGHT]


def test_a_field_of_another_type_is_refused_by_name(tmp_path):
    saved(summing(keeping(Held)), tmp_path)
    problem = refused(summing(keeping(HeldAsText)), tmp_path)
    assert problem.step == "sums"
    assert "held.total: integer → string" in problem.message
    assert "migrate=" in problem.hint


def test_a_migration_carries_every_key_over(tmp_path):
    saved(summing(keeping(Held)), tmp_path)
    assert "version" in refused(summing(keeping(HeldAsText, version=2)), tmp_path).message
    go_on(summing(keeping(HeldAsText, version=2, migrate=to_text)), tmp_path)
    assert new_rows() == [(k, x + 99 * was) for (k, x), was in zip(STRAIGHT, (6, 9) * 3, strict=True)]


def test_a_migration_that_fails_names_state_and_key(tmp_path):
    saved(summing(keeping(Held)), tmp_path)
    with pytest.raises(StepFailed) as caught:
        go_on(summing(keeping(HeldAsText, version=2, migrate=failing)), tmp_path)
    assert caught.value.code == "SAVE-008"
    assert caught.value.step == "sums"
    assert "'held'" in caught.value.message
    go_on(summing(keeping(HeldAsText, version=2, migrate=to_text)), tmp_path)
    assert len(new_rows()) == 6, "mended, the restore goes on in the same checkpoint"


def test_state_begins_to_expire(tmp_path):
    class Expiring(Sum):
        total = ms.ValueState(int, ttl="1h")

    saved(summing(), tmp_path)
    go_on(summing(Expiring), tmp_path)
    assert new_rows() == STRAIGHT


def windowed(window, **aggregates):
    job = new_job()
    rows = source(job).event_time("at", max_delay="10s").key_by("k").window(window)
    rows.aggregate(**(aggregates or {"x": ms.sum("v")}), id="w").select("k", "x").sink(
        "out", ms.collect("evolving/sums")
    )
    return job


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda: windowed(ms.tumbling("2s")), "window size: 1s → 2s"),
        (lambda: windowed(ms.sliding("1s", "500ms")), "window kind: tumbling → sliding"),
        (lambda: windowed(ms.tumbling("1s"), x=ms.max("v")), "aggregates"),
        (lambda: windowed(ms.tumbling("1s"), x=ms.sum("v"), n=ms.count()), "aggregates"),
    ],
    ids=["size", "kind", "aggregate", "more aggregates"],
)
def test_another_window_is_refused(tmp_path, changed, what):
    saved(windowed(ms.tumbling("1s")), tmp_path)
    problem = refused(changed(), tmp_path)
    assert problem.code == "CKPT-040"
    assert problem.step == "w"
    assert what in problem.message


def test_other_keys_are_refused(tmp_path):
    saved(summing(), tmp_path)
    for keys in (("v",), ("k", "v")):
        job = new_job()
        source(job).key_by(*keys).process(Sum, schema="k string, x long", id="sums").sink(
            "out", ms.collect("evolving/sums")
        )
        problem = refused(job, tmp_path)
        assert problem.step == "sums"
        assert "keys: k string → " in problem.message


def test_every_problem_is_named_at_once(tmp_path):
    job = new_job()
    keyed = source(job).key_by("k")
    keyed.process(Sum, schema=SUMS, id="one").sink("a.out", ms.collect("evolving/sums"))
    keyed.process(keeping(Held), schema=SUMS, id="two").sink("b.out", ms.collect("evolving/extra"))
    saved(job, tmp_path)
    problem = refused(summing(keeping(HeldAsText), id="two"), tmp_path)
    assert "'one' is dropped" in problem.message
    assert "'two' is incompatible" in problem.message
