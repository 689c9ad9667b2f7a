"""One Spark session for all tests that need one; everything else runs without a JVM."""

import pytest

import millstream as ms
from millstream.checkpoint import failpoint
from millstream.connectors.collect import sink
from millstream.plan.deployment import Deployment

# Assertions of the shared suite explain themselves like those of a test file.
pytest.register_assert_rewrite(
    "millstream.testing.sink_contract",
    "millstream.testing.sink_race",
    "millstream.testing.sink_succession",
    "millstream.testing.source_contract",
    "millstream.testing.source_under_test",
)


@pytest.fixture(scope="session")
def spark():
    from millstream.spark.start.session import open_session

    job = ms.Job("session")
    job.source("rows", ms.memory([]), schema="a long").sink("out", ms.collect("session"))
    session = open_session(job.compile(Deployment(master="local[2]")).deployment)
    yield session
    session.stop()


@pytest.fixture(scope="module", autouse=True)
def nothing_collected():
    """What `collect` sinks hold belongs to the process: no file may find the rows of another, whichever ran before it."""
    yield
    for name in {owner.name for owner in sink._fences}:
        sink.clear(name)


@pytest.fixture
def failpoints(monkeypatch):
    """Arms failpoints for one run: `failpoints("durable:1:raise")`."""

    def arm(text):
        failpoint.reset()
        monkeypatch.setenv(failpoint.VARIABLE, text)

    yield arm
    failpoint.reset()


@pytest.fixture(scope="session")
def postgres():
    """A real PostgreSQL server, shared by all tests."""
    from tests.servers.postgres import PostgresServer

    server = PostgresServer().start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def logical_postgres():
    """A server with logical decoding, of its own: its log is read, so nobody else writes to it."""
    from tests.servers.postgres import PostgresServer

    server = PostgresServer(
        settings={"wal_level": "logical", "max_replication_slots": 100, "max_wal_senders": 8}
    ).start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kafka():
    """A real Kafka broker, shared by all processes of this test run: tests use topics of their own and do not harm it."""
    from tests.servers.shared_kafka import shared_kafka

    return shared_kafka()


@pytest.fixture(scope="session")
def nats_server():
    """A real NATS server, shared by all tests of this process: they use streams of their own and do not harm it."""
    from tests.servers.nats import shared_nats

    return shared_nats()


@pytest.fixture(scope="session")
def rabbitmq_server():
    """A real RabbitMQ server, shared by all tests: they use queues of their own."""
    from tests.servers.rabbitmq import shared_rabbitmq

    return shared_rabbitmq()


@pytest.fixture(scope="session")
def mariadb_server():
    """A real MariaDB server, shared by all tests."""
    from tests.servers.mariadb import shared_mariadb

    return shared_mariadb()
