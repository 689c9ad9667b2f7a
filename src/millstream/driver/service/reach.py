"""What submitted jobs may reach, looked at once before a run opens anything, never for a row.

Jobs that are data stay within what the operator lets them. Paths of every job are absolute: others would be resolved in the
folder of each attempt, so that each wrote somewhere else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from millstream.connectors.http.asking.addresses import forbid_private
from millstream.contract.reach import Reach
from millstream.errors import StepFailed
from millstream.graph.operations.endpoints import Sink, Source
from millstream.graph.stream_graph import StreamGraph, StreamNode
from millstream.model.connector import ConnectorSpec
from millstream.model.secret import held_secrets
from millstream.redaction import REFERENCE

_PATTERN = "*?["
_PLACES = {"files": "path", "jdbc": "url"}
"""Options that hold a path of this machine."""


def confine_reach(definition: dict[str, Any], reach: Reach) -> None:
    """Before the definition is looked at: a column list that is asked of a server is asked within the rule too."""
    if _is_data(definition) and not reach.private:
        forbid_private()


def check_reach(definition: dict[str, Any], stream: StreamGraph, reach: Reach) -> None:
    """Refuse a job whose connectors would go further; parameters have their values by now.

    Raises:
        StepFailed: (CTL-130) into private networks, (CTL-131) to files of the service, (CTL-132) to a folder of the attempt.
    """
    for node in stream.nodes:
        match node.operation:
            case Source(connector=connector) | Sink(connector=connector):
                _check_place(node, connector)
                if not _is_data(definition):
                    continue
                if connector.name == "http" and connector.options.get("allow_private") and not reach.private:
                    raise _private(node)
                for text in _texts(dict(connector.options)):
                    _check_text(node, text, reach)


def _is_data(definition: dict[str, Any]) -> bool:
    return definition.get("kind") == "declarative"


def _private(node: StreamNode) -> StepFailed:
    msg = "the service lets no job file reach into private networks"
    hint = "leave allow_private out; or the operator starts server and nodes with --allow-private-addresses"
    return StepFailed(msg, code="CTL-130", step=node.id, found="allow_private", hint=hint)


def _check_place(node: StreamNode, connector: ConnectorSpec) -> None:
    """A parameter or secret that has no value yet may be an absolute path: the run that has it looks again."""
    told = str(connector.options.get(_PLACES.get(connector.name, ""), ""))
    path = _whole_path(_with_secrets(told))
    if not path or path.startswith("${") or Path(path).is_absolute():
        return
    msg = "the path is relative, and each attempt of a run works in a folder of its own, which is removed"
    hint = "name an absolute path, or a parameter that is one"
    raise StepFailed(msg, code="CTL-132", step=node.id, found=told, hint=hint)


def _with_secrets(text: str) -> str:
    return REFERENCE.sub(lambda found: held_secrets().get(found[1], found[0]), text)


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for key, each in value.items():
                yield from _texts(key)
                yield from _texts(each)
        case list() | tuple():
            for each in value:
                yield from _texts(each)


def _check_text(node: StreamNode, text: str, reach: Reach) -> None:
    path = _path_of(_with_secrets(text))
    if path is None:
        return
    place, mine = Path(os.path.realpath(path)), Path(os.path.realpath("."))
    whole = isinstance(node.operation, Source) and Path(path).is_absolute()
    for each in reach.closed:
        closed = Path(os.path.realpath(each))
        is_inside = place.is_relative_to(closed) and not place.is_relative_to(mine)
        # A source looks into every folder below the one it is told.
        if is_inside or (whole and closed.is_relative_to(place)):
            msg = "the path leads to files of the service"
            hint = "name a folder outside of those that the service keeps for itself"
            raise StepFailed(msg, code="CTL-131", step=node.id, found=text, hint=hint)


def _path_of(text: str) -> str | None:
    """The path that a text may mean; of a pattern, what stands before its first sign."""
    path = _whole_path(text)
    return path[: min((path.find(sign) for sign in _PATTERN if sign in path), default=len(path))] or None


def _whole_path(text: str) -> str:
    if "\0" in text:
        return ""
    try:
        parts = urlsplit(text) if "://" in text or text.startswith("file:") else None
    except ValueError:
        return ""
    if parts is not None and parts.scheme == "sqlite":
        text = unquote(parts.path.removeprefix("/"))
    elif parts is not None:
        text = unquote(parts.path) if parts.scheme == "file" else ""
    return text
