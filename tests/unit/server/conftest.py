"""The application on SQLite, and on PostgreSQL where it matters."""

import uuid

import psycopg
import pytest
from starlette.testclient import TestClient
from tests.unit.server.world import StandingClock, Ticking, bearer, service_of, tokens_of

from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.server.app import create_app


@pytest.fixture
def clock():
    return StandingClock()


@pytest.fixture
def ticking():
    return Ticking()


def opened(url, clock):
    metadata = Metadata(url, clock=clock)
    migrate.upgrade(metadata)
    return metadata


@pytest.fixture
def metadata(tmp_path, clock):
    metadata = opened(f"sqlite:///{tmp_path}/metadata.db", clock)
    yield metadata
    metadata.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def both(request, tmp_path, clock):
    """The metadata on either database."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/both.db"
    else:
        server = request.getfixturevalue("postgres")
        name = f"server_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        url = server.url.removesuffix("/postgres") + f"/{name}"
    metadata = opened(url, clock)
    yield metadata
    metadata.close()


@pytest.fixture
def service(metadata, ticking):
    return service_of(metadata, monotonic=ticking)


@pytest.fixture
def tokens(metadata):
    return tokens_of(metadata)


@pytest.fixture
def app(service):
    return create_app(service)


@pytest.fixture
def anyone(app):
    """A caller without a token."""
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def admin(anyone, tokens):
    """A caller who may do everything."""
    anyone.headers.update(bearer(tokens["admin"]))
    return anyone
