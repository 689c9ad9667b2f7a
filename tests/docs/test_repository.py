"""What lies in the repository, what a build of it holds, and which versions it is tested with."""

import re
import subprocess
import sys
import tomllib
import zipfile

import pytest
from packaging.requirements import Requirement
from tests.docs.pages import ROOT

PINNED = dict(
    line.lower().replace("_", "-").split("==")
    for line in (ROOT / "constraints.txt").read_text().splitlines()
    if not line.startswith("#")
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = {name: [*map(Requirement, texts)] for name, texts in PROJECT["optional-dependencies"].items()}
OURS = [each for each in EXTRAS["dev"] if each.name == PROJECT["name"]]
"""What tests install of our own extras; the others need servers that only some machines can have."""
WANTED = [
    *map(Requirement, PROJECT["dependencies"]),
    *(each for each in EXTRAS["dev"] if each not in OURS),
    *(wanted for own in OURS for extra in sorted(own.extras) for wanted in EXTRAS[extra]),
]


def tracked():
    found = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    return found.stdout.splitlines()


def test_nothing_that_a_job_writes_is_kept():
    files = tracked()
    if not files:
        pytest.skip("not a clone of the repository")
    generated = re.compile(r"^(out|demo-data|spark-warehouse|checkpoint)/|(^|/)__pycache__/|\.log$")
    assert [path for path in files if generated.search(path)] == []
    assert [path for path in files if path.endswith(".parquet") and not path.startswith("tests/")] == []


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: wanted.name)
def test_a_dependency_is_pinned_within_its_range(wanted):
    assert wanted.specifier.contains(PINNED[wanted.name.lower()])


def test_pins_name_versions_and_nothing_else():
    text = (ROOT / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert [line for line in lines if re.fullmatch(r"[A-Za-z0-9_.-]+==[0-9][A-Za-z0-9.+!]*", line) is None] == []
    assert "://" not in text


def test_set_up_uses_the_pins_and_is_done_again_when_they_change():
    text = (ROOT / "Makefile").read_text()
    rule = text[text.index("$(STAMP): ") :].partition("\n\n")[0]
    assert "constraints.txt" in rule.splitlines()[0]
    installs = re.findall(r"pip install(?:[^\n]|\\\n)*", rule)
    assert len(installs) == 2
    assert all("--constraint constraints.txt" in each for each in installs)
    assert "make test" in (ROOT / ".ci/run").read_text()


def test_the_license_is_whole_and_declared():
    text = (ROOT / "LICENSE").read_text()
    assert text.count("\n") == 202
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert PROJECT["license"] == "Apache-2.0"


def test_the_wheel_holds_the_license_and_says_that_it_is_typed(tmp_path):
    pytest.importorskip("hatchling", reason="make setup installs it")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "millstream/py.typed" in names
    assert any(name.endswith("dist-info/licenses/LICENSE") for name in names)
    assert "millstream/spark/log4j2.properties" in names
