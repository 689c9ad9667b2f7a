"""Where a library is missing that a connector needs, the error names the command that brings it; nothing else needs it."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from millstream.model.connector import declaration
from millstream.registry import names

ROOT = Path(__file__).parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
DECLARED = {(name, extra.name): extra for name in names("connectors") for extra in declaration(name).extras}

# As if what an extra brings was not installed.
ABSENT = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {absent!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Absent())
import millstream as ms

def run(source):
    job = ms.Job("job", guarantee="at_least_once")
    job.source("in", source, schema="n long").sink("out", ms.print())
    job.run(local=True)

try:
    {use}
except ms.MillstreamError as error:
    print(type(error).__name__, error)
"""
MODULES = {
    "kafka": ["confluent_kafka"],
    "avro": ["fastavro", "polars"],
    "http": ["httpx2"],
    "jwt": ["jwt"],
    "sql": ["adbc_driver_manager", "adbc_driver_postgresql", "adbc_driver_sqlite"],
    "mysql": ["connectorx", "pymysql"],
    "nats": ["nats"],
    "rabbitmq": ["aio_pika", "aiormq", "pamqp"],
}
_AVRO = (
    "from millstream.connectors.formats.decode import decoder; from millstream.model.schema import schema_of; "
    "decoder('avro', schema_of('n long'), {'avro_schema': None, 'registry': None})"
)
USES = {
    ("kafka", "kafka"): "run(ms.kafka('orders', servers='localhost:1', start='earliest', format='json'))",
    ("kafka", "avro"): _AVRO,
    ("nats", "nats"): "run(ms.nats('orders', servers='localhost:1', start='earliest'))",
    ("nats", "avro"): _AVRO,
    ("rabbitmq", "rabbitmq"): "run(ms.rabbitmq('orders', url='amqp://localhost:1/'))",
    ("rabbitmq", "avro"): _AVRO,
    ("http", "http"): "run(ms.http('http://localhost:1/'))",
    ("http", "jwt"): (
        "from millstream.connectors.http.asking.assertions import Assertion, signed; "
        "signed(Assertion({}, 'HS256', None, 1000), 'k', 0)"
    ),
    ("jdbc", "sql"): "run(ms.jdbc_query('postgresql://localhost:1/x', 'SELECT 1 AS n', key='n'))",
    ("jdbc", "mysql"): "run(ms.jdbc_query('mysql://localhost:1/x', 'SELECT 1 AS n', key='n'))",
}


def test_every_extra_that_a_connector_names_is_tried():
    assert USES.keys() == DECLARED.keys()


@pytest.mark.parametrize(("connector", "extra"), USES)
def test_a_missing_library_is_named_with_the_command(connector, extra):
    declared = DECLARED[connector, extra]
    assert declared.module in MODULES[extra]
    assert extra in EXTRAS
    code = ABSENT.format(absent=set(MODULES[extra]), use=USES[connector, extra])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.startswith("InvalidStep ["), done.stdout
    assert declared.command in done.stdout


@pytest.mark.parametrize("extra", MODULES)
def test_jobs_are_built_and_connectors_listed_without_it(extra):
    use = (
        "from millstream.inspect.connectors.facts import known_connectors; "
        f"known = [each for facts in known_connectors() for each in facts.extras if each.name == {extra!r}]; "
        "print(known and not any(each.is_installed for each in known), all(each.command for each in known))"
    )
    code = ABSENT.format(absent=set(MODULES[extra]), use=use)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout == "True True\n"
