"""The engine as the API finds it: what takes long to start is started before pyspark is imported."""

from __future__ import annotations

from typing import Any

from millstream.api.running.result import RunResult
from millstream.plan.deployment import DeploymentPlan
from millstream.spark.start.launch import start_early


def run(deployment: DeploymentPlan, *, debug: bool = False, **options: Any) -> RunResult:
    """Run on Spark; the options are those of `millstream.driver.run.run`."""
    start_early(deployment, debug=debug)
    from millstream.driver.run import run as run_on_spark

    return run_on_spark(deployment, debug=debug, **options)
