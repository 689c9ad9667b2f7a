"""What a user can get wrong while building a job: each is refused where it was written, with what to do about it."""

import copy
import linecache
import traceback

import pytest

import millstream as ms
from millstream.errors import InvalidCall, InvalidExpression, InvalidPlan, InvalidSchema, InvalidStep
from millstream.model.connector import ConnectorSpec
from millstream.plan.deployment import Deployment, MemoryBudget

CASES = []
SCHEMA = "user string, amount double, at long, tags array<string>, place struct<x:int>"


def refused(kind, code, *, step=None, shows=""):
    """Register a case: the error's class, code and step, and which of `found` and `known` it shows."""

    def register(function):
        CASES.append(pytest.param(function, kind, code, step, set(shows.split()), id=function.__name__))
        return function

    return register


def rows(job=None, name="orders"):
    return (job or ms.Job("refusals")).source(name, ms.memory([]), schema=SCHEMA)


def timed():
    return rows().event_time("at", id="timed")


def double(row):
    return row


class Counter(ms.ProcessFunction):
    def process(self, row, ctx):
        yield row


def jdbc_sink(**options):
    return ms.jdbc("sqlite:///x.db", table="t", mode="upsert", **options)


@refused(InvalidStep, "JDBC-001", step="out")
def upsert_without_keys():
    rows().sink("out", jdbc_sink())  # here


@refused(InvalidStep, "JDBC-001", step="out", shows="known")
def upsert_by_an_unknown_key():
    rows().sink("out", jdbc_sink(keys=["nobody"]))  # here


@refused(InvalidCall, "PLAN-060", shows="found")
def memory_of_no_rows():
    ms.memory(5)  # here


@refused(InvalidCall, "PLAN-060", shows="found")
def memory_of_one_row():
    ms.memory({"user": "ann"})  # here


@refused(InvalidPlan, "DECL-001", shows="found")
def a_job_file_that_is_a_number():
    ms.load_job(5)  # here


@refused(InvalidStep, "STEP-109", step="p", shows="found known")
def a_measure_of_an_unknown_stage():
    rows().key_by("user").pattern(ms.pattern.begin("a")).measures(n="count(b)", id="p")  # here


@refused(InvalidPlan, "PLAN-033", shows="found")
def a_checkpoint_that_is_a_file():
    Deployment(checkpoint=__file__)  # here


@refused(InvalidPlan, "PLAN-033", shows="found")
def a_checkpoint_below_a_file():
    Deployment(checkpoint=f"{__file__}/below")  # here


# Names and options of a job


@refused(InvalidStep, "STEP-003", shows="found known")
def job_name_with_a_slash():
    ms.Job("a/b")  # here


@refused(InvalidStep, "STEP-005", shows="found known")
def unknown_guarantee():
    ms.Job("job", guarantee="twice")  # here


@refused(InvalidStep, "STEP-004", shows="found known")
def epoch_interval_without_a_unit():
    ms.Job("job", epoch_interval="soon")  # here


@refused(InvalidStep, "STEP-030", shows="found known")
def parallelism_above_the_key_groups():
    ms.Job("job", parallelism=200)  # here


@refused(InvalidStep, "STEP-030", shows="found known")
def parallelism_as_text():
    ms.Job("job", parallelism="2")  # here


@refused(InvalidStep, "STEP-002", shows="found known")
def step_id_with_a_space():
    rows().filter("amount > 0", id="my step")  # here


@refused(InvalidStep, "STEP-031", step="orders")
def name_used_twice():
    job = ms.Job("job")
    rows(job)
    job.source("orders", ms.memory([]), schema=SCHEMA)  # here


@refused(InvalidStep, "STEP-031", step="big")
def id_used_twice():
    stream = rows()
    stream.filter("amount > 0", id="big")
    stream.filter("amount > 1", id="big")  # here


# Connectors


@refused(InvalidStep, "STEP-063", step="in", shows="found")
def source_without_a_connector():
    ms.Job("job").source("in", "in/", schema=SCHEMA)  # here


@refused(InvalidStep, "CONN-001", shows="found known")
def unknown_connector():
    ms.Job("job").source("in", ConnectorSpec("kafak"), schema=SCHEMA)  # here


@refused(InvalidStep, "CONN-002", step="in", shows="known")
def sink_as_source():
    ms.Job("job").source("in", ms.collect("out"), schema=SCHEMA)  # here


@refused(InvalidStep, "CONN-002", step="out", shows="known")
def source_as_sink():
    rows().sink("out", ms.rate(1))  # here


@refused(InvalidStep, "CONN-003", step="in", shows="known")
def unknown_option():
    ms.Job("job").source("in", ms.files("in/", fromat="json"), schema=SCHEMA)  # here


@refused(InvalidStep, "CONN-004", step="in")
def missing_option():
    ms.Job("job").source("in", ConnectorSpec("files"), schema=SCHEMA)  # here


@refused(InvalidStep, "CONN-005", step="out", shows="found known")
def option_with_a_wrong_value():
    rows().sink("out", ms.files("out/", format="exel"))  # here


@refused(InvalidStep, "CONN-005", step="in", shows="found known")
def option_of_a_wrong_type():
    ms.Job("job").source("in", ms.files("in/", watch="yes"), schema=SCHEMA)  # here


@refused(InvalidStep, "STEP-061", step="in")
def source_without_a_schema():
    ms.Job("job").source("in", ms.files("in/"))  # here


@refused(InvalidStep, "STEP-024", shows="found")
def credit_of_nothing():
    ms.Job("job").source("in", ms.memory([]), schema=SCHEMA, credit=0)  # here


@refused(InvalidStep, "STEP-024", shows="found")
def credit_as_text():
    ms.Job("job").source("in", ms.memory([]), schema=SCHEMA, credit="many")  # here


# Schemas


@refused(InvalidSchema, "SCHEMA-001", shows="found known")
def schema_of_a_number():
    ms.Job("job").source("in", ms.memory([]), schema=3)  # here


@refused(InvalidSchema, "SCHEMA-002", shows="found known")
def unknown_column_type():
    ms.Job("job").source("in", ms.memory([]), schema="user strng")  # here


@refused(InvalidSchema, "SCHEMA-002", shows="found known")
def annotation_that_is_not_a_column_type():
    ms.Job("job").source("in", ms.memory([]), schema={"user": complex})  # here


@refused(InvalidSchema, "SCHEMA-003", shows="found")
def reserved_column_name():
    ms.Job("job").source("in", ms.memory([]), schema="__ms_x int")  # here


@refused(InvalidSchema, "SCHEMA-004", shows="found")
def column_twice():
    ms.Job("job").source("in", ms.memory([]), schema="a int, a long")  # here


@refused(InvalidSchema, "SCHEMA-004", shows="found")
def aggregate_named_like_a_key():
    rows().key_by("user").aggregate(user=ms.count(), id="n")  # here


# Expressions


@refused(InvalidExpression, "EXPR-005", step="orders.filter", shows="known")
def unknown_column_in_an_expression():
    rows().filter("amout > 0")  # here


@refused(InvalidExpression, "EXPR-001", step="orders.filter", shows="found")
def expression_that_does_not_parse():
    rows().filter("amount >")  # here


@refused(InvalidExpression, "EXPR-003", step="orders.filter", shows="found")
def subquery():
    rows().filter("amount > (select 1)")  # here


@refused(InvalidExpression, "EXPR-004", step="orders.with_columns", shows="known")
def unknown_function():
    rows().with_columns(name="uper(user)")  # here


@refused(InvalidExpression, "EXPR-006", step="orders.with_columns")
def function_that_differs_on_replay():
    rows().with_columns(r="rand()")  # here


@refused(InvalidExpression, "EXPR-007", step="orders.with_columns", shows="found")
def arithmetic_on_an_array():
    rows().with_columns(x="tags + 1")  # here


@refused(InvalidExpression, "EXPR-010", step="orders.filter", shows="found")
def filter_that_is_not_boolean():
    rows().filter("amount + 1")  # here


@refused(InvalidStep, "STEP-067", step="orders")
def select_nothing():
    rows().select()  # here


@refused(InvalidStep, "STEP-069", step="orders")
def rebalance_before_key_by():
    rows().rebalance().key_by("user")  # here


@refused(InvalidStep, "STEP-075", step="orders")
def step_id_that_is_a_column():
    rows().select("amount", id="user")  # here


@refused(InvalidStep, "STEP-067", step="orders", shows="found")
def column_that_is_not_text():
    rows().with_columns(one=1)  # here


# Python steps


@refused(InvalidStep, "STEP-060", step="orders.map", shows="found known")
def function_without_an_output_schema():
    rows().map(double)  # here


@refused(InvalidStep, "STEP-060", step="flat", shows="found known")
def lambda_without_an_output_schema():
    rows().flat_map(lambda row: [row], id="flat")  # here


@refused(InvalidStep, "STEP-010", step="orders.map", shows="found")
def function_that_cannot_be_imported():
    rows().map("no.such:function", schema=SCHEMA)  # here


@refused(InvalidStep, "STEP-062", step="orders.map", shows="found known")
def unknown_error_policy():
    rows().map(double, schema=SCHEMA, on_error="ignore")  # here


@refused(InvalidStep, "STEP-068", shows="found")
def error_policy_of_an_expression():
    rows().filter("amount > 0", on_error="skip")  # here


# Event time and unions


@refused(InvalidStep, "STEP-042", step="orders.event_time", shows="known")
def event_time_of_an_unknown_column():
    rows().event_time("when")  # here


@refused(InvalidStep, "STEP-044", step="orders.event_time", shows="found known")
def event_time_of_a_string():
    rows().event_time("user")  # here


@refused(InvalidStep, "STEP-004", shows="found known")
def delay_without_a_unit():
    rows().event_time("at", max_delay="5 parsecs")  # here


@refused(InvalidStep, "STEP-023", shows="found")
def delay_below_zero():
    rows().event_time("at", max_delay=-1)  # here


@refused(InvalidStep, "STEP-004", shows="found")
def idle_after_nothing():
    rows().event_time("at", idle_after=0)  # here


@refused(InvalidStep, "STEP-045", step="orders.union", shows="found known")
def union_of_different_columns():
    stream = rows()
    stream.union(stream.select("user"))  # here


@refused(InvalidStep, "STEP-064", shows="found")
def union_across_jobs():
    rows().union(rows())  # here


@refused(InvalidStep, "STEP-064", shows="found")
def union_with_a_list():
    rows().union([])  # here


@refused(InvalidStep, "STEP-021", step="orders.union", shows="found")
def union_with_nothing():
    rows().union()  # here


@refused(InvalidStep, "STEP-066", step="orders", shows="known")
def unknown_side_output():
    rows().side_output("errors")  # here


@refused(InvalidStep, "STEP-066", step="orders", shows="known")
def late_rows_of_a_source():
    rows().late  # here


# Keys


@refused(InvalidStep, "STEP-065", step="orders", shows="known")
def key_by_nothing():
    rows().key_by()  # here


@refused(InvalidStep, "STEP-042", step="orders", shows="known")
def key_by_an_unknown_column():
    rows().key_by("usr")  # here


@refused(InvalidStep, "STEP-041", step="orders", shows="found known")
def key_by_a_nested_column():
    rows().key_by("place")  # here


@refused(InvalidStep, "STEP-046", step="orders.aggregate")
def aggregate_nothing():
    rows().key_by("user").aggregate()  # here


@refused(InvalidStep, "STEP-073", step="n", shows="found")
def aggregate_as_text():
    rows().key_by("user").aggregate(total="sum(amount)", id="n")  # here


@refused(InvalidStep, "STEP-013", step="n", shows="found known")
def sum_of_a_string():
    rows().key_by("user").aggregate(total=ms.sum("user"), id="n")  # here


@refused(InvalidExpression, "EXPR-005", step="n", shows="known")
def aggregate_of_an_unknown_column():
    rows().key_by("user").aggregate(total=ms.sum("amout"), id="n")  # here


@refused(InvalidStep, "STEP-012")
def sum_of_nothing():
    ms.sum(None)  # here


@refused(InvalidStep, "STEP-070", step="n", shows="found known")
def unknown_emit_mode():
    rows().key_by("user").aggregate(n=ms.count(), emit="always", id="n")  # here


@refused(InvalidStep, "STEP-071", step="orders.process", shows="found")
def process_with_a_plain_function():
    rows().key_by("user").process(double, schema=SCHEMA)  # here


@refused(InvalidStep, "STEP-071", step="p", shows="found")
def process_with_another_class():
    rows().key_by("user").process(dict, schema=SCHEMA, id="p")  # here


@refused(InvalidStep, "STEP-060", step="p", shows="found known")
def process_without_an_output_schema():
    rows().key_by("user").process(Counter, id="p")  # here


@refused(InvalidStep, "STEP-074", step="p")
def side_output_with_a_reserved_name():
    rows().key_by("user").process(Counter, schema=SCHEMA, outputs={"late": SCHEMA}, id="p")  # here


@refused(InvalidStep, "STATE-001")
def state_outside_of_process():
    ms.ValueState(int).value()  # here


@refused(InvalidStep, "STEP-004", shows="found")
def state_kept_for_no_time():
    ms.ValueState(int, ttl="0s")  # here


# Windows


@refused(InvalidStep, "STEP-040", step="w")
def window_without_event_time():
    rows().key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="w")  # here


@refused(InvalidStep, "STEP-072", shows="found")
def window_as_text():
    timed().key_by("user").window("1m")  # here


@refused(InvalidStep, "STEP-004", shows="found known")
def window_size_that_is_not_a_duration():
    ms.tumbling("a minute")  # here


@refused(InvalidStep, "STEP-004", shows="found")
def window_of_no_size():
    ms.tumbling(0)  # here


@refused(InvalidStep, "STEP-011", shows="found")
def slide_longer_than_the_window():
    ms.sliding("1m", "2m")  # here


@refused(InvalidStep, "STEP-011", shows="found")
def window_that_is_no_multiple_of_its_slide():
    ms.sliding("1m", "25s")  # here


@refused(InvalidStep, "STEP-004", shows="found")
def session_without_a_gap():
    ms.session(0)  # here


@refused(InvalidStep, "STEP-004", shows="found known")
def lateness_that_is_not_a_duration():
    timed().key_by("user").window(ms.tumbling("1m"), allowed_lateness="a bit")  # here


@refused(InvalidStep, "STEP-060", step="w", shows="found known")
def window_function_without_an_output_schema():
    timed().key_by("user").window(ms.session("1m")).process(double, id="w")  # here


# Whole jobs


@refused(InvalidPlan, "PLAN-012")
def job_without_a_sink():
    job = ms.Job("job")
    rows(job)
    job.compile()  # here


@refused(InvalidPlan, "PLAN-040")
def guarantee_that_a_sink_cannot_keep():
    job = ms.Job("job", guarantee="exactly_once")
    rows(job).sink("out", ms.print())
    job.compile()  # here


@refused(InvalidPlan, "PLAN-031", shows="found known")
def unknown_state_backend():
    Deployment(state_backend="redis")  # here


@refused(InvalidPlan, "PLAN-030", shows="found")
def memory_budget_of_nothing():
    MemoryBudget(page_bytes=0)  # here


@refused(InvalidStep, "STEP-050", step="orders.map", shows="found")
def lambda_in_a_definition():
    job = ms.Job("job")
    rows(job).map(lambda row: row, schema=SCHEMA).sink("out", ms.collect("x"))
    job.to_json()  # here


# Definitions in JSON


def definition():
    job = ms.Job("job")
    stream = rows(job).event_time("at", id="timed").filter("amount > 0", id="big")
    stream.key_by("user").window(ms.tumbling("1m")).aggregate(n=ms.count(), id="n").sink("out", ms.collect("x"))
    return copy.deepcopy(job.to_json())


@refused(InvalidPlan, "PLAN-020", shows="found known")
def definition_in_another_format():
    ms.Job.from_json({**definition(), "format": 99})  # here


@refused(InvalidPlan, "PLAN-021", shows="found known")
def definition_with_another_part():
    ms.Job.from_json({**definition(), "extra": 1})  # here


@refused(InvalidPlan, "PLAN-010", step="timed")
def cycle():
    value = definition()
    value["steps"][1]["inputs"][0]["step"] = "big"
    ms.Job.from_json(value)  # here


@refused(InvalidPlan, "PLAN-011", step="timed", shows="known")
def input_that_does_not_exist():
    value = definition()
    value["steps"][1]["inputs"][0]["step"] = "ordres"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-043", step="timed", shows="known")
def output_that_does_not_exist():
    value = definition()
    value["steps"][1]["inputs"][0]["output"] = "late"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-021", step="big", shows="found")
def step_without_input():
    value = definition()
    value["steps"][2]["inputs"] = []
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-021", step="out", shows="found")
def sink_without_input():
    value = definition()
    value["steps"][-1]["inputs"] = []
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-021", step="orders")
def source_with_input():
    value = definition()
    value["steps"][0]["inputs"] = value["steps"][1]["inputs"]
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-022", step="n")
def keyed_step_without_keys():
    value = definition()
    value["steps"][3]["inputs"][0] |= {"partition": "forward", "keys": []}
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-020", shows="found")
def keys_on_a_forward_edge():
    value = definition()
    value["steps"][1]["inputs"][0]["keys"] = ["user"]
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-051", step="big", shows="known")
def unknown_kind():
    value = definition()
    value["steps"][2]["kind"] = "fliter"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-052", step="big", shows="known")
def unknown_field():
    value = definition()
    value["steps"][2]["were"] = "amount > 0"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-053", step="big", shows="known")
def missing_field():
    value = definition()
    del value["steps"][2]["where"]
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-054", step="orders", shows="found known")
def field_outside_its_choices():
    value = definition()
    value["steps"][0]["on_error"] = "ignore"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-054", step="n", shows="found known")
def unknown_window_kind():
    value = definition()
    value["steps"][3]["window"]["kind"] = "hopping"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "STEP-012", shows="found known")
def unknown_aggregate():
    value = definition()
    value["steps"][3]["aggregates"][0][1]["kind"] = "median"
    ms.Job.from_json(value)  # here


@refused(InvalidStep, "CONN-003", step="out", shows="known")
def unknown_option_in_a_definition():
    value = definition()
    value["steps"][-1]["connector"]["options"]["nmae"] = "x"
    ms.Job.from_json(value)  # here


@pytest.mark.parametrize(("case", "kind", "code", "step", "shows"), CASES)
def test_refusal(case, kind, code, step, shows):
    with pytest.raises(kind) as caught:
        case()
    error = caught.value
    assert type(error) is kind
    assert (error.code, error.step) == (code, step)
    assert error.hint, "an error says what to do"
    assert {name for name in ("found", "known") if getattr(error, name) is not None} == shows
    assert f"[{code}]" in str(error)
    assert user_line(error).endswith("# here"), "the error comes from the line that caused it"


def user_line(error):
    """The innermost line of this file in the error's traceback."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    mine = [line for frame, line in frames if frame.f_code.co_filename == __file__]
    return linecache.getline(__file__, mine[-1]).strip()
