"""The runs that a node answers for now, and its lines to their drivers."""

from __future__ import annotations

import threading
from collections.abc import Collection, Mapping

from millstream.control.nodes.host import DriverHost
from millstream.control.nodes.owned import OwnedRun
from millstream.control.nodes.placing import SecretsOfRun


class RunTable:
    """Changed by the node's own thread; looked at by others."""

    def __init__(self, host: DriverHost, secrets: SecretsOfRun) -> None:
        self._host, self._secrets = host, secrets
        self._runs: dict[str, OwnedRun] = {}
        self._lock = threading.Lock()

    def all(self) -> Mapping[str, OwnedRun]:
        """As they are at this moment, by their names."""
        with self._lock:
            return dict(self._runs)

    def __contains__(self, run: str) -> bool:
        return run in self._runs

    def __len__(self) -> int:
        return len(self._runs)

    def get(self, run: str) -> OwnedRun | None:
        """One of them."""
        return self._runs.get(run)

    def add(self, *found: OwnedRun) -> None:
        """From now on their leases are renewed, whether their drivers can be told or not."""
        with self._lock:
            self._runs |= {owned.id: owned for owned in found}

    def connect(self, owned: OwnedRun, names: Collection[str]) -> None:
        """Secrets are sent again: the process that started the driver may have ended before it sent them."""
        values = self._secrets(owned.job_id, names) if names else {}
        link = self._host.link(owned.id, owned.token, from_seq=owned.seq, on_report=owned.take)
        if values:
            link.secrets(values)
        owned.connected(link)

    def forget(self, owned: OwnedRun) -> None:
        """It is not this node's any more; its driver is left as it is."""
        if owned.link is not None:
            owned.link.close()
        with self._lock:
            if self._runs.get(owned.id) is owned:
                del self._runs[owned.id]
