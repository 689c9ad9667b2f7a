"""The JSON form of every layer: the job's definition, the choices of its deployment, and what each layer derived.

Reading recompiles the definition and compares: a plan written by a version that derives something else is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from millstream.errors import InvalidPlan
from millstream.graph.fields import built
from millstream.graph.job_graph import JobGraph
from millstream.graph.serialize import model_from_json, model_to_json
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.model.params import stored_params
from millstream.model.types import type_name
from millstream.plan.compile import Layers, compile_job
from millstream.plan.deployment import Deployment, DeploymentPlan, EpochPolicy, MemoryBudget
from millstream.plan.explain import LAYERS, Layer, checked_layer, key_group_ranges
from millstream.plan.partitioned import PartitionedPlan
from millstream.redaction import shown_setting, shown_url

FORMAT = 1
_PARTS = ("format", "layer", "job", "deployment", "derived")


def to_json(layers: Layers, layer: str = "deployment", *, portable: bool = True) -> dict[str, Any]:
    """A layer as a JSON value that holds everything before it.

    Args:
        layers: a compiled job.
        layer: `stream`, `job`, `partitioned` or `deployment`.
        portable: refuse functions that another process could not import, and passwords; without it the value is for people only.
    """
    name = checked_layer(layer)
    return {
        "format": FORMAT,
        "layer": name,
        "job": model_to_json(layers.model, portable=portable),
        "deployment": _choices(layers.deployment, portable=portable) if name == "deployment" else None,
        "derived": _derived(layers, name),
    }


def from_json(value: dict[str, Any]) -> Layers:
    """Compile a plan again from its JSON form.

    Raises:
        InvalidPlan: the value is not a plan, or compiling it gives another one; the first difference is named.
    """
    name = _checked(value)
    choices = value["deployment"]
    layers = compile_job(model_from_json(value["job"]), None if choices is None else _deployment(choices))
    difference = next(_differences(value["derived"], _derived(layers, name), "derived"), None)
    if difference is not None:
        path, was, now = difference
        msg = f"the plan compiles to another one: {path} differs"
        raise InvalidPlan(
            msg, code="PLAN-051", found=was, known=now, hint="compile the job again and store the new plan"
        )
    return layers


def _checked(value: Any) -> Layer:
    parts = set(value) if isinstance(value, dict) else set()
    if parts != set(_PARTS):
        given = ", ".join(sorted(map(str, parts))) or type(value).__name__
        msg = "not the JSON form of a plan"
        raise InvalidPlan(msg, code="PLAN-052", found=given, known=_PARTS, hint="write it with plan.serialize.to_json")
    if value["format"] != FORMAT:
        msg = "unknown format of a plan"
        raise InvalidPlan(msg, code="PLAN-053", found=value["format"], known=FORMAT, hint="compile the job again")
    return checked_layer(value["layer"])


def _choices(plan: DeploymentPlan, *, portable: bool) -> dict[str, Any]:
    manifests = None if plan.manifests is None else shown_url(plan.manifests)
    confs = [[key, shown_setting(key, value)] for key, value in plan.confs]
    if portable and (manifests != plan.manifests or confs != [list(pair) for pair in plan.confs]):
        msg = "the url of the manifests or a setting holds a password, which is not written to JSON"
        raise InvalidPlan(msg, code="RUN-023", found=f"{manifests}, {confs}", hint="name it instead: ${secret:NAME}")
    return {
        "master": plan.master,
        "checkpoint": plan.checkpoint,
        "manifests": manifests,
        "state_backend": plan.state_backend,
        "memory": dataclasses.asdict(plan.memory),
        "epochs": dataclasses.asdict(plan.epochs),
        "confs": confs,
        "on_stop": None if plan.on_stop == plan.plan.graph.requirements.on_stop else plan.on_stop,
        "params": stored_params(plan.params) or None,
    }


def _deployment(value: dict[str, Any]) -> Deployment:
    fields = dict(value)
    memory = built(MemoryBudget, fields.pop("memory", {}))
    epochs = built(EpochPolicy, fields.pop("epochs", {}))
    confs = tuple((key, content) for key, content in fields.pop("confs", ()))
    return built(Deployment, {**fields, "memory": memory, "epochs": epochs, "confs": confs})


def _derived(layers: Layers, last: Layer) -> dict[str, Any]:
    """What every layer up to `last` derived."""
    return {layer: _DERIVED[layer](layers) for layer in LAYERS[: LAYERS.index(last) + 1]}


def _stream(graph: StreamGraph) -> dict[str, Any]:
    return {"nodes": [_node(node) for node in graph.nodes]}


def _node(node: StreamNode) -> dict[str, Any]:
    return {
        "id": node.id,
        "uid": node.uid,
        "runs_as": node.runs_as,
        "keys": list(node.keys),
        "input_schema": None if node.input_schema is None else node.input_schema.ddl,
        "outputs": {name: schema.ddl for name, schema in node.outputs.items()},
        "expressions": [
            {"name": name, "text": parsed.text, "columns": list(parsed.columns), "type": type_name(parsed.type)}
            for name, parsed in node.expressions
        ],
        "event_time": list(node.event_time),
        **({} if node.changelog is None else {"changelog": node.changelog.describe()}),
    }


def _job(graph: JobGraph) -> dict[str, Any]:
    return {
        "chains": [{"id": vertex.id, "steps": [node.id for node in vertex.nodes]} for vertex in graph.vertices],
        "edges": [{**dataclasses.asdict(edge), "keys": list(edge.keys)} for edge in graph.edges],
    }


def _partitioned(plan: PartitionedPlan) -> dict[str, Any]:
    return {
        "levels": [[planned.vertex.id for planned in plan.at_level(level)] for level in range(plan.depth + 1)],
        "ports": [
            {
                "port": planned.port,
                "from": f"{planned.edge.source_step}.{planned.edge.output}",
                "to": planned.edge.target,
                "policy": planned.edge.policy,
                "from_level": planned.from_level,
                "to_level": planned.to_level,
            }
            for planned in plan.edges
        ],
        "parallelism": plan.parallelism,
        "key_groups": plan.key_groups,
        "subtasks": [list(bounds) for bounds in key_group_ranges(plan)],
        "shuffles": plan.depth,
        "acknowledgements": list(plan.acknowledgements),
        "fingerprint": dataclasses.asdict(plan.fingerprint),
    }


def _deployed(plan: DeploymentPlan) -> dict[str, Any]:
    return {
        "flow": [{**dataclasses.asdict(flow), "key": list(flow.key)} for flow in plan.flow],
        "edges": [dataclasses.asdict(edge) for edge in plan.edges],
        "is_bounded": plan.is_bounded,
        "mode": plan.mode,
        "epoch_interval": plan.epoch_interval,
    }


_DERIVED: dict[Layer, Callable[[Layers], dict[str, Any]]] = {
    "stream": lambda layers: _stream(layers.stream),
    "job": lambda layers: _job(layers.job),
    "partitioned": lambda layers: _partitioned(layers.partitioned),
    "deployment": lambda layers: _deployed(layers.deployment),
}


def _differences(was: Any, now: Any, path: str) -> Iterator[tuple[str, str, str]]:
    """Each place where two JSON values differ: its path and both values."""
    if isinstance(was, dict) and isinstance(now, dict):
        for key in [*now, *(key for key in was if key not in now)]:
            yield from _differences(was.get(key), now.get(key), f"{path}.{key}")
    elif isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        for index, (old, new) in enumerate(zip(was, now, strict=True)):
            yield from _differences(old, new, f"{path}[{index}]")
    elif was != now:
        yield path, repr(was), repr(now)
