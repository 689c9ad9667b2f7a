"""Settings of the client: what may be set, and that passwords are nowhere to be read."""

import json
import subprocess
import sys

import pytest
from tests.unit.connectors.kafka.sink_under_test import options_of

import millstream as ms
from millstream.connectors.kafka.client_options import client_config
from millstream.connectors.kafka.clients import ClientErrors, Undelivered, open_producer
from millstream.errors import InvalidStep
from millstream.plan.deployment import Deployment
from millstream.plan.explain import LAYERS, explain

NAMED = {
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "shop",
    "sasl.password": "${secret:KAFKA_PASSWORD}",
}


def job_with(**client):
    job = ms.Job("shop")
    stream = job.source("rows", ms.memory([]), schema="id long")
    stream.sink("out", ms.kafka("orders", servers="b:9092", client=client))
    return job


def test_a_password_is_looked_up_where_a_client_is_opened(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    options = options_of(ms.kafka("orders", servers=["a:1", "b:2"], client={**NAMED, "linger.ms": 20}))
    config = client_config(options, step="out")
    assert (config["sasl.password"], config["bootstrap.servers"], config["linger.ms"]) == ("hunter2", "a:1,b:2", 20)
    assert "hunter2" not in repr(options)


def test_a_secret_that_nobody_knows(monkeypatch):
    monkeypatch.delenv("KAFKA_PASSWORD", raising=False)
    options = options_of(ms.kafka("orders", servers="b:9092", client=NAMED))
    with pytest.raises(InvalidStep, match=r"RUN-022.*export KAFKA_PASSWORD"):
        client_config(options, step="out")


@pytest.mark.parametrize("name", ["sasl.password", "ssl.key.password", "sasl.oauthbearer.client.secret", "ssl.key.pem"])
@pytest.mark.parametrize("value", ["hunter2", "x${secret:A}", 4711])
def test_a_written_password_is_refused_and_not_shown(name, value):
    with pytest.raises(InvalidStep, match=r"KAFKA-003.*named and not written.*\$\{secret:NAME\}") as refused:
        job_with(**{name: value})
    assert "hunter2" not in repr(refused.value.fields())
    assert "4711" not in repr(refused.value.fields())


@pytest.mark.parametrize(
    "name",
    ["acks", "enable.idempotence", "transactional.id", "group.id", "plugin.library.paths", "ssl.engine.location", "x"],
)
def test_what_decides_about_guarantees_cannot_be_set(name):
    with pytest.raises(InvalidStep, match=rf"KAFKA-003.*{name!r} cannot be set.*known:.*sasl.username"):
        job_with(**{name: "1"})


def test_a_value_of_another_type():
    with pytest.raises(InvalidStep, match=r"KAFKA-003.*found list"):
        job_with(**{"linger.ms": [1]})


def test_settings_of_another_form_are_not_shown():
    with pytest.raises(InvalidStep, match="CONN-005") as refused:
        options_of(ms.kafka("orders", servers="b:9092", client="sasl.password: hunter2"))
    assert "hunter2" not in repr(refused.value.fields())


def test_plans_hold_the_name_alone(monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    job = job_with(**NAMED)
    deployment = job.compile(Deployment())
    texts = [job.to_json(), *(explain(deployment, layer) for layer in LAYERS)]
    assert all("hunter2" not in str(text) for text in texts)
    assert "${secret:KAFKA_PASSWORD}" in json.dumps(job.to_json())


def test_what_the_client_says_of_its_settings_leaves_secrets_out():
    config = {"bootstrap.servers": "b:9092", "security.protocol": "hunter2", "sasl.password": "hunter2"}
    with pytest.raises(InvalidStep, match=r"KAFKA-003.*security.protocol") as refused:
        open_producer(config, step="out", errors=ClientErrors(), undelivered=Undelivered())
    assert "hunter2" not in str(refused.value)


def test_without_the_library_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['confluent_kafka'] = None\n"
        "from millstream.errors import InvalidStep\n"
        "from millstream.registry import load\n"
        "for name in ('committer:KafkaCommitter', 'direct:KafkaDirectWriter', 'source:KafkaEnumerator', 'reader:KafkaReader'):\n"
        "    try: load(f'millstream.connectors.kafka.{name}')\n"
        "    except InvalidStep as problem: print(problem)\n"
    )
    told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert told.count("KAFKA-001") == told.count("pip install 'millstream[kafka]'") == 4


def test_declarations_bring_no_client_along():
    code = "import sys, millstream; millstream.kafka('a', servers='b:1'); assert 'confluent_kafka' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
