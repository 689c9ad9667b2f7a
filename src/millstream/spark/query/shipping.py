"""Prepares what travels to the workers: user code by value, and types without what msgspec hung on them."""

from __future__ import annotations

import dataclasses
import sys
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import cloudpickle

from millstream.graph.function import functions_in
from millstream.graph.operation import Operation
from millstream.graph.state import StateDescriptor
from millstream.plan.deployment import DeploymentPlan

_CACHE = "__msgspec_cache__"
"""What msgspec knows of a class, kept on the class itself; it cannot be pickled, and it is made anew where it is missing."""


def ship_by_value(deployment: DeploymentPlan) -> None:
    """User code outside installed packages travels to the workers by value: they need no path to it."""
    for operation in _operations(deployment):
        for function in functions_in(operation):
            _register(function.target)
        for field in dataclasses.fields(operation):
            content = getattr(operation, field.name)
            for state in content if isinstance(content, tuple) else ():
                if isinstance(state, StateDescriptor):
                    _forget_caches(state.type, set())
                    _forget_caches(state.key_type, set())


def has_closing(deployment: DeploymentPlan) -> bool:
    """Whether functions of the plan want to be closed."""
    return any(
        function.defines("close") for operation in _operations(deployment) for function in functions_in(operation)
    )


def _operations(deployment: DeploymentPlan) -> Iterator[Operation]:
    for planned in deployment.plan.vertices:
        yield from (node.operation for node in planned.vertex.nodes)


def _register(target: Any) -> None:
    name = getattr(target, "__module__", None) or type(target).__module__
    module = sys.modules.get(name)
    file = getattr(module, "__file__", None)
    if module is None or file is None or name == "__main__" or name.split(".")[0] == "millstream":
        return
    if not Path(file).resolve().is_relative_to(Path(sys.prefix).resolve()) and "site-packages" not in file:
        cloudpickle.register_pickle_by_value(module)


def _forget_caches(kind: Any, seen: set[int]) -> None:
    """Clean a type, the types in its brackets and the types of its fields."""
    if kind is None or id(kind) in seen:
        return
    seen.add(id(kind))
    for inner in typing.get_args(kind):
        _forget_caches(inner, seen)
    if not isinstance(kind, type):
        return
    if _CACHE in vars(kind):
        delattr(kind, _CACHE)
    if getattr(kind, "__annotations__", None):
        for inner in typing.get_type_hints(kind).values():
            _forget_caches(inner, seen)
