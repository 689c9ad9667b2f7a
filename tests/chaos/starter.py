"""Starts job processes quickly: a process that has imported everything forks one child per request.

Requests come as JSON lines on stdin, `{"folder": …, "env": …, "log": …}`; on stdout it answers with the child's pid, and later
with its end. When stdin closes it kills its children and ends.
"""

import importlib
import json
import os
import resource
import selectors
import signal
import sys
import warnings


def serve(main):
    """Fork a child for each line until there are no more."""
    children = set()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting = selectors.DefaultSelector()
    waiting.register(0, selectors.EVENT_READ)
    waiting.register(woken, selectors.EVENT_READ)
    pending = b""
    while True:
        ready = {key.fd for key, _ in waiting.select()}
        if woken in ready:
            os.read(woken, 4096)
            _reap(children)
        if 0 in ready:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                children.add(_fork(json.loads(line), main))
    for child in children:
        os.kill(child, signal.SIGKILL)


def _reap(children):
    for child in list(children):
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            children.discard(pid)
            _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _fork(request, main):
    pid = os.fork()
    if pid:
        _say({"started": pid})
        return pid
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    for fd, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY)):
        os.dup2(os.open(os.devnull, flags), fd)
    os.dup2(os.open(request["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
    os.environ.update(request["env"])
    code = 1
    try:
        if request.get("max_bytes"):
            resource.setrlimit(resource.RLIMIT_FSIZE, (request["max_bytes"],) * 2)
        code = main(request["folder"])
    except BaseException:  # the traceback is for the log; nothing may return into the server
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _say(message):
    os.write(1, json.dumps(message).encode() + b"\n")


PREPARED = (
    "duckdb", "pandas", "psycopg", "pyarrow.dataset", "pyarrow.json", "pyarrow.pandas_compat", "sqlglot.dialects.spark",
    "sqlglot.optimizer.annotate_types", "sqlite3", "millstream.graph.expressions.compile",
    "millstream.connectors.files.sink", "millstream.connectors.files.source", "millstream.connectors.jdbc.committer",
    "millstream.connectors.jdbc.writer", "millstream.local.run", "millstream.runtime.operators.aggregate.operator",
    "millstream.runtime.operators.process.operator", "millstream.runtime.operators.window.bins",
)  # fmt: skip
"""What a job would import on its way. Imported, never used here: no thread may run when the process forks."""

if __name__ == "__main__":
    from tests.chaos import job

    for name in PREPARED:
        importlib.import_module(name)
    warnings.simplefilter("ignore")
    serve(job.main)
