"""`ControlPlane`: everything that one service process runs besides answering requests, put together."""

from __future__ import annotations

import logging
import os
import platform
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from millstream import __version__
from millstream.contract.reach import Reach
from millstream.control.artifacts.folders import CodeFolders
from millstream.control.artifacts.store import ArtifactStore
from millstream.control.dispatcher.disposing import dispose_asked
from millstream.control.dispatcher.reconcile import Reconciler
from millstream.control.dispatcher.verifying import verify_asked
from millstream.control.drivers.warm_pool import WarmLimits, WarmPool
from millstream.control.metadata.database import Metadata
from millstream.control.metadata.retention import Retention
from millstream.control.metrics.runs import RunFigures
from millstream.control.nodes.channel import ChannelServer
from millstream.control.nodes.folders import clear_folders
from millstream.control.nodes.identity import NodeDirectory
from millstream.control.nodes.local_host import LocalDrivers
from millstream.control.nodes.loop import Loop
from millstream.control.nodes.manifests import state_data_of
from millstream.control.nodes.node import Node
from millstream.control.nodes.placing import Places
from millstream.control.nodes.registration import Offer
from millstream.control.nodes.views import RunViews
from millstream.control.schedule.dispatching import dispatcher_acts
from millstream.control.schedule.looks import FolderLooks
from millstream.control.schedule.loop import tick
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.secrets.of_run import secrets_of_run
from millstream.control.stored.calling import StoredCalls
from millstream.control.stored.letters import LetterActs
from millstream.control.stored.readers import StoredReaders
from millstream.control.stored.views import StoredViews
from millstream.control.tracing.traces import Tracing, open_traces
from millstream.errors import ExternalFailure

_NODE_SECONDS = 0.2
_RENEWAL_SECONDS = 3.0
"""For an answer to a renewal: then there is time for another one, over a new connection, before drivers hold still."""
_ROUND_SECONDS = 1.0
_SWEEP_SECONDS = 3600.0
_READERS_SECONDS = 10.0
_log = logging.getLogger(__name__)


class NodeOptions(NamedTuple):
    """What the operator says of a node."""

    data: Path
    checkpoints: Path
    artifacts: Path
    keys: Path
    slots: int = max(2, os.cpu_count() or 2)
    labels: Mapping[str, str] = {}
    channel_host: str = "127.0.0.1"
    channel_port: int = 0
    shown_host: str | None = None
    warm: WarmLimits = WarmLimits()
    tracing: Tracing | None = None
    serves: bool = False
    """Whether it is inside a server, which tells the figures of its runs itself."""
    allows_private: bool = False
    """Whether job files may reach into private networks."""
    closed: tuple[Path, ...] = ()
    """Further files and folders that no job file may name."""


def reach_of(options: NodeOptions, metadata: Metadata) -> Reach:
    """What jobs that are data may reach: nothing of what the service keeps for itself."""
    own = (options.data, options.checkpoints, options.artifacts, options.keys, *options.closed)
    database = [metadata.url.path] if metadata.is_sqlite else []
    return Reach(private=options.allows_private, closed=(*map(str, own), *database))


class RunningNode:
    """A node with its loop and its channel."""

    def __init__(self, metadata: Metadata, options: NodeOptions) -> None:
        self.directory = NodeDirectory(options.data)
        self._metadata, self._ring = metadata, KeyRing(options.keys)
        self._renewing = metadata.apart(_RENEWAL_SECONDS)
        code = CodeFolders(ArtifactStore(options.artifacts), options.data / "code")
        self._traces = open_traces(options.tracing)
        self._warm = WarmPool(options.data / "warm", options.warm)
        drivers = LocalDrivers(self.directory.runs, self._warm, on_news=self.wake)
        self._views, self._readers = RunViews(drivers.folder), StoredReaders()
        places = Places(options.checkpoints, code.folder, reach_of(options, metadata))
        self._channel = self._opened_channel(options, places)
        self._node = Node(
            metadata,
            self._offer(options),
            drivers,
            places,
            secrets=self._secrets,
            state_data=lambda run, token: state_data_of(drivers.folder(run, token)),
            traces=self._traces,
            renewing=self._renewing,
        )
        self._views.runs = self._node.runs
        self._loop = Loop("node", self._node.round, pause=_NODE_SECONDS)
        self._loops = [self._loop, *self._beside(code)]

    def _beside(self, code: CodeFolders) -> list[Loop]:
        """What must not wait for the node's rounds, nor they for it; leases first."""
        return [
            Loop("leases", self._node.keep, pause=_NODE_SECONDS),
            Loop("artifacts", lambda: self._swept(code), pause=_SWEEP_SECONDS),
            Loop("warm", self._warm.tend, pause=_NODE_SECONDS),
            Loop("readers", self._readers.tend, pause=_READERS_SECONDS),
        ]

    def _opened_channel(self, options: NodeOptions, places: Places) -> ChannelServer:
        stored = StoredViews(self._metadata, places, self._secrets, self._readers)
        door: dict[str, Any] = {
            "host": options.channel_host,
            "port": options.channel_port,
            "shown_host": options.shown_host,
        }
        return ChannelServer(self._views, stored, **door)

    def _offer(self, options: NodeOptions) -> Offer:
        return Offer(
            id=self.directory.id,
            boot=self.directory.boot,
            slots=options.slots,
            labels=dict(options.labels),
            version=__version__,
            address=self._channel.address,
            channel_key=self._channel.key,
            details={"host": platform.node(), "pid": os.getpid(), "serves": options.serves},
        )

    def _secrets(self, job_id: int, names: Collection[str]) -> Mapping[str, str]:
        with self._metadata.begin() as connection:
            return secrets_of_run(connection, self._ring, job_id, names)

    def _swept(self, code: CodeFolders) -> None:
        owned = {f"{each.id}.{each.token}" for each in self._node.runs().values()}
        clear_folders(self.directory.runs, owned, now=time.time())
        code.tidy(self._metadata)

    def figures(self) -> list[RunFigures]:
        """Of the runs that go on here."""
        return [owned.figures for owned in self._node.runs().values()]

    def start(self) -> None:
        """Register; its loops adopt what there is, and begin to claim."""
        try:
            self._node.register()
        except ExternalFailure as problem:
            # Its loop begins with it again: a machine may come up before its database does.
            _log.warning("the node waits for its database: %s", problem)
        for loop in self._loops:
            loop.start()

    def wake(self) -> None:
        """There is something to claim or to ask."""
        self._loop.wake()

    def stop(self) -> None:
        """End; drivers go on, and the next process of this node adopts them."""
        for loop in self._loops:
            loop.stop()
        self._readers.close()
        self._warm.close()
        self._node.leave()
        self._traces.close()
        self._renewing.close()
        self._channel.close()
        self.directory.close()


class ControlPlane:
    """The rounds of a dispatcher, and a node if there is one here."""

    def __init__(
        self,
        metadata: Metadata,
        node: RunningNode | None,
        *,
        watched: Sequence[Path] = (),
        compiled: CodeFolders | None = None,
    ) -> None:
        """`compiled` is code that a server unpacked to compile it: it goes with its artifact, as that of nodes does."""
        self._metadata, self._node, self._watched = metadata, node, watched
        self._acts = LetterActs(metadata, StoredCalls(metadata).ask)
        self._looks = FolderLooks()
        self._loops = [
            Loop("reconciler", Reconciler(metadata).round, pause=_ROUND_SECONDS),
            Loop("schedule", self._schedule, pause=_ROUND_SECONDS),
            Loop("savepoints", lambda: self._later(dispose_asked), pause=_ROUND_SECONDS),
            Loop("verifying", lambda: self._later(verify_asked), pause=_ROUND_SECONDS),
            Loop("letters", self._letters, pause=_ROUND_SECONDS),
            Loop("retention", Retention(metadata).round, pause=_SWEEP_SECONDS),
        ]
        if compiled is not None:
            self._loops.append(Loop("compiled", lambda: compiled.tidy(metadata), pause=_SWEEP_SECONDS))

    def _later(self, tend: Callable[[Metadata], int]) -> None:
        try:
            tend(self._metadata)
        except ExternalFailure as problem:
            _log.warning("savepoints are tended later: %s", problem)

    def _letters(self) -> None:
        try:
            self._acts.round()
        except ExternalFailure as problem:
            _log.warning("bad records are replayed and removed later: %s", problem)

    def _schedule(self) -> None:
        """Whatever is due; what a fire started need not wait for the node's next round."""
        try:
            with self._metadata.begin() as connection:
                now = self._metadata.now(connection)
            told = tick(self._metadata, now, dispatcher_acts(now), roots=self._watched, looks=self._looks)
        except ExternalFailure as problem:
            _log.warning("the schedule waits for the database: %s", problem)
            return
        for schedule, failure in told.failures:
            _log.error("schedule %s could not be decided: %s", schedule, failure)
        for backfill, failure in told.stuck_backfills:
            _log.error("backfill %s cannot go on: %s", backfill, failure)
        if told.decided:
            self.wake()

    def start(self) -> None:
        """Begin."""
        if self._node is not None:
            self._node.start()
        for loop in self._loops:
            loop.start()

    def wake(self) -> None:
        """Something was started or asked for here: who waits for it need not wait for the next round."""
        if self._node is not None:
            self._node.wake()

    def stop(self) -> None:
        """End in order."""
        for loop in self._loops:
            loop.stop()
        if self._node is not None:
            self._node.stop()
