"""A database of the service, on SQLite and on PostgreSQL, with a clock that stands until it is moved."""

import datetime as dt
import uuid

import psycopg
import pytest
from sqlalchemy import text

from millstream.control.act import acting
from millstream.control.dispatcher import reconcile
from millstream.control.dispatcher.definitions import Submission, submit
from millstream.control.dispatcher.planned import Planned
from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata
from millstream.control.settings import settings_of

NOON = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)


class StandingClock:
    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now

    def forward(self, seconds):
        self.now += dt.timedelta(seconds=seconds)


@pytest.fixture
def clock():
    return StandingClock()


def new_database(server):
    """A database of its own on the shared server: its url."""
    name = f"control_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    return server.url.removesuffix("/postgres") + f"/{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/metadata.db"
    return new_database(request.getfixturevalue("postgres"))


@pytest.fixture
def metadata(database_url, clock):
    opened = Metadata(database_url, clock=clock)
    migrate.upgrade(opened)
    yield opened
    opened.close()


@pytest.fixture
def act(metadata):
    """One act as `ada`, in a transaction of its own: `with act() as a:`."""
    return lambda actor="ada": acting(metadata, actor)


def planned(name="orders", mode="STREAMING", **more):
    values = {"fingerprint": "f1", "parallelism": 2, "guarantee": "exactly_once"}
    return Planned(name=name, mode=mode, **{**values, **more})


def submission(name="orders", mode="STREAMING", settings=None, **more):
    document = {"kind": "declarative", "document": {"job": name}}
    return Submission(planned(name, mode), document, settings_of({"engine": "local", **(settings or {})}), **more)


@pytest.fixture
def job(act):
    """A streaming job `orders`."""
    with act() as a:
        return submit(a, submission())


def reap(act):
    """All runs whose owner fell silent, in one act."""
    return sum(reconcile.reap_one(act, run) for run in reconcile.expired(act))


def silent_for(seconds, clock, reconciler, step=4):
    """Time in which a dispatcher makes its rounds, and nobody renews anything."""
    for _ in range(0, seconds, step):
        clock.forward(step)
        reconciler.round()


def rows(metadata, statement):
    with metadata.begin() as connection:
        return [dict(row._mapping) for row in connection.execute(text(statement))]
