"""The lease of a checkpoint: one owner at a time, each with a higher token than the one before.

The lease keeps a second owner from starting; it is no safety by itself. What a late owner writes is refused by the token that
every manifest and every sink transaction carries.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
import uuid
from collections.abc import Callable

import msgspec

from millstream.checkpoint.owner import ProcessIdentity, this_process
from millstream.checkpoint.sealed import seal, unseal_as
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced, MillstreamError

LEASE = "lease.json"
FORMAT = 1
_log = logging.getLogger(__name__)


class LeaseRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The stored lease."""

    token: int
    owner: str
    process: ProcessIdentity
    term: int
    """Milliseconds after which a lease that does not change may be taken."""
    beat: int = 0
    renewed_at: float = 0.0
    """Seconds since 1970 by the owner's clock."""
    is_released: bool = False
    is_settled: bool = False
    """Whether the owner left with every durable epoch published."""


class Lease:
    """A lease that is held; a thread renews it until it is released or lost."""

    def __init__(self, store: ManifestStore, record: LeaseRecord, *, taken: float) -> None:
        self._store, self._record = store, record
        self._stored = encode_lease(record)
        self._renewed = taken
        self._lock = threading.Lock()
        self._lost: MillstreamError | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="millstream-lease", daemon=True)
        self._thread.start()

    @property
    def token(self) -> int:
        """The fencing token."""
        return self._record.token

    @property
    def lost(self) -> MillstreamError | None:
        """Why the lease is no longer held, if so."""
        return self._lost

    def check(self) -> None:
        """Raise unless the lease is held now: a process that slept renews before it goes on, or learns that it lost."""
        if self._lost is None and time.monotonic() - self._renewed > self._record.term / 1000 * 2 / 3:
            self._renew()
        if self._lost is not None:
            raise self._lost
        if self._ended.is_set():
            msg = "the lease was given back"
            raise Fenced(msg, found=f"token {self.token}", hint="this run ends by itself")

    def _keep(self) -> None:
        while not self._ended.wait(self._record.term / 1000 / 3) and self._lost is None:
            try:
                self._renew()
            except (ExternalFailure, OSError) as problem:
                # The store may come back; `check` decides when the term is nearly over.
                _log.warning("the lease could not be renewed: %s", problem)

    def _renew(self) -> None:
        with self._lock:
            if self._lost is not None or self._ended.is_set():
                return
            self._swap(msgspec.structs.replace(self._record, beat=self._record.beat + 1, renewed_at=time.time()))

    def _swap(self, wanted: LeaseRecord) -> None:
        content = encode_lease(wanted)
        before = time.monotonic()
        if not self._store.swap(LEASE, self._stored, content):
            found = self._store.read(LEASE)
            if found != content:
                self._lost = _replaced(self._record, found)
                return
        self._record, self._stored, self._renewed = wanted, content, before

    def release(self, *, settled: bool = False) -> None:
        """Give the lease back, so that the next owner need not wait; `settled` says that nothing is left to publish."""
        self._ended.set()
        self._thread.join(timeout=5)
        with self._lock:
            if self._lost is not None:
                return
            try:
                self._swap(msgspec.structs.replace(self._record, is_released=True, is_settled=settled))
            except (ExternalFailure, OSError) as problem:
                # Whatever ended the run matters more; the lease runs out by itself.
                _log.warning("the lease could not be given back: %s", problem)


def acquire(
    store: ManifestStore,
    *,
    term: int,
    token_above: int = 0,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Lease:
    """Take the lease. A live owner is refused; a silent one is watched for its term, a dead one is replaced at once."""
    watched: bytes | None = None
    since = monotonic()
    while True:
        stored = store.read(LEASE)
        record = None if stored is None else decode_lease(stored)
        if stored != watched:
            if watched is not None and record is not None and not _is_free(record):
                raise _held(record)
            watched, since = stored, monotonic()
        if record is None or _is_free(record) or monotonic() - since >= record.term / 1000:
            token = max(token_above, 0 if record is None else record.token) + 1
            mine = LeaseRecord(
                token=token, owner=uuid.uuid4().hex, process=this_process(), term=term, renewed_at=time.time()
            )
            taken = time.monotonic()
            if store.swap(LEASE, stored, encode_lease(mine)) or store.read(LEASE) == encode_lease(mine):
                return Lease(store, mine, taken=taken)
            continue
        sleep(min(0.2, term / 10_000))


def _is_free(record: LeaseRecord) -> bool:
    """Clocks of two machines are never compared: a lease is watched unless its end is certain."""
    return record.is_released or record.process.is_gone


def _held(record: LeaseRecord) -> CheckpointRefused:
    process = record.process
    at = dt.datetime.fromtimestamp(record.renewed_at, dt.UTC).isoformat(timespec="seconds")
    msg = "another process runs this checkpoint"
    return CheckpointRefused(
        msg,
        code="CKPT-021",
        found=f"process {process.pid} on {process.host}, renewed at {at}, token {record.token}",
        hint="stop it first (millstream drain CHECKPOINT), or use another checkpoint",
    )


def _replaced(mine: LeaseRecord, found: bytes | None) -> MillstreamError:
    try:
        other = "nothing" if found is None else f"token {decode_lease(found).token}"
    except CheckpointRefused as problem:
        return problem
    msg = "another owner took over this checkpoint"
    return Fenced(msg, found=f"token {mine.token}", known=other, hint="this run ends by itself")


def encode_lease(record: LeaseRecord) -> bytes:
    """The stored form."""
    return seal(msgspec.to_builtins(record), format=FORMAT)


def decode_lease(data: bytes) -> LeaseRecord:
    """Read the stored form, verified."""
    return unseal_as(LeaseRecord, data, name=LEASE, format=FORMAT)
