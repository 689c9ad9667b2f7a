"""What people want of runs, carried from the database to the drivers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import Row

from millstream.control.act import Act
from millstream.control.nodes.owned import OwnedRun
from millstream.control.operations import handed_on, open_operations

_ACTIONS = {
    "drain": "drain",
    "suspend": "suspend",
    "cancel": "cancel",
    "export_savepoint": "savepoint",
    "rescale": "suspend",
}
_KINDS = (*_ACTIONS, "dump")


class DriverRequests:
    """Asks each driver once for each operation; a driver that is asked twice answers the same."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic

    def carry(self, act: Act, runs: Mapping[str, OwnedRun]) -> None:
        """Hand open operations on to the drivers that are connected."""
        for owned in runs.values():
            for each in open_operations(act, owned.id, _KINDS):
                if each.kind == "cancel" and owned.cancelled_at is None:
                    # From here on its time runs, whether the driver can be reached or not.
                    owned.cancelled_at = self._monotonic()
                if each.id in owned.asked or owned.link is None or not owned.link.is_connected:
                    continue
                # One that was withdrawn in this moment is not asked for; one that an earlier process handed on is, again.
                if each.status == "running" or handed_on(act, each.id):
                    self._ask(owned, each)
                    owned.asked.add(each.id)

    def _ask(self, owned: OwnedRun, operation: Row[Any]) -> None:
        assert owned.link is not None, "only drivers that are connected are asked"
        wish = (operation.result or {}).get("wish", {})
        if operation.kind == "dump":
            owned.link.dump(operation.id)
        else:
            action = _ACTIONS[operation.kind]
            owned.link.request(operation.id, action, to=wish.get("to") or "", form=wish.get("form") or "canonical")
