"""`python -m millstream.driver.service.planning`: compiles one job for a server, which never runs code of jobs itself.

What to compile comes as JSON on stdin, the plan or what is wrong with it goes as JSON to stdout.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
from typing import Any

import msgspec

from millstream.api.jobfile.target import model_of
from millstream.contract.reach import Reach
from millstream.driver.service.failure import error_facts
from millstream.driver.service.loading import confine_functions, job_of
from millstream.driver.service.reach import check_reach, confine_reach
from millstream.driver.service.warming import import_all
from millstream.graph.operations.endpoints import Sink, Source
from millstream.jobmaster.compatibility import shape_of
from millstream.model.secret import mentioned
from millstream.plan.compile import Layers, compile_job
from millstream.plan.explain import LAYERS, explain, mermaid
from millstream.plan.serialize import to_json

_CPU_SECONDS = 60


def main() -> int:
    """Compile what stdin says. It may come late: then everything is imported by that time."""
    if sys.argv[1:] == ["--ahead"]:
        import_all()
    content = sys.stdin.read()
    if not content:
        return 0  # nobody asks any more
    asked = json.loads(content)
    _limit_cpu()
    # What the job's own code prints must not be taken for the answer.
    with os.fdopen(os.dup(1), "w") as answer, contextlib.redirect_stdout(sys.stderr):
        os.dup2(2, 1)
        try:
            confine_functions(asked["definition"], asked["code"])
            reach = msgspec.convert(asked["reach"], Reach)
            told = {"planned": plan_facts(asked["definition"], asked["code"], asked["parallelism"], reach)}
        except Exception as problem:
            told = {"error": error_facts(problem)}
        json.dump(told, answer)
    return 0


def _limit_cpu() -> None:
    """What was spent before anybody asked does not count."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime) + _CPU_SECONDS
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))


def plan_facts(definition: dict[str, Any], code: str | None, parallelism: int | None, reach: Reach) -> dict[str, Any]:
    """What the service keeps of a job's plan; what it does not let the job reach is refused."""
    confine_reach(definition, reach)
    layers = compile_job(model_of(job_of(definition, code), parallelism))
    check_reach(definition, layers.stream, reach)
    written = to_json(layers, "deployment", portable=False)
    requirements = layers.model.requirements
    return {
        "name": layers.deployment.name,
        "mode": str(layers.deployment.mode),
        "fingerprint": layers.partitioned.fingerprint.whole,
        "parallelism": requirements.parallelism,
        "guarantee": str(requirements.guarantee),
        "layers": {"job": written["job"], **written["derived"]},
        "texts": {layer: explain(layers, layer) for layer in LAYERS},
        "charts": {layer: mermaid(layers, layer) for layer in LAYERS},
        "steps": _steps(layers),
        "secrets": sorted(mentioned([definition, written["job"]])),
        "params": [{"name": each.name, "type": each.type} for each in requirements.params],
        "shape": msgspec.to_builtins(shape_of(layers.deployment)),
    }


def _steps(layers: Layers) -> list[dict[str, Any]]:
    """Every step with what lists and forms show of it."""
    steps = []
    for node in layers.stream.nodes:
        operation = node.operation
        connector = operation.connector.name if isinstance(operation, (Source, Sink)) else None
        steps.append({"id": node.id, "uid": node.uid, "kind": operation.kind, "connector": connector})
    return steps


if __name__ == "__main__":
    ended_with = main()
    sys.stderr.flush()
    # Somebody waits for this process: taking everything apart that was imported would take longer than the plan did.
    os._exit(ended_with)
