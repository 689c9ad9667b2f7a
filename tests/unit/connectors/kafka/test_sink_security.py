"""Brokers that ask who is there: SASL and TLS, from the options of a sink to the messages, and no password on the way."""

import json
import shutil
import subprocess

import pytest
from tests.servers.kafka import KafkaServer
from tests.servers.ports import free_ports
from tests.unit.connectors.kafka.sink_under_test import KafkaUnderTest
from tests.unit.connectors.sinks.under_test import Owner, rows, seen

from millstream.connectors.kafka import target
from millstream.connectors.kafka.transactions import questions
from millstream.errors import ExternalFailure, InvalidStep

pytestmark = [pytest.mark.kafka, pytest.mark.skipif(shutil.which("keytool") is None, reason="keytool is not installed")]

PASSWORD = "hunter2-geheim"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A key store for the broker, and its certificate for clients."""
    folder = tmp_path_factory.mktemp("tls")
    store, text = folder / "store.p12", folder / "broker.pem"
    common = ["-keystore", str(store), "-storepass", "changeit", "-alias", "broker"]
    made = ["keytool", "-genkeypair", "-keyalg", "RSA", "-validity", "2", "-dname", "CN=127.0.0.1", *common]
    subprocess.run([*made, "-ext", "san=ip:127.0.0.1", "-storetype", "PKCS12"], check=True, capture_output=True)
    subprocess.run(["keytool", "-exportcert", "-rfc", "-file", str(text), *common], check=True, capture_output=True)
    return store, text


@pytest.fixture(scope="module")
def server(certificate):
    plain, controller, secured = free_ports(3)
    login = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_shop="{PASSWORD}";'
    settings = {
        "listeners": f"PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},SECURED://127.0.0.1:{secured}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SECURED://127.0.0.1:{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURED:SASL_SSL",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secured.plain.sasl.jaas.config": login,
        "ssl.keystore.location": str(certificate[0]),
        "ssl.keystore.password": "changeit",
        "ssl.keystore.type": "PKCS12",
    }
    started = KafkaServer(settings=settings)
    started.servers, started.secured = f"127.0.0.1:{plain}", f"127.0.0.1:{secured}"
    started.start()
    yield started
    started.stop()


@pytest.fixture
def open_sink(server, certificate, tmp_path):
    opened = []

    def open_one(**client):
        settings = {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "shop",
            "sasl.password": "${secret:KAFKA_PASSWORD}",
            "ssl.ca.location": str(certificate[1]),
            **client,
        }
        opened.append(KafkaUnderTest(server, tmp_path, servers=server.secured, client=settings))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


def test_a_sink_that_logs_in(open_sink, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    caplog.set_level("DEBUG")
    sink = open_sink()
    transaction = Owner(sink).run(0, rows(0))
    assert seen(sink) == rows(0)
    kept = "".join(path.read_text("latin-1") for path in tmp_path.rglob("*") if path.is_file())
    assert PASSWORD not in kept + caplog.text + json.dumps(transaction) + repr(sink.options)


def test_a_wrong_password_is_refused_and_not_shown(open_sink, monkeypatch):
    monkeypatch.setattr(target, "ASK_SECONDS", 2.0)
    monkeypatch.setenv("KAFKA_PASSWORD", "wrong-geheim")
    with pytest.raises(ExternalFailure, match=r"KAFKA-005.*SASL") as refused:
        Owner(open_sink())
    assert "geheim" not in repr(refused.value.fields())


def test_a_certificate_that_is_not_trusted_names_the_reason(open_sink, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    monkeypatch.setattr(target, "ASK_SECONDS", 2.0)
    monkeypatch.setattr(questions, "PATIENCE", 1.0)
    with pytest.raises(ExternalFailure, match=r"KAFKA-00[25].*certificate"):
        Owner(open_sink(**{"ssl.ca.location": ""}))


def test_a_file_that_is_not_there_is_refused_by_the_client(open_sink, monkeypatch):
    monkeypatch.setenv("KAFKA_PASSWORD", PASSWORD)
    with pytest.raises(InvalidStep, match=r"KAFKA-003.*client="):
        Owner(open_sink(**{"ssl.ca.location": "/nowhere.pem"}))
