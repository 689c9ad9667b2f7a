"""The lease of a checkpoint: one owner at a time, each with a higher token than the one before.

The lease keeps a second owner from starting; it is no safety by itself. What a late owner writes is refused by the token that
every manifest and every sink transaction carries.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from millstream.checkpoint.decisions import Challenge, Hold, ReadBack, challenge, hold, read_back
from millstream.checkpoint.failpoint import failpoint
from millstream.checkpoint.lease_record import (
    LEASE,
    LeaseRecord,
    decode_lease,
    encode_lease,
    held,
    outclaimed,
    replaced,
)
from millstream.checkpoint.owner import this_process
from millstream.checkpoint.stores.base import ManifestStore
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced, MillstreamError

_ATTEMPTS = 5
"""How often a record is written anew because an earlier write of this owner, taken for failed, turns out to be there."""
_LOOK_SECONDS = 0.2
"""How long a watched lease is left alone, or a tenth of the term, so that a renewal by its owner is seen soon."""
_given_up: set[str] = set()
"""Owners of this process that could not learn whether they took the lease. Nobody holds what they may have written."""
_OPEN = (ExternalFailure, OSError)
"""After these nobody knows whether a write landed; the next one tells."""
_LOST = (Fenced, CheckpointRefused)
"""After these the lease is another's, or nobody's."""
_log = logging.getLogger(__name__)


class Written(NamedTuple):
    """A record of an owner and its stored form."""

    record: LeaseRecord
    content: bytes


class Lease:
    """A lease that is held; a thread renews it until it is released or lost."""

    def __init__(self, store: ManifestStore, written: Written, *, taken: float) -> None:
        self._store, self._written = store, written
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
    def _record(self) -> LeaseRecord:
        return self._written.record

    @property
    def lost(self) -> MillstreamError | None:
        """Why the lease is no longer held, if so."""
        return self._lost

    def check(self) -> None:
        """Raise unless the lease is held now: a process that slept renews before it goes on, or learns that it lost."""
        if self._hold is Hold.DOUBTFUL:
            self._renew_now()
        match self._hold:
            case Hold.LOST:
                assert self._lost is not None, "a lease that is lost says why"
                raise self._lost
            case Hold.GIVEN_BACK:
                msg = "the lease was given back"
                raise Fenced(msg, found=f"token {self.token}", hint="this run ends by itself")
            case Hold.SURE | Hold.DOUBTFUL:
                return

    @property
    def _hold(self) -> Hold:
        return hold(
            is_lost=self._lost is not None,
            is_given_back=self._ended.is_set(),
            silent_seconds=time.monotonic() - self._renewed,
            term=self._record.term,
        )

    def _renew_now(self) -> None:
        """A renewal that failed may have landed: the next one tells, so that a lost reply alone ends no run."""
        try:
            self._renew()
        except _OPEN as problem:
            _log.warning("the lease could not be renewed, trying again: %s", problem)
            self._renew()

    def _keep(self) -> None:
        # Twice in the two thirds of the term after which `check` doubts: one renewal may fail.
        while not self._ended.wait(self._record.term / 1000 / 3) and self._lost is None:
            try:
                self._renew()
            except _OPEN as problem:
                # The store may come back; `check` decides when the term is nearly over.
                _log.warning("the lease could not be renewed: %s", problem)

    def _renew(self) -> None:
        with self._lock:
            if self._lost is not None or self._ended.is_set():
                return
            self._write(renewed_at=time.time())

    def _write(self, **changes: Any) -> None:
        sent = time.monotonic()
        try:
            self._written = rewritten(self._store, self._written, **changes)
        except _LOST as problem:
            self._lost = problem
        else:
            self._renewed = sent

    def release(self, *, settled: bool = False) -> None:
        """Give the lease back, so that the next owner need not wait; `settled` says that nothing is left to publish."""
        self._ended.set()
        self._thread.join(timeout=5)
        with self._lock:
            if self._lost is not None or self._record.is_released:
                return
            try:
                self._write(is_released=True, is_settled=settled)
            except _OPEN as problem:
                # Whatever ended the run matters more; the lease runs out by itself.
                _log.warning("the lease could not be given back: %s", problem)


def acquire(
    store: ManifestStore,
    *,
    term: int,
    token_above: int = 0,
    claim: int = 0,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Lease:
    """Take the lease. A live owner is respected; a silent one is watched for its term, a dead one is replaced at once.

    One of an earlier claim is replaced at once too: whatever it still writes, its token is refused.
    """
    watched: bytes | None = None
    since = monotonic()
    while True:
        stored = store.read(LEASE)
        record = None if stored is None else decode_lease(stored)
        has_changed, was_watched = stored != watched, watched is not None
        if has_changed:
            watched, since = stored, monotonic()
        is_renewed, silent = has_changed and was_watched, monotonic() - since
        match _challenged(record, claim, is_renewed=is_renewed, silent_seconds=silent):
            case Challenge.TAKE:
                token = max(token_above, 0 if record is None else record.token) + 1
                lease = _lease(store, stored, token=token, term=term, claim=claim)
                if lease is not None:
                    return lease
            case Challenge.WATCH:
                sleep(min(_LOOK_SECONDS, term / 10_000))


def _challenged(record: LeaseRecord | None, claim: int, *, is_renewed: bool, silent_seconds: float) -> Challenge:
    """What is done about the stored lease; what must not be done is raised."""
    decision = challenge(
        None if record is None else record.term,
        is_free=record is not None and _is_free(record),
        is_renewed=is_renewed,
        silent_seconds=silent_seconds,
        claim=claim,
        stored_claim=0 if record is None else record.claim,
    )
    if decision in (Challenge.REFUSE, Challenge.OUTCLAIMED):
        assert record is not None, "what is not there is taken"
        raise held(record) if decision is Challenge.REFUSE else outclaimed(record, claim)
    return decision


def _lease(store: ManifestStore, stored: bytes | None, **wanted: int) -> Lease | None:
    taken = time.monotonic()
    written = _taken(store, stored, **wanted)
    return None if written is None else Lease(store, written, taken=taken)


def _taken(store: ManifestStore, stored: bytes | None, *, token: int, term: int, claim: int = 0) -> Written | None:
    """Put a record of this process in the place of what is stored; `None` when another was first.

    A write that failed may have landed all the same. Then the next write follows on it and settles the matter.
    """
    mine = LeaseRecord(
        token=token, owner=uuid.uuid4().hex, process=this_process(), term=term, renewed_at=time.time(), claim=claim
    )
    written = Written(mine, encode_lease(mine))
    try:
        if store.swap(LEASE, stored, written.content) or store.read(LEASE) == written.content:
            failpoint("lease_taken")
            return written
    except _OPEN as problem:
        return _settled(store, written, problem)
    return None


def _settled(store: ManifestStore, written: Written, problem: Exception) -> Written:
    try:
        settled = rewritten(store, written, renewed_at=time.time())
    except (MillstreamError, OSError):
        # It may land yet. Whoever starts next in this process need not wait for an owner that does not exist.
        _given_up.add(written.record.owner)
        raise problem from None
    _log.warning("the lease was taken although its store reported a failure: %s", problem)
    return settled


def rewritten(store: ManifestStore, written: Written, **changes: Any) -> Written:
    """Replace a record of this owner by its next one, and return that.

    What the owner believes to be stored may lag behind: a write can land although it was reported as failed, at once or late. A
    record with this owner and token is such a write, since nobody else writes it, and the next one follows on it.

    Raises:
        Fenced: the record of another owner is there, or none.
        CheckpointRefused: a record is there that cannot be read.
        ExternalFailure: the store failed, so that the outcome is open.
    """
    for _ in range(_ATTEMPTS):
        wanted = msgspec.structs.replace(written.record, beat=written.record.beat + 1, **changes)
        content = encode_lease(wanted)
        if store.swap(LEASE, written.content, content):
            failpoint("lease_written")
            return Written(wanted, content)
        stored = store.read(LEASE)
        other = None if stored is None or stored == content else decode_lease(stored)
        match read_back(content, stored, is_own=_is_own(written.record, other)):
            case ReadBack.LANDED:
                return Written(wanted, content)
            case ReadBack.BEHIND:
                assert stored is not None, "an earlier write is there"
                assert other is not None, "an earlier write can be read"
                written = Written(other, stored)
            case ReadBack.REPLACED | ReadBack.GONE:
                raise replaced(written.record, other)
    msg = "the lease of this run changes all the time"
    raise ExternalFailure(
        msg, code="CKPT-060", found=f"token {written.record.token}", hint="check the store of the lease"
    )


def _is_own(mine: LeaseRecord, other: LeaseRecord | None) -> bool:
    return other is not None and (other.owner, other.token) == (mine.owner, mine.token)


def _is_free(record: LeaseRecord) -> bool:
    """Clocks of two machines are never compared: a lease is watched unless its end is certain."""
    return record.is_released or record.owner in _given_up or record.process.is_gone
