"""What is installed is known by its exact version, and can be written down."""

import json
import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
LINES = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
ALONE = {"millstream", "setuptools"}
"""Ourselves, and what Python brings."""


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned():
    return {normal(name): version for name, version in (line.split("==") for line in LINES)}


def test_every_line_is_one_exact_version():
    assert len(LINES) > 80
    assert [line for line in LINES if not re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.!+_-]+", line)] == []
    assert len(pinned()) == len(LINES)


def test_every_installed_package_has_its_version_there():
    installed = {normal(each.metadata["Name"]): each.version for each in metadata.distributions()}
    assert {
        name: version for name, version in installed.items() if pinned().get(name) != version and name not in ALONE
    } == {}


def test_the_bill_of_materials(tmp_path):
    command = [sys.executable, str(ROOT / "scripts/sbom.py"), str(tmp_path / "sbom.json")]
    subprocess.run(command, check=True, capture_output=True)
    told = json.loads((tmp_path / "sbom.json").read_text())
    assert (told["bomFormat"], told["specVersion"]) == ("CycloneDX", "1.6")
    listed = {each["name"]: each["version"] for each in told["components"]}
    installed = {normal(each.metadata["Name"]): each.version for each in metadata.distributions()}
    assert listed == {name: version for name, version in installed.items() if name != "millstream"}
    references = {each["bom-ref"] for each in told["components"]} | {told["metadata"]["component"]["bom-ref"]}
    assert all(set(each["dependsOn"]) <= references for each in told["dependencies"])
