"""The url of an empty manifest store of each kind, on real servers where the kind needs one."""

import functools
import uuid

import pytest
from tests.servers.postgres import PostgresServer
from tests.servers.s3 import shared_s3_server

KINDS = ["local", "sqlite", "postgres", pytest.param("s3", marks=pytest.mark.s3)]


@functools.cache
def shared_postgres():
    """One server for all tests of this process; it ends with the process."""
    return PostgresServer().start()


def empty_store_url(kind, folder, monkeypatch):
    """The url of a store that nobody used before."""
    unique = uuid.uuid4().hex
    match kind:
        case "local":
            return f"file://{folder}/deep/er"
        case "sqlite":
            return f"sqlite:///{folder}/deep/store.db?store={unique}"
        case "postgres":
            return f"{shared_postgres().url}?store={unique}"
        case "s3":
            use_s3(shared_s3_server(), monkeypatch)
            return f"s3://checkpoints/{unique}/deep"
    raise ValueError(kind)


def use_s3(server, monkeypatch, **changed):
    """Let the clients of this test find a server."""
    for name, value in {**server.environment, **changed}.items():
        monkeypatch.setenv(name, value)
