"""The leases of a node, renewed in time: nothing that the node does otherwise stands between two renewals."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from millstream.checkpoint.failpoint import failpoint
from millstream.control.act import acting
from millstream.control.metadata.database import Metadata
from millstream.control.nodes.claims import TERM, Renewal, renew
from millstream.control.nodes.host import boot_seconds
from millstream.control.nodes.owned import OwnedRun
from millstream.control.nodes.registration import NodeState, Offer, beat
from millstream.errors import ExternalFailure

RENEW_SECONDS = 3.0
"""A fifth of the term: a process that ends has most of it left for its successor to come up."""
TERM_MS = int(TERM.total_seconds() * 1000)
_log = logging.getLogger(__name__)


class HeldLeases:
    """Renews what a node holds. Called from a thread of its own and from the node's; one at a time does it."""

    def __init__(
        self,
        metadata: Metadata,
        offer: Offer,
        runs: Callable[[], Mapping[str, OwnedRun]],
        monotonic: Callable[[], float],
    ) -> None:
        self._metadata, self._offer, self._runs, self._monotonic = metadata, offer, runs, monotonic
        self._renewed_at = float("-inf")
        self._turn = threading.Lock()
        self._is_away = False
        self.state: NodeState = "ACTIVE"
        """What people want of the node, as the newest heartbeat was told."""

    def keep(self) -> None:
        """Renew when it is time; a database that is away is asked again the next time."""
        try:
            self.renew()
        except ExternalFailure as problem:
            if not self._is_away:
                _log.warning("leases cannot be renewed, the database is away: %s", problem)
            self._is_away = True
        else:
            self._is_away = False

    def renew(self) -> None:
        """Heartbeat and all leases in one transaction, if it is time; the promise counts from before it was sent."""
        if not self._turn.acquire(blocking=False):
            return
        try:
            sent, told = self._monotonic(), boot_seconds()
            if sent - self._renewed_at >= RENEW_SECONDS:
                self._renew(told)
                self._renewed_at = sent
        finally:
            self._turn.release()

    def _renew(self, told: float) -> None:
        mine = [owned for owned in self._runs().values() if not owned.is_lost]
        held = {owned.lease: owned.token for owned in mine}
        with acting(self._metadata, self._offer.actor) as act:
            state = beat(act, self._offer, {"runs": len(held)})
            # A newer process of this node takes the runs over as they are: then no lease is lost, but they are not ours.
            renewed = Renewal(set(), set(held)) if state is None else renew(act, self._offer.id, held)
        failpoint("node_renewed")
        self.state = state or "GONE"
        for owned in mine:
            if owned.lease in renewed.lost:
                owned.is_lost = True
            elif owned.lease in renewed.kept:
                owned.promise(told, TERM_MS)
