"""The planner's socket: served until it is closed, whatever a single connection comes to."""

import errno
import json
import socket
import tempfile
import threading
from pathlib import Path

import pytest

from millstream.driver.planner_socket import PlannerSocket


class Planned:
    """A run whose planner knows its beginning."""

    class planner:
        @staticmethod
        def initial():
            class Plan:
                @staticmethod
                def to_json():
                    return {"epoch": -1}

            return Plan


@pytest.fixture
def served():
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        planner = PlannerSocket(Planned(), Path(folder) / "p")
        yield planner
        planner.close()


def asked(planner):
    with socket.socket(socket.AF_UNIX) as wire:
        wire.settimeout(10)
        wire.connect(planner.path)
        with wire.makefile("rwb") as file:
            file.write(b'{"op": "initial"}\n')
            file.flush()
            return json.loads(file.readline())


def test_a_connection_that_fails_is_not_the_last(served, monkeypatch):
    accept, failures = served._server.get_request, [OSError(errno.EMFILE, "too many open files"), None]
    failed = threading.Event()

    def get_request():
        if failures:
            problem = failures.pop(0)
            if problem is not None:
                failed.set()
                raise problem
        return accept()

    monkeypatch.setattr(served._server, "get_request", get_request)
    assert asked(served) == {"ok": {"epoch": -1}}
    assert asked(served) == {"ok": {"epoch": -1}}
    assert failed.is_set()
    assert asked(served) == {"ok": {"epoch": -1}}


def test_closing_does_not_wait(served):
    assert asked(served) == {"ok": {"epoch": -1}}
    served.close()
    assert not served._thread.is_alive()
    with pytest.raises(OSError):
        asked(served)
