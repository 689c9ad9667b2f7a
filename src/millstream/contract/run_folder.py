"""The folder of a run on its node: the files through which node and driver process find each other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from millstream.contract.driver_protocol import DriverIdentity, DriverReport, RunSpec
from millstream.errors import Domain, MillstreamError

T = TypeVar("T")


class BadRunFolder(MillstreamError, ValueError):
    """A run folder whose files cannot be believed."""

    code = "CTL-110"
    domain: Domain = "internal"


class DriverFolder:
    """Where the files of one run are. Only its user can look into it."""

    def __init__(self, root: str | Path) -> None:
        self.root = Path(root).absolute()
        self.spec = self.root / "run.json"
        self.socket = self.root / "driver.sock"
        self.identity = self.root / "driver.json"
        self.journal = self.root / "journal.jsonl"
        self.result = self.root / "result.json"
        self.logs = self.root / "logs"
        self.log = self.logs / "driver.log"
        self.work = self.root / "work"

    def read_spec(self) -> RunSpec:
        """What is to run.

        Raises:
            BadRunFolder: there is no such file, or none that can be read.
        """
        spec = _read(self.spec, RunSpec)
        if spec is None:
            msg = "the folder of a run does not say what is to run"
            raise BadRunFolder(msg, code="CTL-111", found=str(self.spec), hint="start drivers through their node")
        return spec

    def read_identity(self) -> DriverIdentity | None:
        """The driver process; `None` before it listens."""
        return _read(self.identity, DriverIdentity)

    def read_result(self) -> DriverReport | None:
        """The last report of a driver that has ended in order; `None` when there is none."""
        return _read(self.result, DriverReport)

    @contextlib.contextmanager
    def socket_address(self) -> Iterator[str]:
        """The socket by a path of few bytes: the kernel takes 107, and folders may lie deep."""
        folder = os.open(self.root, os.O_PATH | os.O_DIRECTORY)
        try:
            yield f"/proc/self/fd/{folder}/{self.socket.name}"
        finally:
            os.close(folder)


def write_durably(path: Path, content: bytes) -> None:
    """Put content in the place of a file, for this user alone; it is there whole or not at all, also when power fails."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    made.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _read(path: Path, kind: type[T]) -> T | None:
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as problem:
        msg = f"{path.name} in the folder of a run cannot be read"
        raise BadRunFolder(msg, found=problem, hint="the run's node writes it anew with the next start") from None
