"""A database of the service with a job in it, on both kinds."""

import datetime as dt
import uuid

import psycopg
import pytest
from sqlalchemy import insert

from millstream.control.metadata.database import Metadata
from millstream.control.metadata.migrate import upgrade
from millstream.control.metadata.tables.jobs import job_definition
from millstream.control.secrets.key_ring import KeyRing

NOW = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)


@pytest.fixture
def ring(tmp_path):
    return KeyRing(tmp_path / "keys" / "secret.keys")


def new_database(server):
    name = f"secrets_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.removesuffix("/postgres") + f"/{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def metadata(request, tmp_path):
    is_sqlite = request.param == "sqlite"
    url = f"sqlite:///{tmp_path}/metadata.db" if is_sqlite else new_database(request.getfixturevalue("postgres"))
    opened = Metadata(url)
    upgrade(opened)
    with opened.begin() as connection:
        for number in (1, 2):
            connection.execute(
                insert(job_definition).values(
                    id=number,
                    job_name=f"job_{number}",
                    job_type="STREAMING",
                    version=1,
                    dag_definition={},
                    create_time=NOW,
                    update_time=NOW,
                    fingerprint="",
                    settings={},
                )
            )
    yield opened
    opened.close()
