"""The one door through which names become code: engines, connectors and operations, ours and those of other packages.

What a layer cannot import, because it stands above or brings a heavy library along, is named here and loaded when it is wanted.
Another package brings its own through entry points of the groups `millstream.engines`, `millstream.connectors` and
`millstream.operations`; a name of ours cannot be taken.
"""

from __future__ import annotations

import functools
import importlib
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Group = Literal["engines", "connectors", "operations"]

_CONNECTORS = (
    *("collect", "consumer", "datagen", "files", "http", "jdbc"),
    *("kafka", "loader", "memory", "nats", "nexmark", "postgres_cdc", "print", "rabbitmq", "rate"),
)
_OURS: dict[Group, dict[str, str]] = {
    "engines": {
        "local": "millstream.local.engine:ENGINE",
        "spark": "millstream.driver.engine:ENGINE",
    },
    "connectors": {name: f"millstream.connectors.{name}.spec:DECLARATION" for name in _CONNECTORS},
    "operations": {"agent": "millstream.agents.operation:RunAgent"},
}


_confined: list[Path | None] = []
"""Where names of users must lead, once that was said: a folder, or nowhere."""


def confine(folder: Path | None) -> None:
    """From now on names that users write lead into this folder only: what is installed here is not theirs to call.

    For processes that run what others submitted as data: a definition must not become a call of any function that it can name.
    """
    _confined[:] = [folder]


def _check_place(module: str) -> None:
    if not _confined:
        return
    folder, top = _confined[0], module.partition(".")[0]
    from importlib.util import find_spec

    # Of the outermost package only: to find one inside it would import those around it.
    spec = find_spec(top)
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin or ""]
    if folder is None or not any(place and Path(place).resolve().is_relative_to(folder.resolve()) for place in places):
        where = "the job has none" if folder is None else "it is not there"
        msg = f"module {module!r} would have to be in the job's artifact, and {where}"
        raise ImportError(msg)


def load_of_user(reference: str) -> Any:
    """The object that a job names; where names are confined, only out of its own folder."""
    _check_place(reference.partition(":")[0])
    return load(reference)


def load(reference: str) -> Any:
    """The object named `module:attribute`; dots lead to attributes of attributes."""
    module, _, path = reference.partition(":")
    target: Any = importlib.import_module(module)
    for part in path.split("."):
        target = getattr(target, part)
    return target


def load_module(name: str) -> ModuleType:
    """A module by its name, such as one that holds a job."""
    _check_place(name)
    return importlib.import_module(name)


def names(group: Group) -> list[str]:
    """What is known by name: ours, then what other packages bring."""
    ours = _OURS[group]
    return [*ours, *sorted({point.name for point in _brought(group)} - ours.keys())]


def find(group: Group, name: str) -> Any:
    """What bears a name; `KeyError` where nothing does."""
    if name in _OURS[group]:
        return _own(group, name)
    for point in _brought(group):
        if point.name == name:
            return point.load()
    raise KeyError(name)


@functools.cache
def _own(group: Group, name: str) -> Any:
    """What bears a name of ours; it is asked for in every epoch."""
    return load(_OURS[group][name])


def brings(group: Group, name: str) -> str | None:
    """The package that brings a name; nothing for a name of ours."""
    points = [] if name in _OURS[group] else [point for point in _brought(group) if point.name == name]
    return next((point.dist.name for point in points if point.dist is not None), None)


def is_installed(module: str) -> bool:
    """Whether a module could be imported, without doing so."""
    from importlib.util import find_spec

    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of a package above it
        return False


def _brought(group: Group) -> tuple[EntryPoint, ...]:
    # It brings forty modules along, and names of ours are found without it.
    from importlib.metadata import entry_points

    return tuple(entry_points(group=f"millstream.{group}"))
