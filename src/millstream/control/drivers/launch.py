"""Starts a driver process that outlives this one: a session of its own, no pipes, a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.owner import process_of
from millstream.contract.driver_protocol import DriverIdentity, RunSpec
from millstream.contract.run_folder import BadRunFolder, DriverFolder, write_durably
from millstream.control.drivers.processes import adopt_child, is_alive
from millstream.redaction import shown_setting

_PASSED = frozenset({
    "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR", "JAVA_HOME", "JAVA_TOOL_OPTIONS", "PYTHONPATH",
    "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "HADOOP_CONF_DIR",
    "YARN_CONF_DIR", "KRB5_CONFIG",
})  # fmt: skip
_PASSED_FAMILIES = ("LC_", "MILLSTREAM_", "SPARK_")
DRIVER_MODULE = "millstream.driver.service.main"


def prepared(folder: DriverFolder, spec: RunSpec) -> None:
    """Say in the folder what is to run; what an earlier process of the run left goes, apart from its logs.

    Raises:
        BadRunFolder: (CTL-115) that process still runs.
    """
    folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.root.chmod(0o700)
    before = folder.read_identity()
    if before is not None and is_alive(before):
        msg = "the driver of a run is to be started, and one lives"
        hint = "adopt it, or kill it first"
        raise BadRunFolder(msg, code="CTL-115", found=f"process {before.pid}, token {before.token}", hint=hint)
    older = folder.journal.with_name(f"{folder.journal.name}.1")
    for path in (folder.identity, folder.result, folder.socket, folder.journal, older):
        path.unlink(missing_ok=True)
    for place in (folder.logs, folder.work):
        place.mkdir(mode=0o700, exist_ok=True)
    write_durably(folder.spec, msgspec.json.format(msgspec.json.encode(spec), indent=1))
    failpoint("driver_prepared")


def launch(folder: DriverFolder, spec: RunSpec, python: str = sys.executable) -> DriverIdentity:
    """Start the driver of a run; it says in `driver.json` when it listens."""
    prepared(folder, spec)
    with folder.log.open("ab") as log:
        folder.log.chmod(0o600)
        process = subprocess.Popen(
            # Safe path: modules are not looked for in the working directory.
            [python, "-P", "-m", DRIVER_MODULE, str(folder.root)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder.work,
            env=clean_environment(os.environ),
            start_new_session=True,
        )
    adopt_child(process)
    me = process_of(process.pid)
    return DriverIdentity(
        pid=me.pid, started=me.started, boot=me.boot, namespace=me.namespace, host=me.host, token=spec.token
    )


def clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a driver is told of the environment of its node: places and settings, nothing that looks like a secret."""
    return {
        name: value
        for name, value in environ.items()
        if (name in _PASSED or name.startswith(_PASSED_FAMILIES)) and shown_setting(name, value) == value
    }
