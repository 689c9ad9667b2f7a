"""`doctor`: what is here, what is missing, and the command that fixes it."""

import importlib.metadata
import json
import stat

import pytest

from millstream.inspect import machine
from millstream.inspect.machine import java_major, requirements, satisfies


def fake_java(folder, version):
    path = folder / "bin" / "java"
    path.parent.mkdir()
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2024-01-16' >&2\n")
    path.chmod(path.stat().st_mode | stat.S_IEXEC)
    return folder


def findings(result):
    return {finding["name"]: finding for finding in json.loads(result.stdout)["findings"]}


def test_everything_is_there(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17.0.9")))
    result = cli("doctor", "-o", "json")
    assert result.exit_code == 0
    found = findings(result)
    assert found["java"]["found"] == f"17.0.9 at {tmp_path}/bin/java"
    assert {"python", "java", "pyspark", "pyarrow", "protobuf", "pandas"} <= found.keys()
    assert found["pyarrow"]["found"] == importlib.metadata.version("pyarrow")


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_392", "nonsense"])
def test_an_old_java(cli, tmp_path, monkeypatch, version):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    result = cli("doctor")
    assert result.exit_code == 1
    assert f"MISSING java         {version} at" in result.stdout
    assert "set JAVA_HOME to a JDK 17 or newer" in result.stdout


def test_no_java(cli, tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    result = cli("doctor", "-o", "json")
    assert result.exit_code == 1
    assert findings(result)["java"]["found"] is None


def test_a_missing_package_and_its_fix(cli, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "21.0.1")))
    monkeypatch.setattr(machine, "requirements", lambda: [("no-such-package", ">=1,<2"), ("pyarrow", "<1")])
    result = cli("doctor", "-o", "json")
    assert result.exit_code == 1
    found = findings(result)
    assert found["no-such-package"]["found"] is None
    assert found["no-such-package"]["fix"].endswith("-m pip install 'no-such-package>=1,<2'")
    assert found["pyarrow"]["is_good"] is False


def test_requirements_come_from_the_package_itself():
    names = dict(requirements())
    assert names["pyspark"]
    assert "pytest" not in names


@pytest.mark.parametrize(
    ("version", "wanted", "holds"),
    [
        ("4.3.0", ">=4.3,<4.4", True),
        ("4.3", ">=4.3.0", True),
        ("4.4.0", ">=4.3,<4.4", False),
        ("4.2.9", ">=4.3,<4.4", False),
        ("10.0", ">=9.1", True),
        ("2.0.0rc1", "<3", True),
        ("1.0", "", True),
    ],
)
def test_version_ranges(version, wanted, holds):
    assert satisfies(version, wanted) is holds


@pytest.mark.parametrize(("text", "major"), [("17.0.9", 17), ("1.8.0_392", 8), ("21", 21), ("", 0)])
def test_java_versions(text, major):
    assert java_major(text) == major
