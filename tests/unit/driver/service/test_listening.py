"""The socket of a driver goes on listening after a moment without a free file."""

import errno
import queue
import socket
import threading

import pytest

from millstream.driver.service import line_socket
from millstream.driver.service.line_socket import LineSocket


class ShortOfFiles:
    """Fails twice for want of a file; then there is a node."""

    def __init__(self):
        self.left = [OSError(errno.EMFILE, "too many open files")] * 2
        self.nodes = queue.Queue()
        self.closed = threading.Event()

    def accept(self):
        if self.left:
            raise self.left.pop()
        found = self.nodes.get(timeout=20)
        if found is None:
            raise OSError(errno.EINVAL, "closed")
        return found, ""

    def shutdown(self, how):
        self.nodes.put(None)

    def close(self):
        self.closed.set()


@pytest.fixture
def listening(monkeypatch):
    listening = ShortOfFiles()
    monkeypatch.setattr(line_socket, "_listening", lambda folder: listening)
    monkeypatch.setattr(line_socket, "_LOOK_SECONDS", 0.01)
    return listening


def test_a_node_is_listened_to_when_there_are_files_again(listening, monkeypatch):
    served = queue.Queue()
    monkeypatch.setattr(LineSocket, "_serve", lambda self, connected: served.put(connected))
    made = LineSocket(None, None, None, hello=dict, take=print)
    ours, node = socket.socketpair()
    with ours, node:
        listening.nodes.put(ours)
        assert served.get(timeout=20) is ours
    threads = [each for each in threading.enumerate() if each.name == "millstream-socket"]
    made.close()
    for each in threads:
        each.join(20)
        assert not each.is_alive(), "it ends when it is closed"
