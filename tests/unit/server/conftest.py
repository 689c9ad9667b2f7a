"""The application on SQLite, and on PostgreSQL where it matters."""

import shutil
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


def migrated(url):
    """Migrations take longer than most tests: they run once, and are copied."""
    metadata = Metadata(url)
    migrate.upgrade(metadata)
    metadata.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory):
    path = tmp_path_factory.mktemp("template") / "metadata.db"
    migrated(f"sqlite:///{path}")
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres):
    with psycopg.connect(postgres.url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE server_template")
    migrated(postgres.url.removesuffix("/postgres") + "/server_template")
    return "server_template"


@pytest.fixture
def metadata(tmp_path, clock, sqlite_template):
    shutil.copy(sqlite_template, tmp_path / "metadata.db")
    metadata = Metadata(f"sqlite:///{tmp_path}/metadata.db", clock=clock)
    yield metadata
    metadata.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def both(request, clock):
    """The metadata on either database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("metadata")
        return
    server, template = request.getfixturevalue("postgres"), request.getfixturevalue("postgres_template")
    name = f"server_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    metadata = Metadata(server.url.removesuffix("/postgres") + f"/{name}", clock=clock)
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
