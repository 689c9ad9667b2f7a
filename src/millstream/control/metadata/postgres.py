"""Connections to PostgreSQL that notice when nobody answers: a network that swallows everything tells nothing by itself."""

from __future__ import annotations

from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus

_IDLE_MS = 10_000
"""A process that stands still in a transaction loses it then: others wait for its locks, those who look for the dead first."""
_CONNECT: dict[str, Any] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
_INTERVAL = 0.1
_Answer = TypeVar("_Answer")
_LIMITS = (
    "SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false)"
)


class PatientConnection(psycopg.Connection[Any]):
    """Waits for each answer so long, then gives the connection up. `None`: as long as it takes."""

    patience: float | None = None

    def wait(self, gen: PQGen[_Answer], interval: float = _INTERVAL, timeout: float | None = None) -> _Answer:
        """As it is called for every answer."""
        try:
            return super().wait(gen, interval, timeout or self.patience)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                # What was asked may still be answered: nobody else must take that for an answer to something else.
                self.close()
            raise


def connected(url: str, patience: float | None) -> PatientConnection:
    """A new connection, which the server gives up too: a statement that nobody waits for any more holds its locks no longer."""
    # libpq reads the url itself: hosts, sockets and parameters mean here what they mean everywhere.
    connection = PatientConnection.connect(url, **_CONNECT)
    connection.patience = patience
    try:
        limit = 0 if patience is None else int(patience * 1000)
        connection.execute(_LIMITS, (str(limit), str(_IDLE_MS)))
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection
