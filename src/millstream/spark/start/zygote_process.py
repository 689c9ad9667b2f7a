"""The process of the zygote, run as a script with the descriptor of a listening socket. It ends when its standard input does.

It forks, so it must never have a second thread.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import traceback
from pathlib import Path
from typing import NamedTuple, NoReturn

PRELOADED = (
    "pyspark.daemon",
    "pyspark.worker",
    "pyspark.sql.worker.lookup_data_sources",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.sql.streaming.transform_with_state_driver_worker",
    "pyspark.sql.streaming.proto.StateMessage_pb2",
    "pyspark.sql.streaming.stateful_processor_api_client",
    "pyspark.sql.streaming.map_state_client",
    "pyspark.sql.pandas.serializers",
    "pyspark.sql.pandas.types",
    "pyspark.sql.conversion",
    "pyspark.logger.worker_io",
    "pyspark.core.broadcast",
    "pyspark.core.files",
    "pyarrow.compute",
    "pyarrow.acero",
    "pandas",
    "pyarrow.pandas_compat",
    "millstream.spark.query.source",
    "millstream.spark.query.level",
    "millstream.runtime.operators.aggregate.operator",
    "millstream.runtime.operators.process.operator",
    "millstream.runtime.operators.window.bins",
)
"""What Python processes of Spark import when they run a job of ours; one that is not there is theirs to miss. Of the operators,
those that most jobs have."""
_LONGEST_REQUEST = 1 << 22


class PythonRequest(NamedTuple):
    """What a Python process was asked to be."""

    arguments: list[str]
    environ: dict[bytes, bytes]
    folder: bytes
    streams: list[int]


class Server:
    """Forks for every shim that connects."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._ended_read, self._ended_write = os.pipe()
        os.set_blocking(self._ended_read, False)
        os.set_blocking(self._ended_write, False)
        self._children: dict[int, socket.socket] = {}
        self._poll = select.poll()

    def serve(self) -> NoReturn:
        """Until standard input ends."""
        signal.set_wakeup_fd(self._ended_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in (0, self._listening.fileno(), self._ended_read):
            self._poll.register(number, select.POLLIN | select.POLLHUP)
        while True:
            for number, _ in self._poll.poll():
                if number == 0:
                    self._end()
                elif number == self._ended_read:
                    self._reap()
                elif number == self._listening.fileno():
                    self._accept()
                else:
                    self._abandoned(number)

    def _end(self) -> NoReturn:
        for pid in self._children:
            _terminate(pid)
        os._exit(0)

    def _reap(self) -> None:
        """Tell the shims of children that ended how they did."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._ended_read, 512)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            wire = self._children.pop(pid, None)
            if wire is not None:
                with contextlib.suppress(KeyError):
                    self._poll.unregister(wire)
                with contextlib.suppress(OSError):
                    wire.send(bytes([os.waitstatus_to_exitcode(status) & 255]))
                wire.close()

    def _abandoned(self, number: int) -> None:
        """Spark has ended the shim of a child."""
        self._poll.unregister(number)
        for pid, wire in self._children.items():
            if wire.fileno() == number:
                _terminate(pid)

    def _accept(self) -> None:
        wire, _ = self._listening.accept()
        try:
            request = _received(wire)
        except (OSError, ValueError, EOFError, TypeError):
            wire.close()
            return
        pid = os.fork()
        if pid == 0:
            self._become(request, wire)
        for number in request.streams:
            os.close(number)
        self._children[pid] = wire
        self._poll.register(wire, select.POLLIN | select.POLLHUP)
        with contextlib.suppress(OSError):
            wire.send(b"+")

    def _become(self, request: PythonRequest, wire: socket.socket) -> NoReturn:
        """In the child: drop what is the zygote's, and be the Python that was asked for."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in (self._listening, wire, *self._children.values()):
            each.close()
        os.close(self._ended_read)
        os.close(self._ended_write)
        for number, stream in enumerate(request.streams):
            os.dup2(stream, number)
            os.close(stream)
        os._exit(_run(request))


def _received(wire: socket.socket) -> PythonRequest:
    numbers = array.array("i")
    head, ancillary, _, _ = wire.recvmsg(4, socket.CMSG_SPACE(3 * numbers.itemsize))
    for level, kind, content in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            numbers.frombytes(content[: len(content) - len(content) % numbers.itemsize])
    size = int.from_bytes(head, "big")
    if len(numbers) != 3 or not 0 < size <= _LONGEST_REQUEST:
        msg = "not the request of a shim"
        raise ValueError(msg)
    content = b""
    while len(content) < size:
        part = wire.recv(size - len(content))
        if not part:
            raise EOFError
        content += part
    arguments, environ, folder = marshal.loads(content)
    return PythonRequest(arguments, environ, folder, list(numbers))


def _run(request: PythonRequest) -> int:
    """Do what `python ARGUMENTS` would, and give its exit code."""
    code: object = 0
    try:
        os.environb.clear()
        os.environb.update(request.environ)
        os.chdir(request.folder)
        _look_in(os.fsdecode(request.folder))
        kind, what, *rest = request.arguments
        if kind == "-m":
            sys.argv = [what, *rest]
            _run_module(what)
        else:
            sys.argv = ["-c", *rest]
            exec(what, {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return (code if isinstance(code, int) else 0 if code is None else 1) & 255


def _run_module(name: str) -> None:
    # The daemon forks workers for as long as Spark runs; run a second time, its module would be compiled for each start.
    if name == "pyspark.daemon":
        importlib.import_module(name).manager()
    else:
        runpy.run_module(name, run_name="__main__", alter_sys=True)


def _look_in(folder: str) -> None:
    """The paths of an interpreter that starts in a folder with this environment."""
    wanted = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    first = [] if sys.flags.safe_path else [folder]
    sys.path[:] = [*first, *(path for path in wanted if path not in sys.path), *sys.path]


def _terminate(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)


def _preload() -> None:
    for name in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    random = sys.modules.get("numpy.random")
    if random is not None:
        # Copies must not draw the same numbers.
        os.register_at_fork(after_in_child=random.seed)
    gc.collect()
    gc.freeze()


def main() -> None:
    """Import everything, then serve."""
    sys.path.pop(0)  # this folder
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _preload()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        sys.exit("a library has started a thread: this Python cannot be forked")
    Server(socket.socket(fileno=int(sys.argv[1]))).serve()


if __name__ == "__main__":
    main()
