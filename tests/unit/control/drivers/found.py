"""Which runs have a folder on this node, and whether their drivers live: what a node looks at when it starts."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from millstream.contract.driver_protocol import DriverIdentity, DriverReport, RunSpec
from millstream.contract.run_folder import BadRunFolder, DriverFolder
from millstream.control.drivers.processes import is_alive


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FoundDriver:
    """What is known of a run from its folder alone."""

    folder: DriverFolder
    spec: RunSpec | None
    identity: DriverIdentity | None
    result: DriverReport | None
    problem: str | None = None
    """Why the folder cannot be read, if so."""

    @property
    def is_alive(self) -> bool:
        """Whether its driver runs."""
        return self.identity is not None and is_alive(self.identity)


def found_drivers(runs: str | Path) -> list[FoundDriver]:
    """Every run that has a folder here; one that cannot be read is among them, with the reason."""
    root = Path(runs)
    folders = sorted(path for path in root.iterdir() if path.is_dir()) if root.is_dir() else []
    return [_found(DriverFolder(path)) for path in folders]


def _found(folder: DriverFolder) -> FoundDriver:
    try:
        spec, identity, result = folder.read_spec(), folder.read_identity(), folder.read_result()
    except BadRunFolder as problem:
        return FoundDriver(folder=folder, spec=None, identity=None, result=None, problem=str(problem))
    return FoundDriver(folder=folder, spec=spec, identity=identity, result=result)
