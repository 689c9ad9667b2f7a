"""Connectors in the original shape of a definition: options under the names people gave them, and others from beside."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from millstream.api.jobfile.forms import mapping
from millstream.errors import InvalidStep
from millstream.model.connector import declaration
from millstream.registry import names

Role = Literal["source", "sink"]
_ALIASES: dict[tuple[str, Role], dict[str, str]] = {
    ("kafka", "source"): {
        "topic": "topics",
        "bootstrap.servers": "servers",
        "bootstrap_servers": "servers",
        "group.id": "group",
        "group_id": "group",
    },
    ("kafka", "sink"): {"bootstrap.servers": "servers", "bootstrap_servers": "servers"},
    ("jdbc", "source"): {"jdbc_url": "url", "sql": "query"},
    ("jdbc", "sink"): {"jdbc_url": "url", "table_name": "table"},
    ("http", "source"): {"endpoint": "url"},
    ("files", "source"): {"directory": "path"},
    ("files", "sink"): {"directory": "path"},
}
_LISTED = frozenset({"topics"})
"""Options that hold several values, of which a definition may name one."""


def connector_of(
    part: Mapping[str, Any], role: Role, shared: Mapping[str, Mapping[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The connector of a source or sink as a job file writes it, and what a job file writes beside it.

    Args:
        part: `{"type": name, "config": {...}}`.
        role: which side of the connector.
        shared: per connector, options for wherever the config does not say otherwise.
    """
    name: str = part["type"]
    known = _declared(name, role)
    config = _renamed(
        mapping(part.get("config", {}), f"the config of the {role}", "{option: value}"), name, role, known
    )
    beside = {"schema": config.pop("schema")} if role == "source" and "schema" in config else {}
    options = {**_shared(name, role, shared.get(name, {}), known), **config}
    if (name, role) == ("kafka", "source") and not beside and "schema" not in part:
        # Without columns there is only the message itself, which the first function reads.
        options.setdefault("format", "raw")
    return {name: options}, beside


def _declared(name: str, role: Role) -> frozenset[str] | None:
    """The options of a connector; `None` of one that is not here, which is refused when the step is made."""
    if name not in names("connectors"):
        return None
    declared = declaration(name)
    half = declared.source if role == "source" else declared.sink
    return frozenset() if half is None else frozenset(half.options)


def _renamed(config: Mapping[str, Any], name: str, role: Role, known: frozenset[str] | None) -> dict[str, Any]:
    aliases = _ALIASES.get((name, role), {})
    renamed: dict[str, Any] = {}
    for key, value in config.items():
        option = key if known is not None and key in known else aliases.get(key, key)
        if option in renamed:
            msg = f"option {option!r} of connector {name!r} is given twice"
            raise InvalidStep(msg, code="DECL-004", found=repr(key), hint="remove one of them")
        renamed[option] = [value] if option in _LISTED and isinstance(value, str) else value
    return renamed


def _shared(name: str, role: Role, given: Mapping[str, Any], known: frozenset[str] | None) -> dict[str, Any]:
    """Those of the options beside the definition that this side of the connector has; one that no side has is refused."""
    options = _renamed(mapping(given, f"connector {name!r}", "{option: value}"), name, role, known)
    if known is None:
        return options
    either = known | (_declared(name, "sink" if role == "source" else "source") or frozenset())
    for key in options:
        if key not in either:
            msg = f"connector {name!r} has no option {key!r}"
            raise InvalidStep(msg, code="CONN-003", known=sorted(either), hint="remove it or use a known option")
    return {key: value for key, value in options.items() if key in known}
