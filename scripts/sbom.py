"""Writes what is installed here as CycloneDX JSON: `python scripts/sbom.py sbom.json`.

From the metadata of the packages alone: nothing is asked of the network, and equal environments give equal files.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from importlib import metadata
from pathlib import Path
from typing import Any


def sbom() -> dict[str, Any]:
    """The bill of materials."""
    found = {_name(each): each for each in metadata.distributions()}
    ours = found.pop("millstream")
    known = sorted(found.items())
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_component("millstream", ours), "type": "application"}},
        "components": [_component(name, each) for name, each in known],
        "dependencies": [_needs(name, each, found) for name, each in (("millstream", ours), *known)],
    }


def _name(each: metadata.Distribution) -> str:
    return re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower()


def _reference(name: str, each: metadata.Distribution) -> str:
    return f"pkg:pypi/{name}@{each.version}"


def _component(name: str, each: metadata.Distribution) -> dict[str, Any]:
    told: dict[str, Any] = {"type": "library", "name": name, "version": each.version}
    told |= {"bom-ref": _reference(name, each), "purl": _reference(name, each)}
    written = each.metadata.get("License-Expression") or each.metadata.get("License")
    if written and "\n" not in written:
        told["licenses"] = [{"license": {"name": written}}]
    record = each.read_text("RECORD")
    if record is not None:
        # Of the list of files with their digests: the archive that they came in is not kept.
        digest = {"name": "record-sha256", "value": hashlib.sha256(record.encode()).hexdigest()}
        told["properties"] = [digest]
    return told


def _needs(name: str, each: metadata.Distribution, known: dict[str, metadata.Distribution]) -> dict[str, Any]:
    wanted = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", need)[0]).lower() for need in each.requires or []}
    there = sorted(wanted & known.keys())
    return {"ref": _reference(name, each), "dependsOn": [_reference(need, known[need]) for need in there]}


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(sbom(), indent=1) + "\n")
    sys.stdout.write(f"{sys.argv[1]}: {len(sbom()['components'])} packages\n")
