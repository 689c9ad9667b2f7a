"""Drivers that were started before their run: which runs one of them may take, and the lines by which it is told which.

What a process cannot change once it runs has to be what the run asks for. Everything else is the run's own, as in a process that
is started for it.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from millstream.contract.driver_protocol import Engine, RunSpec
from millstream.redaction import REFERENCE, shown_setting

PING_SECONDS = 10.0
"""A node that is there says so that often."""
SILENT_SECONDS = 60.0
"""A warm driver that hears nothing for so long ends."""
_OF_A_SESSION = "spark.sql."
"""Settings that each query has for itself, in a JVM that serves several too."""


class WarmWish(msgspec.Struct, frozen=True, kw_only=True):
    """What is fixed in a driver before it has a run. Two are equal or do not fit."""

    engine: Engine
    master: str = ""
    state_backend: str = ""
    confs: dict[str, str] = {}
    """Settings of Spark that are read when a JVM starts, its memory among them."""
    environment: str
    """A digest of interpreter, version and environment variables."""


def names_secrets(spec: RunSpec) -> bool:
    """Whether Spark's settings name secrets: then Spark cannot start before they are there."""
    return any(REFERENCE.search(value) for value in spec.confs.values())


def why_never(spec: RunSpec) -> str | None:
    """Why no warm driver may take a run, whatever it was started with."""
    if names_secrets(spec):
        return "its settings of Spark name secrets, which no driver has before its run"
    if any(shown_setting(name, value) != value for name, value in spec.confs.items()):
        return "its settings of Spark hold a secret, which no driver has before its run"
    return None


def wish_of(spec: RunSpec, environment: str) -> WarmWish:
    """What a run asks for."""
    if spec.engine == "local":
        return WarmWish(engine="local", environment=environment)
    confs = {name: value for name, value in sorted(spec.confs.items()) if not name.startswith(_OF_A_SESSION)}
    return WarmWish(
        engine=spec.engine,
        master=spec.master,
        state_backend=spec.state_backend,
        confs=confs,
        environment=environment,
    )


def differences(wanted: WarmWish, there: WarmWish) -> list[str]:
    """The names of what differs."""
    return [name for name in WarmWish.__struct_fields__ if getattr(wanted, name) != getattr(there, name)]


class StillThere(msgspec.Struct, frozen=True, tag_field="type", tag="ping"):
    """The node is there."""


class TakeRun(msgspec.Struct, frozen=True, tag_field="type", tag="take"):
    """A warm driver is to run what this folder says."""

    folder: str


WarmLine = StillThere | TakeRun


class WarmAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What a warm driver says: that it is ready, that it has taken a run, or why it has not."""

    is_ready: bool = False
    is_taken: bool = False
    problem: str = ""


class WarmFolder:
    """Where a warm driver lives until it takes a run. Only its user can look into it."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.wish = self.root / "wish.json"
        self.log = self.root / "warm.log"
        self.work = self.root / "work"
        """The working directory of its processes; it becomes that of the run."""

    def read_wish(self) -> WarmWish:
        """What is to be started ahead."""
        return msgspec.json.decode(self.wish.read_bytes(), type=WarmWish)
