"""How patterns are written down: checks of the builder, JSON, plans, and job files."""

import json

import pytest
import yaml

import millstream as ms
from millstream.errors import MillstreamError
from millstream.graph.patterns.json_form import pattern_from_json
from millstream.graph.patterns.pattern import pattern_to_json
from millstream.graph.render import stream_text
from millstream.testing import run_job

begin = ms.pattern.begin
A = begin("a").where("n > 0")


@pytest.mark.parametrize(
    ("build", "code"),
    [
        (lambda: begin(""), "STEP-100"),
        (lambda: begin("a b"), "STEP-100"),
        (lambda: A.next("a").spec, "STEP-100"),
        (lambda: A.next(begin("b").next("a")).spec, "STEP-100"),
        (lambda: A.times(0), "STEP-101"),
        (lambda: A.times(3, 2), "STEP-101"),
        (lambda: A.times(True), "STEP-101"),
        (lambda: A.times(False, 2), "STEP-101"),
        (lambda: A.greedy(), "STEP-102"),
        (lambda: A.consecutive(), "STEP-102"),
        (lambda: A.allow_combinations(), "STEP-102"),
        (lambda: A.until("n > 1"), "STEP-102"),
        (lambda: A.times(2).until("n > 1"), "STEP-102"),
        (lambda: A.not_next("b").one_or_more(), "STEP-102"),
        (lambda: A.not_followed_by("b").optional(), "STEP-102"),
        (lambda: A.not_next(begin("b")), "STEP-102"),
        (lambda: begin(A).where("n > 1"), "STEP-102"),
        (lambda: begin(A).one_or_more().greedy(), "STEP-102"),
        (lambda: A.optional().spec, "STEP-103"),
        (lambda: A.optional().next("b").optional().not_next("c").next("d").spec, "STEP-103"),
        (lambda: A.not_followed_by("b").spec, "STEP-104"),
        (lambda: begin(A.not_followed_by("b")), "STEP-104"),
        (lambda: A.not_followed_by("b").next("c").optional().within("1s").spec, "STEP-104"),
        (lambda: A.one_or_more().not_followed_by("b").within("1s", "previous_to_current").spec, "STEP-104"),
        (lambda: A.skip_to_last("z").spec, "STEP-105"),
        (lambda: A.not_next("b").skip_to_first("b").spec, "STEP-105"),
        (lambda: A.times(2).one_or_more(), "STEP-200"),
        (lambda: A.times(1).times(2), "STEP-200"),
        (lambda: A.one_or_more().times_or_more(2), "STEP-200"),
        (lambda: A.one_or_more().until("n > 1").until("n > 2"), "STEP-200"),
        (lambda: A.next("b").within("2s", "previous_to_current").within("1s").spec, "STEP-106"),
        (lambda: A.times(2, within="2s").within("1s").spec, "STEP-106"),
        (lambda: begin(A.next("b").times(2, within="2s")).within("1s").spec, "STEP-106"),
        (lambda: A.times(1, within="1s"), "STEP-102"),
        (lambda: A.times(0, 0), "STEP-101"),
        (lambda: A.times_or_more(0), "STEP-101"),
        (lambda: A.times(2, within="0s"), "STEP-004"),
        (lambda: A.within("0s"), "STEP-004"),
        (lambda: A.within("1s", "all"), "STEP-106"),
        (lambda: pattern_from_json({"stages": [{"name": "a", "colour": 1}]}), "STEP-110"),
        (lambda: pattern_from_json({"stages": [{"name": "a", "least": "2"}]}), "STEP-110"),
        (lambda: pattern_from_json({"stages": [{"name": "a", "contiguity": "near"}]}), "STEP-102"),
        (lambda: pattern_from_json({"stages": "a"}), "STEP-110"),
        (lambda: pattern_from_json([]), "STEP-110"),
    ],
)
def test_patterns_that_are_refused(build, code):
    with pytest.raises(MillstreamError) as caught:
        build()
    assert caught.value.code == code
    assert caught.value.hint or caught.value.known


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: A.times(0), "optional()"),
        (lambda: A.optional().spec, "make one of them required"),
        (lambda: begin(begin("x").optional()), "make one of them required"),
        (lambda: A.not_followed_by("b").spec, "add within('10s')"),
        (lambda: A.not_followed_by("b").next("c").optional().within("1s").spec, "make one of them required"),
        (lambda: begin(A.not_followed_by("b")).within("1s"), "move it behind the group"),
        (lambda: A.not_followed_by("b").not_followed_by("c").within("1s").spec, "or_where()"),
        (
            lambda: A.one_or_more().not_followed_by("b").within("1s", "previous_to_current").within("9s").spec,
            "limit the whole pattern",
        ),
    ],
)
def test_a_refused_pattern_says_what_to_do(build, said):
    with pytest.raises(MillstreamError) as caught:
        build()
    assert said in str(caught.value.hint)


def test_a_first_stage_may_be_optional():
    assert A.optional().next("b").spec.names == ("a", "b")


def test_zero_to_some_times_is_an_optional_stage():
    assert A.next("b").times(0, 3).spec == A.next("b").times(1, 3).optional().spec
    assert A.next("b").times(0, 3, within="1s").spec.version != A.next("b").times(0, 3).spec.version


def keyed():
    job = ms.Job("definition")
    return job, job.source("in", ms.memory([]), schema="k string, n long, at long").event_time("at").key_by("k")


@pytest.mark.parametrize(
    ("close", "code"),
    [
        (lambda found: found.measures(), "STEP-108"),
        (lambda found: found.measures(x="z.n"), "EXPR-005"),
        (lambda found: found.measures(x="n"), "EXPR-005"),
        (lambda found: found.measures(x="null"), "EXPR-011"),
        (lambda found: found.select(lambda match: {}), "STEP-060"),
        (lambda found: found.select(lambda match: {}, schema="n long", timed_out=lambda match: {}), "STEP-060"),
    ],
)
def test_closings_that_are_refused(close, code):
    _, stream = keyed()
    with pytest.raises(MillstreamError) as caught:
        close(stream.pattern(A))
    assert caught.value.code == code


def test_conditions_are_checked_where_the_step_is_built():
    _, stream = keyed()
    with pytest.raises(MillstreamError) as caught:
        stream.pattern(begin("a").where("missing > 1")).measures(n="a.n", id="found")
    assert (caught.value.code, caught.value.step) == ("EXPR-005", "found")
    with pytest.raises(MillstreamError) as caught:
        stream.pattern(A, order_by="missing").measures(n="a.n")
    assert caught.value.code == "STEP-042"
    with pytest.raises(MillstreamError) as caught:
        stream.pattern("a b+")
    assert caught.value.code == "STEP-107"


FULL = (
    begin("a").where("n > 0").or_where("n = a.n").one_or_more().greedy().consecutive()
    .not_next("x").where("n = 7")
    .followed_by(begin("b").next("c").within("1s", "previous_to_current")).times(2, 3).allow_combinations().optional()
    .followed_by_any("d").where(str.isdigit).times_or_more(2).until("n = 9")
    .within("10s").skip_to_last("d")
)  # fmt: skip


def test_the_json_form_gives_the_pattern_back():
    portable = A.next("b").where("n > a.n").times(2, 4).optional().within("5s").skip_to_first("b").spec
    assert pattern_from_json(json.loads(json.dumps(pattern_to_json(portable)))) == portable
    written = pattern_to_json(FULL.spec)
    assert [stage.get("name") for stage in written["stages"]] == ["a", "x", None, "d"]
    assert written["stages"][0]["where"][1] == {"join": "or", "condition": "n = a.n"}
    assert pattern_to_json(A.spec) == {"stages": [{"name": "a", "where": ["n > 0"]}]}


def test_versions_follow_the_stages_and_not_their_conditions():
    assert A.spec.version == begin("a").where("n > 1").spec.version
    assert A.spec.version != A.one_or_more().spec.version
    assert A.next("b").spec.version != A.followed_by("b").spec.version


def test_a_job_with_a_pattern_goes_through_json():
    job, stream = keyed()
    pattern = A.followed_by("b").where("n > a.n").within("5s").skip_past_last_event()
    found = stream.pattern(pattern, order_by="n").measures(low="a.n", timed_out={"open": "a.n"}, id="p")
    found.sink("out", ms.collect("out"))
    again = ms.Job.from_json(json.loads(json.dumps(job.to_json())))
    assert again.model == job.model
    assert again.compile().partitioned.fingerprint == job.compile().partitioned.fingerprint
    text = stream_text(job.compile().stream)
    assert "a followed by b within 5000 ms, then past_last" in text


def test_a_python_condition_that_cannot_be_imported_is_not_portable():
    job, stream = keyed()
    stream.pattern(begin("a").where(lambda row: True)).measures(n="a.n", id="p").sink("out", ms.collect("out"))
    with pytest.raises(MillstreamError) as caught:
        job.to_json()
    assert caught.value.code == "STEP-050"


JOB = """
job: file
steps:
  - source: in
    from: {{memory: {{rows: []}}}}
    schema: k string, n long, at long
  - event_time: at
  - pattern:
{stages}
    key_by: k
    {options}
    id: p
  - sink: out
    to: {{collect: {{name: out}}}}
"""
ROWS = [{"k": "x", "n": n, "at": at} for at, n in enumerate([1, 2, 4, 3, 9, 5])]


def load(stages, options="measures: {n: first(a.n)}"):
    return ms.load_job(JOB.format(stages="\n".join(f"      {line}" for line in stages), options=options))


@pytest.mark.parametrize(
    ("stages", "options", "expected"),
    [
        (["- {begin: a, where: [n > 1, n < 9]}"], "measures: {n: a.n}", [2, 4, 3, 5]),
        (["- {begin: a, where: n = 1, or_where: n = 9}"], "measures: {n: a.n}", [1, 9]),
        (["- {begin: a, where: n = 1}", "- {next: b, times: 2}"], "measures: {n: b.n}", [4]),
        (["- {begin: a, where: n = 1}", "- {followed_by: b, where: n > 2, times: [1, 2]}"], "measures: {n: count(b)}", [1, 2]),
        (["- {begin: a, one_or_more: true, greedy: true, consecutive: true, where: n < 9}", "- next: b"],
         "{after_match: skip_past_last_event, measures: {n: count(a)}}", [4]),
        (["- {begin: a, times_or_more: 2, until: n = 4, where: n > 0}"], "measures: {n: count(a)}", [2, 2, 2, 3]),
        (["- {begin: a, where: n = 3}", "- {not_next: b, where: n = 4}", "- {followed_by: c, within: 3ms}"],
         "{within: 1s, measures: {n: c.n}}", [9]),
        (["- {begin: a, where: 'n > 1', times: {times: 3, within: 2ms}}"], "measures: {n: sum(a.n)}", [9, 16, 17]),
        (["- {begin: a, where: 'n <> 3', times_or_more: {times_or_more: 4, within: 2ms}}"], "measures: {n: sum(a.n)}", []),
        (["- {begin: a, where: 'n <> 3', one_or_more: {within: 2ms}}"], "measures: {n: count(a)}", [1, 1, 1, 1, 1, 2, 2, 2, 3]),
        (["- {begin: a, where: n = 1}", "- {next: b, where: n = 2, times: [0, 2]}"], "measures: {n: count(b)}", [0, 1]),
        (["- {begin: a, where: 'n in (1, 2, 9)'}", "- next: b"],
         "{after_match: {skip_to_last: b}, measures: {n: a.n}}", [1, 2, 9]),
    ],
)  # fmt: skip
def test_patterns_of_job_files(stages, options, expected):
    options = "\n    ".join(_split(options)) if options.startswith("{") else options
    output = run_job(load(stages, options), {"in": ROWS})
    assert sorted(row["n"] for row in output["out"]) == sorted(expected)


def _split(options):
    return [f"{key}: {json.dumps(value)}" for key, value in yaml.safe_load(options).items()]


@pytest.mark.parametrize(
    ("stages", "options", "code"),
    [
        (["- {next: a}"], "measures: {n: a.n}", "DECL-006"),
        (["- {begin: a}", "- {begin: b}"], "measures: {n: a.n}", "DECL-006"),
        (["- {begin: a, colour: 1}"], "measures: {n: a.n}", "DECL-004"),
        (["- {begin: a, optional: maybe}"], "measures: {n: a.n}", "DECL-006"),
        (["- {begin: a, where: 3}"], "measures: {n: a.n}", "DECL-006"),
        (["- {begin: a, times: [1, 2, 3]}"], "measures: {n: a.n}", "DECL-006"),
        (["- {begin: a, times: {within: 1s}}"], "measures: {n: a.n}", "DECL-006"),
        (["- {begin: a, times: {times: 2, near: 1s}}"], "measures: {n: a.n}", "DECL-004"),
        (["- {begin: a, times: 2, one_or_more: true}"], "measures: {n: a.n}", "STEP-200"),
        (["- {begin: a}"], "within: 1s", "DECL-006"),
        (["- {begin: a}"], "measures: [a.n]", "DECL-006"),
    ],
)
def test_job_files_that_are_refused(stages, options, code):
    with pytest.raises(MillstreamError) as caught:
        load(stages, options)
    assert caught.value.code == code
    assert "line" in str(caught.value)
