"""Whether a cluster gives a run somewhere to work: without executors Spark waits for ever, and says nothing."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession

from millstream.errors import ExternalFailure
from millstream.model.time import positive_ms
from millstream.plan.deployment import DeploymentPlan
from millstream.spark.start.choice import is_local

WAIT = "spark.millstream.executorTimeout"
"""Setting: how long a run waits for its first executor."""
DEFAULT_WAIT = "60s"
_LOOK_SECONDS = 1.0


class Executors:
    """Looks for the first executor of a run until there is one."""

    def __init__(self, session: SparkSession, deployment: DeploymentPlan) -> None:
        self._context: Any = session.sparkContext
        self._master = deployment.master
        self._seconds = positive_ms(dict(deployment.confs).get(WAIT, DEFAULT_WAIT), what=WAIT) / 1000
        self._began = self._looked = time.monotonic()
        self._is_there = is_local(self._master)

    def check(self) -> None:
        """Raise when it has taken too long; cheap when there is one."""
        now = time.monotonic()
        if self._is_there or now - self._looked < _LOOK_SECONDS:
            return
        self._looked = now
        # The driver counts itself.
        self._is_there = self._context._jsc.sc().getExecutorMemoryStatus().size() > 1
        if not self._is_there and now - self._began > self._seconds:
            raise self._failure()

    def _failure(self) -> ExternalFailure:
        conf = self._context.getConf()
        address = f"{conf.get('spark.driver.host', 'unknown')}:{conf.get('spark.driver.port', 'unknown')}"
        msg = f"no executor has come in {self._seconds:g} s; no worker is free, or none can reach this process"
        return ExternalFailure(
            msg,
            code="SPARK-005",
            found=f"master {self._master}, executors are told to call {address}",
            known="workers with free cores and memory that can open a connection to that address",
            hint="look at the master's list of workers; name an address of this machine that they reach with "
            f"-D spark.driver.host=ADDRESS; wait longer with -D {WAIT}=5m",
        )
