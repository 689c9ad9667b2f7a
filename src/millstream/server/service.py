"""`Service`: what the REST interface serves, put together by whoever starts it."""

from __future__ import annotations

import dataclasses
import datetime as dt
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from millstream.contract.reach import Reach
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.planned import DefinitionPlanner
from millstream.control.metadata.database import Metadata, utc_now
from millstream.control.metrics.exposition import Exposition
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.stored.questions import ChannelQuestion
from millstream.server.access.proxies import IpNetwork
from millstream.server.limits import Limits
from millstream.server.settings import Setting


class NodeChannel(Protocol):
    """What only the node that owns a run knows; an answer that cannot be had is an `ExternalFailure`."""

    def sight(self, run: str, seconds: float) -> dict[str, Any]:
        """All that is known of the run now, its epochs of so many seconds among it."""
        ...

    def pulse(self, run: str, after: int | None) -> dict[str, Any]:
        """How far the run is, and its epochs behind one; without one the newest."""
        ...

    def log(self, run: str, stream: str, offset: int, limit: int) -> dict[str, Any]:
        """Part of a log: `{"text", "next", "size"}`; offsets are bytes."""
        ...

    def logs(self, run: str) -> list[str]:
        """The names of its logs."""
        ...

    def metrics(self, run: str) -> list[dict[str, Any]]:
        """Its figures, those of its own functions among them."""
        ...

    def page(self, identifier: str) -> str:
        """The figures of all runs of a node, for Prometheus."""
        ...

    def dump(self, run: str) -> dict[str, Any]:
        """The stacks of its driver."""
        ...


class StoredChannel(Protocol):
    """What is stored where only nodes see it: state, and dead letters."""

    def ask(self, asked: ChannelQuestion) -> dict[str, Any]:
        """The answer of a node that can see it."""
        ...


_NOTHING_SAID = Reach()


def _nobody_waits() -> None:
    """Nothing here carries anything out."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Service:
    """The parts of a running service; routes of a part that is not there do not exist."""

    metadata: Metadata
    planner: DefinitionPlanner
    signing_key: bytes
    """Signs cursors; all servers of one service share it."""
    limits: Limits = dataclasses.field(default_factory=Limits)
    monotonic: Callable[[], float] = time.monotonic
    has_tls: bool = False
    """Whether browsers reach it by https, ours or a proxy's: cookies are bound to that."""
    proxies: tuple[IpNetwork, ...] = ()
    """The proxies that are believed when they say who asked them."""
    wake: Callable[[], None] = _nobody_waits
    """Called when something was started or asked for: who carries it out here need not wait for the next round."""
    reach: Reach = _NOTHING_SAID
    """What jobs that are data may reach, and looks at connectors."""
    channel: NodeChannel | None = None
    stored: StoredChannel | None = None
    keys: KeyRing | None = None
    """Encrypts secrets and sensitive settings."""
    artifacts: ArtifactStore | None = None
    unpacked: Path | None = None
    """Where code of jobs is unpacked to be compiled; it comes with `artifacts`."""
    checkpoints: Path | None = None
    """Where checkpoints of jobs are kept, unless a job says otherwise."""
    watched: tuple[Path, ...] = ()
    """Folders in which schedules may wait for files."""
    figures: Exposition | None = None
    """What it tells Prometheus."""
    settings: tuple[Setting, ...] = ()
    """What it was started with, as it may be shown."""
    started: dt.datetime = dataclasses.field(default_factory=utc_now)
