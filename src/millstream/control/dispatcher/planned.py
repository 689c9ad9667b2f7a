"""`Planned`: what the service knows of a job without running any of its code."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A definition, compiled by a process of its own."""

    name: str
    mode: str
    fingerprint: str
    parallelism: int
    guarantee: str
    layers: dict[str, Any] = {}
    """The layers of the plan as JSON values, for people."""
    texts: dict[str, str] = {}
    """The layers of the plan as text."""
    charts: dict[str, str] = {}
    """The layers of the plan as Mermaid flowcharts."""
    steps: list[dict[str, Any]] = []
    secrets: list[str] = []
    """Names that the definition mentions as `${secret:NAME}`."""
    params: list[dict[str, Any]] = []
    shape: dict[str, Any] | None = None
    """What the job keeps between epochs, by which it is judged whether it fits a savepoint."""


class DefinitionPlanner(Protocol):
    """Compiles a definition; what is wrong with it is raised."""

    def __call__(self, definition: dict[str, Any], *, code: str | None, parallelism: int | None) -> Planned:
        """The plan. `code` is the folder of the job's unpacked artifact."""
        ...
