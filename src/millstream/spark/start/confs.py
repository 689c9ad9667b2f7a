"""Settings of Spark that the engine depends on, known before pyspark is imported."""

from __future__ import annotations

import re
import socket
from typing import Protocol

from millstream.model.secret import with_secrets
from millstream.plan.deployment import MemoryBudget
from millstream.spark.start.choice import is_local
from millstream.spark.start.command import java_options

_CONTEXT_CONFS: dict[str, str] = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.ui.enabled": "false",
}
_LOOPBACK = "127.0.0.1"


class Deployed(Protocol):
    """What a deployment says about the JVM."""

    @property
    def master(self) -> str:
        """Where Spark runs."""

    @property
    def memory(self) -> MemoryBudget:
        """How much of it."""

    @property
    def confs(self) -> tuple[tuple[str, str], ...]:
        """The user's own settings."""


def context_confs(deployment: Deployed, *, debug: bool) -> dict[str, str]:
    """Settings of the context, the user's last."""
    confs = {
        **_CONTEXT_CONFS,
        "spark.driver.memory": f"{deployment.memory.driver_mb}m",
        "spark.driver.extraJavaOptions": " ".join(java_options(quiet=not debug)),
    }
    # Plans hold the names of secrets; the JVM is told their values.
    wishes = {name: with_secrets(value) for name, value in deployment.confs}
    host = _LOOPBACK if is_local(deployment.master) else _address_towards(deployment.master)
    if host is not None and "spark.driver.host" not in wishes:
        # What is not said here Spark sets to the host.
        confs |= {"spark.driver.host": host, "spark.driver.bindAddress": host}
    return {**confs, **wishes}


def _address_towards(master: str) -> str | None:
    """The address of this machine on the way to a standalone master: executors must be able to call back.

    Other cluster managers have rules of their own for it.
    """
    first = re.match(r"spark://(\[[^\]]+\]|[^:,/]+):(\d+)", master)
    if first is None:
        return None
    try:
        kind, _, _, _, target = socket.getaddrinfo(first[1].strip("[]"), int(first[2]), type=socket.SOCK_DGRAM)[0]
        # Nothing is sent: connecting a socket for datagrams only chooses a route.
        with socket.socket(kind, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return None
