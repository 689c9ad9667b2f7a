"""What a job promises is compared with what its parts can do, and every problem is named at once."""

import pytest

import millstream as ms
from millstream.errors import InvalidPlan, InvalidStep
from millstream.plan.deployment import Deployment

SCHEMA = "k string, v long"


def plain(row):
    return row


@ms.nondeterministic
def drawn(row):
    return row


@ms.nondeterministic
def drawn_batch(batch):
    return batch


@ms.nondeterministic
def keep(row):
    return True


@ms.nondeterministic
def add(held, row):
    return row


class Plain(ms.ProcessFunction):
    def process(self, row, ctx):
        yield row


@ms.nondeterministic
class Drawn(ms.ProcessFunction):
    def process(self, row, ctx):
        yield row


def job(build, guarantee="exactly_once"):
    made = ms.Job("job", guarantee=guarantee)
    build(made.source("in", ms.memory([]), schema=SCHEMA)).sink("out", ms.collect("out"))
    return made


def keyed(stream, function=Plain, step="keyed"):
    return stream.key_by("k").process(function, schema=SCHEMA, id=step)


BEFORE_AN_EXCHANGE = {
    "map before key_by": lambda rows: keyed(rows.map(drawn, schema=SCHEMA, id="draw")),
    "flat_map before key_by": lambda rows: keyed(rows.flat_map(drawn, schema=SCHEMA, id="draw")),
    "filter before key_by": lambda rows: keyed(rows.filter(keep, id="draw")),
    "map_batches before key_by": lambda rows: keyed(rows.map_batches(drawn_batch, id="draw")),
    "map before rebalance": lambda rows: rows.map(drawn, schema=SCHEMA, id="draw").rebalance().filter("v > 0"),
    "some steps before": lambda rows: keyed(rows.map(drawn, schema=SCHEMA, id="draw").filter("v > 0").select("k", "v")),
    "one side of a union": lambda rows: keyed(rows.filter("v > 0").union(rows.map(drawn, schema=SCHEMA, id="draw"))),
    "process between two": lambda rows: keyed(keyed(rows, Drawn, "draw"), step="behind"),
    "reduce between two": lambda rows: keyed(rows.key_by("k").reduce(add, id="draw"), step="behind"),
    "on the way to another branch": lambda rows: branches(rows),
}
BEHIND_THE_LAST_EXCHANGE = {
    "map": lambda rows: keyed(rows).map(drawn, schema=SCHEMA),
    "process": lambda rows: keyed(rows, Drawn),
    "no exchange at all": lambda rows: rows.map(drawn, schema=SCHEMA),
}


def branches(rows):
    made = rows.map(drawn, schema=SCHEMA, id="draw")
    keyed(made).sink("keyed-out", ms.collect("keyed"))
    return made.filter("v > 0")


@pytest.mark.parametrize("case", BEFORE_AN_EXCHANGE)
def test_a_nondeterministic_function_before_an_exchange_is_refused(case):
    with pytest.raises(InvalidPlan) as caught:
        job(BEFORE_AN_EXCHANGE[case]).compile()
    assert caught.value.code == "PLAN-041"
    assert "of step 'draw' at test_validate_plan.py:" in caught.value.message
    assert "key_by(k)" in caught.value.message or "rebalance" in caught.value.message
    assert "behind the last key_by" in caught.value.hint


@pytest.mark.parametrize("case", BEHIND_THE_LAST_EXCHANGE)
def test_behind_the_last_exchange_it_may_stand(case):
    assert job(BEHIND_THE_LAST_EXCHANGE[case]).compile()


@pytest.mark.parametrize("guarantee", ["effectively_once", "at_least_once", "best_effort"])
@pytest.mark.parametrize("case", BEFORE_AN_EXCHANGE)
def test_a_weaker_guarantee_allows_it(case, guarantee):
    assert job(BEFORE_AN_EXCHANGE[case], guarantee).compile()


def test_an_unmarked_function_is_taken_for_deterministic():
    assert job(lambda rows: keyed(rows.map(plain, schema=SCHEMA))).compile()


def test_the_mark_survives_json():
    back = ms.Job.from_json(job(BEFORE_AN_EXCHANGE["process between two"]).to_json())
    with pytest.raises(InvalidPlan, match="PLAN-041"):
        back.compile()


def test_a_marked_function_works_as_before():
    assert drawn({"k": "a"}) == {"k": "a"}
    assert list(Drawn().process(1, None)) == [1]


def test_a_builtin_cannot_be_marked():
    with pytest.raises(InvalidStep, match="wrap it in a function") as caught:
        ms.nondeterministic(len)
    assert caught.value.code == "STEP-076"


def test_all_problems_are_named_at_once():
    made = ms.Job("job")
    rows = made.source("in", ms.rate(1))
    first = rows.map(drawn, schema=SCHEMA, id="first").map(drawn, schema=SCHEMA, id="second")
    keyed(first).sink("printed", ms.print())
    first.sink("printed-too", ms.print())
    with pytest.raises(InvalidPlan) as caught:
        made.compile()
    assert caught.value.code == "PLAN-040"
    for name in ("'printed'", "'printed-too'", "'first'", "'second'"):
        assert name in caught.value.message
    assert "use other connectors" in caught.value.hint
    assert "behind the last key_by" in caught.value.hint


def test_a_job_without_anything_names_both_ends():
    with pytest.raises(InvalidPlan, match=r"no source.*no sink") as caught:
        ms.Job("empty").compile()
    assert caught.value.code == "PLAN-012"


def test_a_job_that_only_reads_is_refused():
    made = ms.Job("reads")
    made.source("in", ms.memory([]), schema=SCHEMA)
    with pytest.raises(InvalidPlan, match="writes nothing") as caught:
        made.compile()
    assert "no source" not in caught.value.message


def test_best_effort_takes_no_checkpoint():
    made = job(lambda rows: rows, "best_effort")
    assert made.compile(Deployment()).deployment.checkpoint is None
    with pytest.raises(InvalidPlan, match=r"keeps no checkpoint.*'dir'") as caught:
        made.compile(Deployment(checkpoint="dir"))
    assert caught.value.code == "PLAN-042"


@pytest.mark.parametrize("guarantee", ["exactly_once", "effectively_once", "at_least_once"])
def test_other_guarantees_take_one(guarantee):
    assert job(lambda rows: rows, guarantee).compile(Deployment(checkpoint="dir"))
