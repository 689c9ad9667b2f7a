"""Settings of Spark that the engine depends on, known before pyspark is imported."""

from __future__ import annotations

from typing import Protocol

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
    if is_local(deployment.master):
        confs |= {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    return {**confs, **dict(deployment.confs)}
