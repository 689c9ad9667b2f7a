"""Processes that can be stopped and ended before and after everything they do outside."""

import threading

_mine = threading.local()


class Killed(BaseException):
    """The end of a process: nothing it would still do happens."""


def place(name):
    """A place where a process can be stopped or ended; outside of a `Process` nothing happens."""
    process = getattr(_mine, "process", None)
    if process is not None:
        process.pass_place(name)


class Process:
    """Work in a thread that moves only when it is told to, place by place."""

    def __init__(self, work, *, is_coarse=False):
        self._is_coarse = is_coarse
        self._go, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self._budget, self._is_killed, self._work = 0, False, work
        self.at, self.is_over, self.error = "", False, None
        self.passed = []
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def advance(self, places=None):
        """Pass that many places and stop before the next, or run to the end; whether it has ended."""
        self._budget = float("inf") if places is None else places
        self._go.release()
        self._back.acquire()
        if self.is_over:
            self._thread.join()
        return self.is_over

    def kill(self):
        if not self.is_over:
            self._is_killed = True
            self.advance()

    def pass_place(self, name):
        if self._is_coarse and name.endswith(" done") and not self._is_killed:
            return  # nothing happens between it and the next place
        if self._budget <= 0 and not self._is_killed:
            self.at = name
            self._back.release()
            self._go.acquire()
        if self._is_killed:
            raise Killed
        self._budget -= 1
        self.passed.append(name)

    def _run(self):
        _mine.process = self
        self._go.acquire()
        try:
            if not self._is_killed:
                self._work()
        except Killed:
            pass
        except Exception as problem:
            self.error = problem
        self.is_over = True
        self._back.release()
