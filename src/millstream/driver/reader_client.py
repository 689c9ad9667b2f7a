"""Reads state that Spark keeps from a process without Spark: through a reader process that is kept for the next time.

Nothing here imports pyspark or starts a JVM in this process.
"""

from __future__ import annotations

import atexit
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from millstream.checkpoint.manifest import EpochManifest
from millstream.driver.reader_lines import LevelWanted, PageRead, answer_in
from millstream.driver.reader_process import ReaderDied, ReaderProcess, ReaderSilent
from millstream.errors import ExternalFailure, MillstreamError
from millstream.model.time import positive_ms
from millstream.spark.start.private import jvm_log
from millstream.state.read_only import ReadOnlyPages

TIMEOUT = "MILLSTREAM_READER_TIMEOUT"
"""Environment variable: how long a reader may say nothing while it is at work, such as `30m`."""
_USUAL_TIMEOUT = "10m"
_IN_MEMORY = 1 << 26
"""Bytes of an answer that are held in memory; beyond that it waits in a temporary file."""
_PATIENCE_SECONDS = 1.0


def read_by_reader(
    folder: Path, manifest: EpochManifest, level: int, *, prefix: str = ""
) -> Iterator[tuple[int, ReadOnlyPages]]:
    """The pages of a level, subtask by subtask: one of them is in memory at a time. Empty subtasks are left out.

    Args:
        folder: Spark's folder in a checkpoint or native savepoint.
        manifest: of an epoch whose commit Spark retains.
        level: the keyed level, from 1 on.
        prefix: how the names of the wanted pages begin: `UID/` for those of one step.

    Raises:
        MillstreamError: what the reader met; or (SPARK-006, SPARK-007) it said nothing for too long, or ended.
    """
    request = LevelWanted(folder=str(folder.absolute()), manifest=manifest, level=level, prefix=prefix)
    # The whole answer is taken before any of it is given: a caller who stops half-way, or reads something else meanwhile,
    # would otherwise keep everybody from the reader.
    with tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY) as answer:
        READER.read(request, answer)
        answer.seek(0)
        for subtask, pages in itertools.groupby(_pages(answer), key=lambda page: page.subtask):
            yield subtask, ReadOnlyPages({page.page: page.content for page in pages})


def _pages(answer: IO[bytes]) -> Iterator[PageRead]:
    for line in answer:
        page = answer_in(line)
        assert isinstance(page, PageRead), "nothing else is kept of an answer"
        yield page


class KeptReader:
    """A reader that is started when it is first asked, again when it has died, and serves one thread after the other."""

    def __init__(self) -> None:
        self._serving = threading.Lock()
        self._process: ReaderProcess | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the reader, if there is one."""
        return None if self._process is None else self._process.pid

    def read(self, request: LevelWanted, into: IO[bytes]) -> None:
        """Write the lines of all pages into a file; a reader that dies meanwhile is replaced once."""
        silence = positive_ms(os.environ.get(TIMEOUT) or _USUAL_TIMEOUT, what=TIMEOUT) / 1000
        with self._serving:
            try:
                self._ask(request, into, silence)
            except ReaderDied:
                into.seek(0)
                into.truncate()
                self._ask_again(request, into, silence)

    def _ask_again(self, request: LevelWanted, into: IO[bytes], silence: float) -> None:
        try:
            self._ask(request, into, silence)
        except ReaderDied as death:
            msg = "the process that reads the state of Spark ended twice before it had answered"
            raise ExternalFailure(msg, code="SPARK-007", found=death, hint=f"see why in {jvm_log()}") from None

    def _ask(self, request: LevelWanted, into: IO[bytes], silence: float) -> None:
        try:
            self._running().ask(request, into, silence)
        except MillstreamError:
            raise  # and the reader stays for the next request
        except ReaderDied:
            msg = f"exit code {self._end()}"
            raise ReaderDied(msg) from None
        except ReaderSilent:
            self._end()
            msg = f"the process that reads the state of Spark said nothing for {silence:g} s"
            hint = f"see what it does in {jvm_log()}, or give it longer: {TIMEOUT}=30m"
            raise ExternalFailure(msg, code="SPARK-006", hint=hint) from None
        except BaseException:
            self._end()  # the rest of its answer would be taken for that to the next request
            raise

    def _running(self) -> ReaderProcess:
        if self._process is None or not self._process.is_alive:
            self._end()
            self._process = ReaderProcess()
        return self._process

    def _end(self) -> int | None:
        process, self._process = self._process, None
        return None if process is None else process.close()

    def close(self) -> None:
        """End it, also under a thread that goes on reading; the next request starts another."""
        is_free = self._serving.acquire(timeout=_PATIENCE_SECONDS)
        try:
            self._end()
        finally:
            if is_free:
                self._serving.release()

    def forget(self) -> None:
        """In a copy of this process: the reader is that of the original."""
        if self._process is not None:
            self._process.forget()
        self._serving, self._process = threading.Lock(), None


READER = KeptReader()
"""The reader of this process."""
atexit.register(READER.close)
os.register_at_fork(after_in_child=READER.forget)
