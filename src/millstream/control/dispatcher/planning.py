"""Compiles definitions in a process of their own: the service runs no code of a job, and none of it runs for long."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from typing import Any

import msgspec

from millstream import errors
from millstream.contract.reach import Reach
from millstream.control.dispatcher.planned import Planned
from millstream.control.drivers.launch import clean_environment
from millstream.errors import ExternalFailure, InvalidPlan, MillstreamError

_MODULE = "millstream.driver.service.planning"
_SECONDS = 90.0
_SHOWN = 500
NOTHING_SAID = Reach()


def planned_apart(
    definition: dict[str, Any], *, code: str | None, parallelism: int | None, reach: Reach = NOTHING_SAID
) -> Planned:
    """The plan of a definition.

    Raises:
        MillstreamError: what is wrong with it, as the compiler said it.
        InvalidPlan: (CTL-027) the process that was to compile it broke off.
        ExternalFailure: (CTL-028) it did not come to an end.
    """
    return told_by(compiler(), definition, code=code, parallelism=parallelism, reach=reach)


def compiler(*options: str) -> subprocess.Popen[str]:
    """A process that compiles what it is told, once; it ends when nobody can tell it any more."""
    return subprocess.Popen(
        # Safe path: modules are not looked for in the working directory of the server.
        [sys.executable, "-P", "-m", _MODULE, *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=clean_environment(os.environ),
        start_new_session=True,
    )


def told_by(
    child: subprocess.Popen[str],
    definition: dict[str, Any],
    *,
    code: str | None,
    parallelism: int | None,
    reach: Reach,
) -> Planned:
    """What a process makes of a definition; raises as `planned_apart`."""
    facts = {"definition": definition, "code": code, "parallelism": parallelism}
    asked = json.dumps({**facts, "reach": msgspec.to_builtins(reach)})
    with child:
        try:
            out, problems = child.communicate(asked, _SECONDS)
        except subprocess.TimeoutExpired:
            _end(child)
            msg = f"the job was not compiled in {_SECONDS:g} s"
            raise ExternalFailure(msg, code="CTL-028", hint="see what its file does when it is imported") from None
        return _told(subprocess.CompletedProcess(child.args, child.returncode, out, problems))


def _end(child: subprocess.Popen[str]) -> None:
    """With all that it started, which is of its session: it is our child yet, so that the number is nobody else's."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _told(child: subprocess.CompletedProcess[str]) -> Planned:
    try:
        told = json.loads(child.stdout)
    except ValueError:
        msg = "the process that was to compile the job broke off"
        found = f"exit code {child.returncode}: {child.stderr[-_SHOWN:].strip()}"
        raise InvalidPlan(msg, code="CTL-027", found=found, hint="try it by hand: millstream validate") from None
    if "error" in told:
        raise refusal_of(told["error"])
    return msgspec.convert(told["planned"], Planned)


def refusal_of(facts: dict[str, Any]) -> MillstreamError:
    """The error as the process raised it."""
    unknown = ExternalFailure if facts.get("domain") == "external" else InvalidPlan
    kind = getattr(errors, str(facts.get("kind")), unknown)
    kind = kind if isinstance(kind, type) and issubclass(kind, MillstreamError) else unknown
    fields = {name: facts.get(name) for name in ("code", "step", "found", "known", "hint")}
    return kind(facts.get("message") or "the job cannot be compiled", **fields)
