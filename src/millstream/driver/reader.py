"""`python -m millstream.driver.reader [PARENT]`: reads state that Spark keeps, for a process that has no Spark in it.

Requests come on standard input and answers leave on standard output, in the lines of `reader_lines`. It stays for further
requests, and ends with its input or with its parent, even in the middle of one.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path

from millstream.driver.reader_lines import AnswerLine, LevelRead, PageRead, failed_by, line_of, request_in
from millstream.plan.deployment import Deployment
from millstream.spark.start import launch

_LOOK_MS = 500
_CHUNK = 1 << 16
_DEPLOYMENT = Deployment(confs=(("spark.python.worker.reuse", "true"),))
"""No Python process of Spark's is started here, and a setting of theirs, if only its default, says that none need be prepared."""


def main() -> None:
    """Serve until nobody is there to ask."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the parent too, and it decides
    parent = int(sys.argv[1]) if len(sys.argv) > 1 else os.getppid()
    requests, answers = _taken_streams()
    waiting: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_serve, args=(waiting, answers), name="millstream-reader", daemon=True).start()
    _watch(requests, parent, waiting)
    launch.close()


def _taken_streams() -> tuple[int, int]:
    """Standard input and output for ourselves: what else reads or prints here, or in the JVM, gets nothing and the log."""
    requests, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return requests, answers


def _watch(requests: int, parent: int, waiting: queue.SimpleQueue[bytes]) -> None:
    """Pass lines on until input ends or the parent is gone: one that was killed may have left a copy that holds the pipe."""
    poll, begun = select.poll(), b""
    poll.register(requests, select.POLLIN | select.POLLHUP)
    while os.getppid() == parent:
        if not poll.poll(_LOOK_MS):
            continue
        part = os.read(requests, _CHUNK)
        if not part:
            return
        *lines, begun = (begun + part).split(b"\n")
        for line in lines:
            waiting.put(line)


def _serve(waiting: queue.SimpleQueue[bytes], answers: int) -> None:
    while True:
        try:
            for answer in _answer(waiting.get()):
                _write(answers, line_of(answer))
        except BrokenPipeError:
            return


def _write(answers: int, line: bytes) -> None:
    """Without a buffer: the interpreter could not end while this thread holds one and waits."""
    left = memoryview(line)
    while left:
        left = left[os.write(answers, left) :]


def _answer(line: bytes) -> Iterator[AnswerLine]:
    pages = 0
    try:
        for page in _read(line):
            pages += 1
            yield page
    except Exception as problem:
        yield failed_by(problem, traceback.format_exc())
    else:
        yield LevelRead(pages=pages)


def _read(line: bytes) -> Iterator[PageRead]:
    request = request_in(line)
    # The JVM starts while pyspark is imported.
    launch.start_early(_DEPLOYMENT)
    from millstream.driver.reading import read_level
    from millstream.spark.query.errors import translated

    try:
        for subtask, pages in read_level(Path(request.folder), request.manifest, request.level, prefix=request.prefix):
            for name in pages:
                yield PageRead(subtask=subtask, page=name, content=pages.get(name) or b"")
    except Exception as problem:
        error = translated(problem)
        raise error from (problem if error is not problem else error.__cause__)


if __name__ == "__main__":
    main()
