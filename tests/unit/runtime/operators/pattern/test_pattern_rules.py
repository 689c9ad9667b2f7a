"""Patterns that a broadcast stream brings: what is refused, what a match gives, and state that goes with its pattern."""

import json

import pyarrow as pa
import pytest

import millstream as ms
from millstream.api.jobfile.rules import read_rule
from millstream.errors import InvalidStep, MillstreamError
from millstream.graph.operations.rules import Patterns
from millstream.graph.step import MAIN
from millstream.model.counts import StepCounts
from millstream.model.schema import schema_of
from millstream.model.time import MIN_TIME
from millstream.plan.epoch import EpochTimes
from millstream.records.batch import TIME
from millstream.runtime.chain.ledger import Ledger
from millstream.runtime.operators.contract import EpochWork
from millstream.runtime.operators.pattern.rules import RulesOperator
from millstream.testing import ADVANCE_CLOCK, run_job

ROWS = schema_of("k string, n long, at long")
KEYS = schema_of("k string")
STOP = ADVANCE_CLOCK("10s")
COLUMNS = "rule string, pattern string, version long, deleted boolean"


def definition(**more):
    stages = [{"begin": "a", "where": "n > 0"}, {"followed_by": "b", "where": "n > a.n"}]
    return json.dumps({"pattern": stages, "measures": {"n": "b.n"}, **more})


def read(text, on_update="restart"):
    return read_rule(text, ROWS, KEYS, step="p", on_update=on_update)


def test_a_definition_is_json_or_yaml():
    yaml = "pattern:\n  - {begin: a, where: n > 0}\n  - {followed_by: b, where: n > a.n}\nmeasures: {n: b.n}\n"
    assert read(yaml) == read(definition())
    short = read("pattern: [{begin: a, times: 2}]\nwithin: 1m\nafter_match: skip_to_next\nmeasures: {k: k}")
    assert (short.pattern.within, short.pattern.skip) == (60_000, "to_next")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("pattern: [", "DECL-002"),
        ("- just a list", "DECL-003"),
        ("pattern: [{begin: a}]\nmeasures: {n: a.n}\ncall: 'os:getcwd'", "DECL-004"),
        ("measures: {n: a.n}", "DECL-006"),
        ("pattern: [{begin: a, where: missing > 1}]\nmeasures: {n: a.n}", "EXPR-005"),
        ("pattern: [{begin: a}]\nmeasures: {n: c.n}", "EXPR-005"),
        ("pattern: [{begin: a}]", "STEP-184"),
        ("pattern: [{begin: a, where: {function: 'os:getcwd'}}]\nmeasures: {n: a.n}", "STEP-185"),
        ("pattern: [{begin: [{begin: a, until: {function: 'os:getcwd'}}]}]\nmeasures: {n: a.n}", "STEP-185"),
        ("pattern: [{begin: a, times: 1000000000}]\nmeasures: {n: a.n}", "STEP-187"),
        ("pattern: [{begin: [{begin: a, times: 30}], times: 30}]\nmeasures: {n: a.n}", "STEP-187"),
    ],
)
def test_definitions_that_are_refused(text, code):
    with pytest.raises(MillstreamError) as caught:
        read(text)
    assert caught.value.code == code


def test_a_pattern_that_is_to_run_out_needs_a_time():
    assert read(definition(within="1m"), "keep").pattern.within == 60_000
    with pytest.raises(InvalidStep) as caught:
        read(definition(), "keep")
    assert caught.value.code == "STEP-186"


def built(updates=COLUMNS, rows="k string, n long, at long", key="k", timed=True, **options):
    job = ms.Job("rules", max_parallelism=4)
    stream = job.source("rows", ms.memory([]), schema=rows)
    stream = stream.event_time("at") if timed else stream
    rules = job.source("rules", ms.memory([]), schema=updates)
    found = stream.key_by(key).patterns(rules.broadcast(), id="p", **options)
    found.sink("out", ms.collect("out"))
    found.side_output("dead").sink("dead", ms.collect("dead"))
    return job


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"updates": "rule string"}, "STEP-181"),
        ({"updates": "rule string, pattern string, version string"}, "STEP-181"),
        ({"on_update": "forget"}, "STEP-182"),
        ({"rows": "rule string, n long, at long", "key": "rule"}, "STEP-183"),
        ({"order_by": "m"}, "STEP-042"),
        ({"rows": "k string, m array<int>, at long", "order_by": "m"}, "STEP-180"),
    ],
)
def test_steps_that_are_refused(options, code):
    with pytest.raises(InvalidStep) as caught:
        built(**options)
    assert caught.value.code == code


def test_only_a_broadcast_stream_of_the_job_brings_patterns():
    job = ms.Job("rules")
    keyed = job.source("rows", ms.memory([]), schema="k string").key_by("k")
    rules = job.source("rules", ms.memory([]), schema=COLUMNS)
    with pytest.raises(InvalidStep, match="broadcast") as caught:
        keyed.patterns(rules)
    assert caught.value.code == "STEP-077"
    written = built().to_json()
    step = next(step for step in written["steps"] if step["id"] == "p")
    step["inputs"][1] = {**step["inputs"][1], "partition": "hash", "keys": ["rule"]}
    with pytest.raises(InvalidStep) as caught:
        ms.Job.from_json(written)
    assert caught.value.code in {"STEP-047", "STEP-188"}


def test_the_step_survives_json_and_is_written_in_yaml():
    job = built(on_update="keep", order_by="n")
    again = ms.Job.from_json(job.to_json())
    assert again.model == job.model
    yaml = f"""
job: rules
max_parallelism: 4
steps:
  - source: rules
    from: {{memory: {{rows: []}}}}
    schema: {COLUMNS}
  - source: rows
    from: {{memory: {{rows: []}}}}
    schema: k string, n long, at long
  - event_time: at
  - patterns: rules
    key_by: k
    on_update: keep
    order_by: n
    id: p
  - sink: out
    to: {{collect: {{name: out}}}}
"""
    loaded = ms.load_job(yaml).model
    step = next(step for step in loaded.steps if step.id == "p")
    assert step.operation == Patterns(on_update="keep", order_by=("n",))
    assert [edge.partition for edge in step.inputs] == ["hash", "broadcast"]


def test_measures_as_json():
    schema = "k string, at timestamp, cost decimal(9,2), x double, tags array<string>"
    job = ms.Job("values")
    both = job.source("in", ms.memory([]), schema=f"rule string, pattern string, {schema}")
    rules = both.filter("rule is not null").select("rule", "pattern")
    rows = both.filter("k is not null").select("k", "at", "cost", "x", "tags")
    rows.key_by("k").patterns(rules.broadcast(), id="p").sink("out", ms.collect("out"))
    measures = {name: f"a.{name}" for name in ("at", "cost", "x", "tags")} | {"none": "last(a.x, 1)", "key": "k"}
    rule = {"rule": "r", "pattern": json.dumps({"pattern": [{"begin": "a"}], "measures": measures})}
    row = {"k": "é", "at": 1500, "cost": "1.50", "x": 0.5, "tags": ["p", None]}
    found = run_job(job, {"in": [rule, STOP, row]})["out"]
    assert [json.loads(each["match"]) for each in found] == [
        {"at": "1970-01-01T00:00:01.500000Z", "cost": "1.50", "x": 0.5, "tags": ["p", None], "none": None, "key": "é"}
    ]
    assert list(json.loads(found[0]["match"])) == list(measures)


def test_many_rules_at_once_and_rows_before_the_first():
    job = ms.Job("many")
    both = job.source("in", ms.memory([]), schema="rule string, pattern string, k string, n long")
    rules = both.filter("rule is not null").select("rule", "pattern")
    found = both.filter("k is not null").select("k", "n").key_by("k").patterns(rules.broadcast(), id="p")
    found.sink("out", ms.collect("out"))
    brought = [
        {"rule": f"r{least}", "pattern": f"pattern: [{{begin: a, where: n > {least}}}]\nmeasures: {{n: a.n}}"}
        for least in range(30)
    ]
    rows = [{"k": k, "n": n} for k in "xy" for n in (3, 25)]
    output = run_job(job, {"in": [{"k": "x", "n": 99}, STOP, *brought, STOP, *rows]})
    wanted = {(f"r{least}", k, n) for least in range(30) for k in "xy" for n in (3, 25) if n > least}
    assert {(row["rule"], row["k"], json.loads(row["match"])["n"]) for row in output["out"]} == wanted
    assert len(output["out"]) == len(wanted)
    assert all(counts.is_balanced for counts in output.counts.values())


def failing(text, amounts):
    """A rule that fails on some rows beside one that does not: what each gives, and the dead letters."""
    job = ms.Job("failing")
    both = job.source("in", ms.memory([]), schema="rule string, pattern string, k string, n double")
    rules = both.filter("rule is not null").select("rule", "pattern")
    found = both.filter("k is not null").select("k", "n").key_by("k").patterns(rules.broadcast(), id="p")
    found.sink("out", ms.collect("out"))
    found.side_output("dead").sink("dead", ms.collect("dead"))
    every = "pattern: [{begin: a}]\nmeasures: {n: a.n}"
    brought = [{"rule": "some", "pattern": text}, {"rule": "every", "pattern": every}]
    output = run_job(job, {"in": [*brought, STOP, *({"k": "x", "n": n} for n in amounts)]})
    assert len([row for row in output["out"] if row["rule"] == "every"]) == len(amounts)
    assert all(counts.is_balanced for counts in output.counts.values())
    return [json.loads(row["match"]) for row in output["out"] if row["rule"] == "some"], output["dead"]


def test_a_row_on_which_a_condition_fails_fits_no_condition_and_is_a_dead_letter():
    text = "pattern: [{begin: a, where: 8.0 / n > 1.0}, {next: b, where: n > 0.0}]\nmeasures: {a: a.n, b: b.n}"
    found, dead = failing(text, [1.0, 2.0, 0.0, 4.0, 5.0, 0.0])
    assert found == [{"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 5.0}]
    assert [json.loads(row["record"]) for row in dead] == [
        {"rule": "some", "version": 1, "record": {"k": "x", "n": 0.0}}
    ] * 2
    assert all("zero" in row["error"].lower() for row in dead)


def test_a_match_whose_measures_fail_is_a_dead_letter():
    found, dead = failing("pattern: [{begin: a}]\nmeasures: {share: 8.0 / a.n}", [1.0, 0.0, 4.0])
    assert found == [{"share": 8.0}, {"share": 2.0}]
    assert len(dead) == 1


def test_what_is_divided_by_zero_behind_an_earlier_row_is_null():
    text = "pattern: [{begin: a}, {next: b, where: n / a.n > 1.0}]\nmeasures: {a: a.n, b: b.n}"
    assert failing(text, [1.0, 2.0, 0.0, 4.0, 5.0]) == ([{"a": 1.0, "b": 2.0}, {"a": 4.0, "b": 5.0}], [])


class Store(dict):
    """Pages in memory."""

    def put(self, key, value):
        self[key] = value

    def delete(self, key):
        self.pop(key, None)


class Direct:
    """An operator with its store, epoch by epoch."""

    def __init__(self, subtask=0, **options):
        self.node = built(**options).compile().stream.node("p")
        self.operator = RulesOperator(self.node, key_groups=4, page_bytes=1 << 16)
        self.store, self.mark, self.subtask = Store(), MIN_TIME, subtask

    def run(self, rows=(), rules=(), watermark=None, phase="after"):
        before, self.mark = self.mark, self.mark if watermark is None else watermark
        columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
        table = pa.table({"k": columns[0], "n": columns[1], "at": columns[2], TIME: columns[2]})
        brought = pa.Table.from_pylist([dict(rule) for rule in rules], schema=schema_of(COLUMNS).arrow)
        found, self.ledger = [], Ledger(lambda step: StepCounts(), 0)
        emit = lambda name, batch, _: found.extend(batch.rows.to_pylist() if name == MAIN else [])  # noqa: E731
        tables, updates = [table] if rows else [], [brought] if rules else []
        other = {f"other_{phase}": updates}
        times = EpochTimes(0, before, self.mark, False)
        work = EpochWork(times, [], tables, self.store, emit, self.ledger, **other, subtask=self.subtask)
        self.due = self.operator.run(work)
        return [(row["rule"], row["version"], row["k"], json.loads(row["match"])["n"]) for row in found]

    @property
    def letters(self):
        return [row["error"] for _, letters in self.ledger.dead_letters() for row in letters.to_pylist()]

    @property
    def kept(self):
        return {key.split("/")[0] for key in self.store}


RULE = {"rule": "up", "pattern": definition(within="10s")}


def test_partial_matches_go_with_their_pattern():
    direct = Direct()
    direct.run([("x", 1, 1000), ("y", 1, 1000)], [{"rule": "up", "pattern": definition()}])
    direct.run(watermark=2000)
    assert direct.kept == {"p", "p:broadcast"}
    direct.run(rules=[{"rule": "up", "pattern": None, "deleted": True}])
    assert direct.kept == {"p:broadcast"}, "how many definitions there have been is not forgotten"
    direct.run([("x", 2, 3000)], [{"rule": "up", "pattern": definition()}])
    assert direct.run(watermark=3000) == [], "a definition of the same version is another one"


def test_a_kept_definition_that_is_refused_today_becomes_a_dead_letter_and_the_others_go_on(monkeypatch):
    direct = Direct()
    old = {"rule": "old", "pattern": definition(within="20s")}
    direct.run([("x", 1, 1000)], [RULE, old])
    direct.run(watermark=2000)

    def stricter(text, *given, **named):
        if "20s" in text:
            msg = "refused by a newer version"
            raise InvalidStep(msg, code="STEP-106", hint="correct it")
        return read_rule(text, *given, **named)

    monkeypatch.setattr("millstream.runtime.operators.pattern.rule_set.read_rule", stricter)
    direct.operator = RulesOperator(direct.node, key_groups=4, page_bytes=1 << 16)
    direct.run([("x", 2, 3000)])
    assert ["refused by a newer version" in letter for letter in direct.letters] == [True]
    assert direct.run(watermark=3000) == [("up", 1, "x", 2)]
    assert direct.letters == [], "it was said once"


def test_rows_meet_the_pattern_that_is_in_force_when_the_watermark_passes_them():
    direct = Direct()
    fall = definition().replace("n > a.n", "n < a.n")
    direct.run([("x", 1, 1000), ("x", 2, 2000), ("x", 1, 3000)], [RULE])
    assert direct.run(watermark=2000) == [("up", 1, "x", 2)]
    assert direct.run(rules=[{"rule": "up", "pattern": fall}], watermark=2000, phase="before") == []
    assert direct.run([("x", 5, 4000), ("x", 3, 5000)], watermark=3000) == [], "the new version began with 1 at 3000"
    assert direct.run(watermark=5000) == [("up", 2, "x", 3)]


def test_a_replaced_pattern_is_forgotten_when_its_time_is_over():
    direct = Direct(on_update="keep")
    direct.run([("x", 1, 1000)], [RULE])
    direct.run(watermark=1500)
    direct.run(rules=[{"rule": "up", "pattern": definition(within="5s")}])
    assert held(direct) == [1, 2]
    assert direct.run([("x", 2, 9000)], watermark=8000) == []
    assert direct.run(watermark=9000) == [("up", 1, "x", 2)]
    assert held(direct) == [1, 2]
    direct.run(watermark=11_500)
    assert held(direct) == [2]


def held(direct):
    from millstream.runtime.operators.pattern.rule_set import rule_slots
    from millstream.state.entries import Entries
    from millstream.state.pages import StepPages
    from millstream.state.slots import stored_types

    pages = StepPages(direct.store, "p:broadcast")
    entries = Entries(pages, schema_of("scope string"), stored_types(rule_slots()), key_groups=4, page_bytes=1 << 16)
    rules = entries.everything()[0].slots[0]
    return [version for version, *_ in rules["up"]]


def test_versions_go_up_and_a_bad_row_changes_nothing():
    direct = Direct()
    direct.run(rules=[{**RULE, "version": 4}])
    direct.run(rules=[{**RULE, "version": 4}, RULE, {**RULE, "version": 9}])
    assert direct.letters == []
    assert held(direct) == [9]
    direct.run(rules=[{**RULE, "version": 8}, {**RULE, "version": 9, "pattern": definition()}])
    direct_letters = direct.letters
    assert ["older" in text for text in direct_letters] == [True, False]
    assert "another definition" in direct_letters[1]
    direct.run(
        rules=[{**RULE, "pattern": "pattern: 5"}, {"rule": None, "pattern": "x"}, {"rule": "a", "pattern": None}]
    )
    assert len(direct.letters) == 3
    assert held(direct) == [9]


def test_only_the_first_subtask_says_what_is_wrong():
    direct = Direct(subtask=1)
    direct.run(rules=[{"rule": "up", "pattern": "nonsense"}, RULE])
    assert direct.letters == []
    assert held(direct) == [1]


@pytest.mark.parametrize("stage", [5, "1a", None, {}, [], ["x"], [{"begin": 7}], "a" * 10_000, True, {"begin": "b"}])
@pytest.mark.parametrize("key", ["begin", "times", "where", "until", "within"])
def test_nonsense_is_a_dead_letter_and_not_the_end(stage, key):
    direct = Direct()
    text = json.dumps({"pattern": [{"begin": "a", key: stage}], "measures": {"n": "count(a)"}})
    direct.run(rules=[{"rule": "odd", "pattern": text}, RULE])
    assert held(direct) == [1]
