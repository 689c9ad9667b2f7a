"""Errors on their way from a worker through the JVM back to the user: ours keep their fields, the JVM's noise stays out."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from collections.abc import Iterator

from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkException

from millstream import errors
from millstream.errors import ExternalFailure, MillstreamError
from millstream.redaction import redacted
from millstream.tracebacks import account_of

_MARK = re.compile(r"<<millstream:([A-Za-z0-9+/=]+)>>")
_PYTHON_ERROR = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception)): (.+)$", re.MULTILINE)


class WorkerError(RuntimeError):
    """Carries one of our errors through the JVM as text."""


class WorkerTraceback(Exception):
    """How the user's own code failed in a worker, as text: the frames themselves cannot leave their process."""

    def __str__(self) -> str:
        return f"in a worker of Spark\n{self.args[0]}"


@contextlib.contextmanager
def carried() -> Iterator[None]:
    """Inside a worker: wrap our errors so that their fields survive the trip."""
    try:
        yield
    except MillstreamError as problem:
        fields = {**problem.fields(), "kind": type(problem).__name__, "account": account_of(problem)}
        # Base64 passes through every kind of quoting on the way.
        msg = f"<<millstream:{base64.b64encode(json.dumps(fields).encode()).decode()}>>"
        raise WorkerError(msg) from problem


def translated(problem: Exception) -> MillstreamError:
    """What ended a query as one of our errors; ours stay as they are."""
    if isinstance(problem, MillstreamError):
        return problem
    if isinstance(problem, (OSError, Py4JNetworkError)):
        msg = f"the connection to Spark's JVM broke: {type(problem).__name__}: {problem}"
        return ExternalFailure(msg, code="SPARK-004", hint="see whether the JVM was killed; start the job again")
    text = str(problem)
    rebuilt = _rebuilt(text)
    if rebuilt is not None:
        return rebuilt
    python = _PYTHON_ERROR.findall(text)
    lines = text.strip().splitlines() or [type(problem).__name__]
    if not isinstance(problem, (PySparkException, Py4JError)):
        lines[0] = f"{type(problem).__name__}: {lines[0]}"
    headline = ": ".join(python[-1]) if python else lines[0][:300]
    msg = f"the Spark query failed: {headline}"
    return ExternalFailure(msg, code="SPARK-001", hint="run again with --debug for Spark's own account of it")


def told_by_worker(text: str) -> str:
    """What Spark says of a task that failed, in one line."""
    rebuilt = _rebuilt(text)
    if rebuilt is not None:
        return str(rebuilt)
    python = _PYTHON_ERROR.findall(text)
    return redacted(": ".join(python[-1]) if python else text.strip().partition("\n")[0])[:500]


def _rebuilt(text: str) -> MillstreamError | None:
    """Our own error that a text carries, if it does."""
    mark = _MARK.search(text)
    if mark is None:
        return None
    fields = json.loads(base64.b64decode(mark.group(1)))
    kind = getattr(errors, fields.pop("kind"))
    message = fields.pop("message")
    account = fields.pop("account")
    rebuilt: MillstreamError = kind(message, **fields)
    rebuilt.__cause__ = None if account is None else WorkerTraceback(account)
    return rebuilt
