"""One server for all tests of a module, which each test scripts anew."""

import pytest
from tests.servers.http import serving


@pytest.fixture(scope="module")
def server():
    with serving(lambda asked: {}) as running:
        yield running


@pytest.fixture
def api(server):
    server.asked.clear()
    server.answer = lambda asked: {"path": asked.path}
    return server
