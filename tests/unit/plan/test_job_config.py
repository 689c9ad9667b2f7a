"""Settings that stand beside a job, as options of the job and of its connectors."""

import pytest

import millstream as ms
from millstream import registry
from millstream.errors import MillstreamError
from millstream.model.connector import declaration
from millstream.model.flow import FlowControl
from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment, EpochPolicy
from millstream.plan.job_config import SETTINGS, applied, checked_setting, epoch_options


def job_of(source=None, sink=None, **options):
    job = ms.Job("orders", guarantee="at_least_once", **options)
    rows = job.source("rows", source or ms.memory([{"a": 1}]), schema="a long", flow=FlowControl(capacity_rows=7))
    rows.sink("out", sink or ms.collect("orders"))
    return job


def applied_options(step, config, **parts):
    model = applied(job_of(**parts).model, config)
    compile_job(model)
    return model.step(step).operation.connector.options


def test_nothing_said_changes_nothing():
    model = job_of().model
    assert applied(model, {}) == model
    assert epoch_options({}) == {}


@pytest.mark.parametrize(("value", "milliseconds"), [(5000, 5000), ("5s", 5000), ("1m 30s", 90_000), (0, 0)])
def test_the_interval_is_that_of_epochs(value, milliseconds):
    model = applied(job_of(epoch_interval=1).model, {"checkpoint.interval": value})
    assert compile_job(model).deployment.epoch_interval == milliseconds


def test_the_retention_is_that_of_epochs():
    policy = EpochPolicy(**epoch_options({"checkpoint.retention": 3, "checkpoint.interval": 5}))
    plan = compile_job(applied(job_of().model, {"checkpoint.retention": 3}), Deployment(epochs=policy)).deployment
    assert plan.epochs.retained == 3


@pytest.mark.parametrize(
    ("value", "strategy"),
    [
        *((name, name.lower()) for name in ("buffer", "DROP", "Latest", "error")),
        *((name, "buffer") for name in ("BLOCKING_QUEUE", "CREDIT_BASED", "ACK_WINDOW")),
    ],
)
def test_the_strategy_is_that_of_flow_control(value, strategy):
    model = applied(job_of().model, {"backpressure.strategy": value})
    assert model.step("rows").operation.flow == FlowControl(strategy, capacity_rows=7)
    assert compile_job(model).deployment.flow[0].strategy == strategy


def test_a_strategy_that_needs_a_capacity_is_refused_where_a_source_has_none():
    job = ms.Job("orders")
    job.source("rows", ms.memory([{"a": 1}]), schema="a long").sink("out", ms.collect("orders"))
    assert applied(job.model, {"backpressure.strategy": "BUFFER"}).step("rows").operation.flow == FlowControl()
    with pytest.raises(MillstreamError, match=r"CTL-314.*'rows'.*capacity_rows") as refused:
        applied(job.model, {"backpressure.strategy": "DROP"})
    assert refused.value.step == "rows"


def test_keys_stay_with_the_strategy_that_has_them():
    job = ms.Job("orders")
    flow = FlowControl("latest", capacity_rows=7, key="a", target="1s")
    job.source("rows", ms.memory([{"a": 1}]), schema="a long", flow=flow).sink("out", ms.collect("orders"))
    flows = {
        name: applied(job.model, {"backpressure.strategy": name}).step("rows").operation.flow
        for name in ("latest", "drop")
    }
    assert flows == {"latest": flow, "drop": FlowControl("drop", capacity_rows=7, target="1s")}


def pages(**paginator):
    return ms.http("https://api.example.org/rows", paginator={"type": "page", **paginator})


def write(batch, ctx):
    """A function for a consumer."""


@pytest.mark.parametrize(
    ("source", "way"),
    [
        (ms.jdbc_table("sqlite:///x.db", "t"), ["chunk_rows"]),
        (ms.jdbc_query("sqlite:///x.db", "SELECT 1 AS a", key="a"), ["chunk_rows"]),
        (pages(size=10, size_param="per_page"), ["paginator", "size"]),
        (ms.http("https://api.example.org/rows", paginator={"type": "offset", "size": 10}), ["paginator", "size"]),
        (ms.kafka("t", servers="127.0.0.1:9092", start="earliest"), ["poll_messages"]),
    ],
)
def test_the_batch_of_a_source_is_its_page(source, way):
    found = applied_options("rows", {"source.batch.size": 250}, source=source)
    for name in way:
        found = found[name]
    assert found == 250
    model = applied(job_of(source=source).model, {"source.batch.size": 250})
    assert model.step("rows").operation.credit is None, "the credit is another matter"


@pytest.mark.parametrize(
    ("sink", "way"),
    [
        (ms.http("https://api.example.org/rows"), ["batch_rows"]),
        (ms.consumer(write), ["batch_rows"]),
        (ms.jdbc("sqlite:///x.db", table="t"), ["batch_rows"]),
        (ms.kafka("t", servers="127.0.0.1:9092"), ["client", "batch.num.messages"]),
        (ms.kafka("t", servers="127.0.0.1:9092", client={"linger.ms": 5}), ["client", "batch.num.messages"]),
    ],
)
def test_the_batch_of_a_sink_is_its_request(sink, way):
    found = applied_options("out", {"sink.batch.size": 250}, sink=sink)
    assert found.get("client", {}).get("linger.ms") == sink.options.get("client", {}).get("linger.ms")
    for name in way:
        found = found[name]
    assert found == 250


@pytest.mark.parametrize(
    "source", [ms.memory([{"a": 1}]), pages(), pages(size=10), ms.http("https://api.example.org/rows"), ms.files("in")]
)
def test_a_source_that_asks_for_no_number_of_rows_is_named(source):
    with pytest.raises(MillstreamError, match=r"CTL-314.*'source.batch.size'.*remove") as refused:
        applied(job_of(source=source).model, {"source.batch.size": 250})
    assert refused.value.step == "rows"


def test_a_sink_that_takes_no_number_of_rows_is_named():
    with pytest.raises(MillstreamError, match="CTL-314") as refused:
        applied(job_of().model, {"sink.batch.size": 250})
    assert refused.value.step == "out"


def test_a_size_that_the_option_does_not_take_is_refused_at_its_step():
    job = ms.Job("orders", params={"n": {"type": "int", "default": 3}})
    source = ms.http(
        "https://api.example.org/rows", paginator={"type": "page", "size": "${param:n}", "size_param": "n"}
    )
    job.source("rows", source, schema="a long").sink("out", ms.collect("orders"))
    with pytest.raises(MillstreamError, match="CTL-314"):
        applied(job.model, {"source.batch.size": 250})


def test_every_named_option_is_declared():
    """Also of connectors to come: a way that leads nowhere would be refused as an unknown option, far from its cause."""
    known = {}
    for name in registry.names("connectors"):
        for half in (declaration(name).source, declaration(name).sink):
            options = {key: option.default for key, option in (half.options if half else {}).items()}
            options["paginator"] = {"type": "offset", "size": 1}
            if half and half.batch_option(options):
                known[name, type(half).__name__] = half.batch_option(options)
                assert known[name, type(half).__name__][0] in half.options
    assert {(name, kind[:4]) for name, kind in known} == {
        *(("http", "Sour"), ("jdbc", "Sour"), ("kafka", "Sour")),
        *(("http", "Sink"), ("jdbc", "Sink"), ("consumer", "Sink"), ("kafka", "Sink")),
    }


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("checkpoint.intervall", 5, "CTL-310"),
        ("region", "eu", "CTL-310"),
        *(("checkpoint.interval", value, "CTL-312") for value in (-1, 2**31, "", "soon", None, True, 1.5)),
        *(("checkpoint.retention", value, "CTL-312") for value in (0, -1, "5", None, True, 2.0, 2**31)),
        *(("backpressure.strategy", value, "CTL-312") for value in ("", "hope", None, 1, ["drop"], {"a": 1})),
        *(("source.batch.size", value, "CTL-312") for value in (0, "9", None, False)),
    ],
)
def test_a_wrong_setting_is_refused_wherever_it_is_read(key, value, code):
    for act in (lambda: checked_setting(key, value), lambda: applied(job_of().model, {key: value})):
        with pytest.raises(MillstreamError, match=code) as refused:
            act()
        assert refused.value.hint
    assert set(SETTINGS) == {
        "checkpoint.interval",
        "checkpoint.retention",
        "backpressure.strategy",
        "source.batch.size",
        "sink.batch.size",
    }


def test_the_fingerprint_of_a_job_does_not_change_by_its_settings():
    """A checkpoint goes on under other settings."""
    source = ms.jdbc_table("sqlite:///x.db", "t")
    model = job_of(source=source, sink=ms.http("https://api.example.org/rows")).model
    config = {
        "checkpoint.interval": "7s",
        "source.batch.size": 9,
        "sink.batch.size": 9,
        "backpressure.strategy": "DROP",
    }
    prints = [compile_job(each).partitioned.fingerprint for each in (model, applied(model, config))]
    assert prints[0] == prints[1]
