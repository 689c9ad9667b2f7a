"""A first look at a connector, in a process of its own: one that hangs or breaks takes nothing else with it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import msgspec

from millstream.contract.reach import Reach
from millstream.control.dispatcher.planning import refusal_of
from millstream.control.drivers.launch import clean_environment
from millstream.errors import ExternalFailure

_MODULE = "millstream.driver.service.trying"
_START_SECONDS = 15.0
"""To start the process, beyond what the look itself may take."""


def looked_apart(
    definition: dict[str, Any], step: str, *, rows: int, seconds: float, secrets: Mapping[str, str], reach: Reach
) -> dict[str, Any]:
    """What a source or sink of a definition shows, within its reach: also where a secret says what it names.

    Raises:
        MillstreamError: what is wrong, as the connector said it.
        ExternalFailure: (CTL-059) it did not come to an end, or broke off.
    """
    told = {"definition": definition, "step": step, "rows": rows, "seconds": seconds, "secrets": dict(secrets)}
    told["reach"] = msgspec.to_builtins(reach)
    child = subprocess.Popen(
        # Safe path: modules are not looked for in the working directory of the server.
        [sys.executable, "-P", "-m", _MODULE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=clean_environment(os.environ),
        start_new_session=True,
    )
    with child:
        try:
            content, _ = child.communicate(json.dumps(told).encode(), seconds + _START_SECONDS)
        except subprocess.TimeoutExpired:
            found = f"no end within {seconds + _START_SECONDS:g} s"
            raise _broken(found) from None
        finally:
            # Whatever a library started goes with it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    return _seen(content, child.returncode)


def _seen(content: bytes, code: int) -> dict[str, Any]:
    try:
        told = json.loads(content)
    except ValueError:
        found = f"exit code {code}"
        raise _broken(found) from None
    if "error" in told:
        raise refusal_of(told["error"])
    seen: dict[str, Any] = told["seen"]
    return seen


def _broken(found: str) -> ExternalFailure:
    msg = "the look at the connector did not come to an end"
    hint = "see whether the other side answers at all: millstream connectors test JOB STEP, beside it"
    return ExternalFailure(msg, code="CTL-059", found=found, hint=hint)
