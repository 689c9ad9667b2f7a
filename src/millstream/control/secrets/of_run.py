"""Which secrets a run gets: those that its job names, of the job's own settings before those of the service."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Connection

from millstream.control.secrets.config import own_secrets
from millstream.control.secrets.key_ring import KeyRing
from millstream.control.secrets.named import named_values, refuse_missing


def secrets_of_run(connection: Connection, ring: KeyRing, job_id: int, names: Collection[str]) -> dict[str, str]:
    """The values of the secrets that a job names, for the driver of a run of it.

    Raises:
        UnknownName: (CTL-306) there is none of a name.
        SecretRefused: (CTL-302, CTL-303) one cannot be read.
    """
    own = own_secrets(connection, ring, job_id, names)
    values = {**named_values(connection, ring, [name for name in names if name not in own]), **own}
    refuse_missing(names, values)
    return values
