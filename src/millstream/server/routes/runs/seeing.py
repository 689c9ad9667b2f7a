"""How routes look at a run: through the node that has it, or at what is stored of it once it has ended."""

from __future__ import annotations

from millstream.control.dispatcher.stopping import run_of
from millstream.control.lifecycle.states import OWNED, Status
from millstream.control.refusals import UnknownName
from millstream.control.sights.sight import WINDOW_SECONDS, RunSight, live_sight, stored_sight
from millstream.server.asking import Asking
from millstream.server.service import NodeChannel


def channel_of(asking: Asking) -> NodeChannel:
    """How nodes are asked."""
    channel = asking.service.channel
    assert channel is not None, "these routes are there only with a channel"
    return channel


def run_id(asking: Asking, run: str) -> str:
    """The whole id of a run."""
    with asking.reading() as act:
        identifier: str = run_of(act, run).execution_id
    return identifier


def sight_of(asking: Asking, run: str) -> RunSight:
    """What is known of a run now; a run that no node has is seen as it is stored.

    Raises:
        ExternalFailure: (CTL-045) its node does not answer.
        UnknownName: (CTL-150) it is nowhere, and nothing is stored of it.
    """
    with asking.reading() as act:
        row = run_of(act, run)
        if Status(row.status) not in OWNED:
            return stored_sight(act, row)
    try:
        told = channel_of(asking).sight(row.execution_id, WINDOW_SECONDS)
    except UnknownName:
        # Its node may have let go of it just now.
        with asking.reading() as act:
            row = run_of(act, row.execution_id)
            if Status(row.status) in OWNED:
                raise
            return stored_sight(act, row)
    with asking.reading() as act:
        return live_sight(act, row, told)
