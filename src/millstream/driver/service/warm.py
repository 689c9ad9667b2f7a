"""A driver before it has a run: it gets ready, waits for its node to name one, and ends when the node is gone."""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Iterator

import msgspec

from millstream.contract.run_folder import DriverFolder
from millstream.contract.warm_start import SILENT_SECONDS, TakeRun, WarmAnswer, WarmFolder, WarmLine, wish_of
from millstream.driver.service.life import leave_at_once
from millstream.driver.service.log_file import LogPump
from millstream.driver.service.warming import close_spark, get_ready

_log = logging.getLogger(__name__)
_LINE: msgspec.json.Decoder[WarmLine] = msgspec.json.Decoder(WarmLine)


def awaited(warm: WarmFolder, descriptor: int, jvm_log: LogPump) -> DriverFolder:
    """Get ready, and give the folder of the run that the node names. Without node or run this process ends here."""
    wish = warm.read_wish()
    node = _PoolLine(descriptor)
    try:
        get_ready(wish, warm.root, jvm_log.write)
    except Exception as problem:
        _log.exception("this driver could not get ready")
        node.say(WarmAnswer(problem=f"{type(problem).__name__}: {problem}"))
        leave_at_once(1)
    node.say(WarmAnswer(is_ready=True))
    folder = DriverFolder(node.named_run())
    asked = wish_of(folder.read_spec(), wish.environment)
    if asked != wish:
        node.say(WarmAnswer(problem="the run asks for something else"))
        leave_at_once(1)
    # The processes that were started ahead work in it: it becomes the run's own, wherever they stand.
    warm.work.rename(folder.work)
    node.say(WarmAnswer(is_taken=True))
    node.close()
    return folder


class _PoolLine:
    """The socket to the node. A thread reads it: the node may go while this process is still getting ready."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._socket.set_inheritable(False)
        self._socket.settimeout(SILENT_SECONDS)
        self._named: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, name="millstream-pool", daemon=True).start()

    def _listen(self) -> None:
        try:
            for line in self._lines():
                if isinstance(line, TakeRun):
                    self._named.put(line.folder)
                    return
        except (OSError, msgspec.DecodeError):
            _log.exception("the node cannot be heard")
        close_spark()
        leave_at_once(0)

    def _lines(self) -> Iterator[WarmLine]:
        rest = b""
        while content := self._socket.recv(1 << 16):
            *lines, rest = (rest + content).split(b"\n")
            for line in lines:
                yield _LINE.decode(line)

    def say(self, answer: WarmAnswer) -> None:
        """Tell the node; one that is gone is noticed by the thread."""
        self._socket.sendall(msgspec.json.encode(answer) + b"\n")

    def named_run(self) -> str:
        """The folder that the node names."""
        return self._named.get()

    def close(self) -> None:
        """It is the run's own socket that counts now."""
        self._socket.close()
