"""Starts the JVM and the zygote, as early as it is known that Spark is wanted, and ends them.

A process has one of each at most. Whatever goes wrong, the start falls back, once, with a line in the log: to a JVM without
class archive, to a JVM that PySpark's launcher starts, to Python processes without a zygote.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path

from millstream.spark.start import caches
from millstream.spark.start.choice import is_local, may_end_abruptly, why_no_zygote, why_not
from millstream.spark.start.command import JvmSettings, settings_of, spark_jars
from millstream.spark.start.confs import Deployed, context_confs
from millstream.spark.start.farewell import Farewell
from millstream.spark.start.jvm import Jvm, JvmDied
from millstream.spark.start.private import RunFolder, jvm_log, open_log
from millstream.spark.start.training import train_behind
from millstream.spark.start.zygote import Zygote, can_be_used
from millstream.tracebacks import is_debugging

logger = logging.getLogger(__name__)
_END_SECONDS = 10.0
_NOTING_SECONDS = 120.0
_QUIET = ("-Xshare:auto", "-Xlog:cds=off", "-Xlog:class+path=off")
"""An archive that does not fit is no matter for words."""
_lock = threading.Lock()


class Launch:
    """A JVM on its way, its zygote, and their folder."""

    def __init__(
        self,
        settings: JvmSettings,
        wishes: Mapping[str, str],
        *,
        quiet: bool,
        log: int | None = None,
        noting: Path | None = None,
    ) -> None:
        """Start both.

        Args:
            settings: of the JVM.
            wishes: settings of Spark that are the user's own.
            quiet: whether what the JVM prints goes into a file.
            log: an open one, into which it goes instead.
            noting: an entry of the cache whose archive the JVM writes when it ends.
        """
        self.settings, self.wishes, self._noting = settings, wishes, noting
        # Workers inherit it from the JVM and the zygote.
        self._environ = dict(os.environ)
        self._folder = RunFolder()
        self._local = self._folder.path / "local"
        self._local.mkdir()
        self._log: Path | int | None = (jvm_log() if log is None else log) if quiet else None
        self.farewell: Farewell | None = None
        self._is_closed = False
        self.is_claimed = False
        """Whether a run counts on it."""
        self.entry = caches.entry_for(self.settings)
        self._cached = None if self.entry is None else caches.prepared(self.entry)
        self._zygote = self._started_zygote()
        self._jvm = self._started_jvm()

    def _started_zygote(self) -> Zygote | None:
        if self._noting is not None or why_no_zygote(self.wishes) is not None or not can_be_used():
            return None
        with contextlib.ExitStack() as stack:
            log = self._log
            if isinstance(log, Path):
                log = stack.enter_context(open_log(log)).fileno()
            return Zygote(self._folder.path, os.environ, log)

    def _started_jvm(self) -> Jvm:
        jars, options = spark_jars(), [f"-Djava.io.tmpdir={self._local}"]
        if self._noting is not None:
            jars = (self._noting / caches.JAR, *jars)
            options += [f"-XX:ArchiveClassesAtExit={self._noting / caches.ARCHIVE}", *_QUIET]
        elif self._cached is not None:
            jars = (self._cached.jar, *jars)
            options += [f"-XX:SharedArchiveFile={self._cached.archive}", *_QUIET]
        environ = {**os.environ, "PYSPARK_PYTHON": self._python, "PYSPARK_DRIVER_PYTHON": self._python}
        told_at = self._folder.path / ("connection" if self._cached is None else "connection-archived")
        return Jvm(self.settings.command(jars, tuple(options)), told_at=told_at, log=self._log, environ=environ)

    @property
    def _python(self) -> str:
        """What Spark starts as Python."""
        return sys.executable if self._zygote is None else str(self._zygote.shim)

    @property
    def has_local_files(self) -> bool:
        """Whether the JVM was started with our file system among its classes."""
        return self._cached is not None or self._noting is not None

    @property
    def folder_confs(self) -> dict[str, str]:
        """Settings that keep what Spark writes for itself in our folder, but where the user has a place for it."""
        own = {"spark.python.unix.domain.socket.dir": str(self._local)}
        own = {name: value for name, value in own.items() if name not in self.wishes}
        if "spark.local.dir" not in self.wishes and not os.environ.get("SPARK_LOCAL_DIRS"):
            own["spark.local.dir"] = str(self._local)
        return own

    @contextlib.contextmanager
    def announced(self) -> Iterator[None]:
        """Meanwhile PySpark finds the JVM and the Python of this launch.

        Raises:
            JvmDied: there is no JVM, with an archive or without.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self._jvm.announced())
            except JvmDied as problem:
                if self._cached is None or self._is_closed:
                    raise
                logger.warning("the JVM did not start with its class archive, which is removed: %s", problem)
                self._drop_archive()
                stack.enter_context(self._jvm.announced())
            logger.debug("the JVM listens")
            stack.enter_context(_workers_are(self._python))
            yield

    def _drop_archive(self) -> None:
        assert self._cached is not None, "there is an archive to drop"
        caches.remove(self._cached.folder)
        self._cached = None
        self._jvm.kill()
        self._jvm = self._started_jvm()

    def fits(self, master: str, settings: JvmSettings, wishes: Mapping[str, str]) -> bool:
        """Whether it is what these settings would start now."""
        is_same = self.settings == settings and self._environ == dict(os.environ)
        return is_same and is_local(master) and self._lasting(self.wishes) == self._lasting(wishes)

    def _lasting(self, wishes: Mapping[str, str]) -> dict[str, str]:
        """Wishes that count: in a JVM that runs, each query has those of its session for itself."""
        return {name: value for name, value in wishes.items() if not (self.farewell and name.startswith("spark.sql."))}

    def offer(self) -> None:
        """Nobody counts on it any more: it is there for a run that asks for the same, with the environment as it is now."""
        self.is_claimed, self._environ = False, dict(os.environ)

    def close(self) -> None:
        """End everything that was started; Spark is told where somebody waits for its last words."""
        self._is_closed = True  # a thread that still waits for the JVM must not blame the archive
        try:
            self._say_farewell()
        finally:
            self._jvm.kill()
            if self._zygote is not None:
                self._zygote.end()
            self._folder.remove()

    def _say_farewell(self) -> None:
        if self.farewell is None:
            return
        if self._noting is None and may_end_abruptly(self.wishes):
            self.farewell.bear()
            return
        self.farewell.stop()
        is_whole = self._jvm.end(_END_SECONDS if self._noting is None else _NOTING_SECONDS)
        if self._noting is not None and not is_whole:
            (self._noting / caches.ARCHIVE).unlink(missing_ok=True)


class _OfThisProcess:
    """The launch of this process, if there is one."""

    launch: Launch | None = None
    pid: int | None = None


def start_noting(confs: Mapping[str, str], entry: Path) -> Launch:
    """The launch of a process that makes a class archive."""
    launched = _OfThisProcess.launch = Launch(settings_of(confs), {}, quiet=False, noting=entry)
    launched.is_claimed = True
    _OfThisProcess.pid = os.getpid()
    return launched


def start_early(
    deployment: Deployed, *, debug: bool = False, claims: bool = True, log: int | None = None
) -> Launch | None:
    """Start what is not started yet; `None` when PySpark's launcher is to do it.

    Args:
        deployment: where it is to run.
        debug: whether the JVM prints to the terminal.
        claims: a run will use it. Until then it is given up for one with other settings; from then on it serves whoever
            else comes, as a running context does.
        log: an open file for what the JVM and its Python processes print, instead of one in the temporary directory.
    """
    debug = debug or is_debugging()
    try:
        settings = settings_of(context_confs(deployment, debug=debug))
    except ValueError as problem:  # options that cannot be parted into words
        logger.warning("the JVM is left to PySpark's launcher: %s", problem)
        return None
    wishes = dict(deployment.confs)
    with _lock:
        launched = _OfThisProcess.launch if _OfThisProcess.pid == os.getpid() else None
        if launched is not None and launched.is_claimed:
            return launched if is_local(deployment.master) else None
        if launched is None or not launched.fits(deployment.master, settings, wishes):
            _replace(launched)
            is_ours = why_not(deployment.master, wishes) is None
            launched = _started(settings, wishes, quiet=not debug, log=log) if is_ours else None
        if launched is not None:
            launched.is_claimed = claims
        return launched


def _replace(launched: Launch | None) -> None:
    """End a launch that does not fit; one that was used before is forgotten, so that another can be."""
    _close()
    if launched is not None and launched.farewell is not None:
        logger.warning("Spark starts anew: what was started ahead does not fit what the job makes of the environment")
        launched.farewell.forget()


def offer() -> None:
    """What was started here, and has been used, is there for another run."""
    with _lock:
        if _OfThisProcess.launch is not None and _OfThisProcess.pid == os.getpid():
            _OfThisProcess.launch.offer()


def _started(settings: JvmSettings, wishes: Mapping[str, str], *, quiet: bool, log: int | None) -> Launch | None:
    try:
        launched = Launch(settings, wishes, quiet=quiet, log=log)
    except (OSError, RuntimeError) as problem:  # no room for it, or a user without a home
        logger.warning("the JVM is left to PySpark's launcher: %s", problem)
        return None
    _OfThisProcess.launch, _OfThisProcess.pid = launched, os.getpid()
    logger.debug("the JVM is starting")
    atexit.register(close)
    return launched


def abandon(problem: Exception) -> None:
    """Give the launch up: it came to nothing."""
    logger.warning("the JVM is left to PySpark's launcher: %s", problem)
    with _lock:
        _close()


def close() -> None:
    """End what was started, and see to the class archive if it is still to be made."""
    if os.getpid() != _OfThisProcess.pid:
        return  # a copy of the process that started it
    with _lock:
        launched = _OfThisProcess.launch
        _close()
    # Options of the user's own may open ports or write files, which a JVM behind the scenes must not.
    is_plain = launched is not None and "spark.driver.extraJavaOptions" not in launched.wishes
    if launched is not None and is_plain and launched.farewell is not None and launched.entry is not None:
        train_behind(launched.entry, launched.settings)


def _close() -> None:
    launched, _OfThisProcess.launch = _OfThisProcess.launch, None
    # A copy of the process that started it only forgets it.
    if launched is not None and _OfThisProcess.pid == os.getpid():
        launched.close()


@contextlib.contextmanager
def _workers_are(python: str) -> Iterator[None]:
    """What Spark starts as Python is read from the environment when a context is made."""
    names = ("PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
    kept = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, python))
    try:
        yield
    finally:
        for name, value in kept.items():
            if value is None:
                os.environ.pop(name)
            else:
                os.environ[name] = value
