"""Writes that land and are reported as failed: a run's own record is never taken for another owner's, in any store."""

import contextlib
import errno
import time

import pytest
from tests.servers.stores import KINDS, empty_store_url

from millstream.checkpoint import lease as lease_module
from millstream.checkpoint.lease import acquire
from millstream.checkpoint.lease_record import LEASE, LeaseRecord, decode_lease, encode_lease
from millstream.checkpoint.owner import ProcessIdentity
from millstream.checkpoint.stores import local
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.checkpoint.stores.open import open_store
from millstream.database.retry import Unanswered
from millstream.errors import ExternalFailure, Fenced

TERM = 60_000
FAILURES = (ExternalFailure, OSError)


@pytest.fixture(params=["memory", *KINDS])
def store(request, tmp_path, monkeypatch):
    found = (
        MemoryStore()
        if request.param == "memory"
        else open_store(empty_store_url(request.param, tmp_path, monkeypatch))
    )
    found.create("first", b"")  # the S3 server of the tests makes a bucket with its first object
    yield found
    found.close()


@contextlib.contextmanager
def landing_unheard(store):
    """Writes of this store land, and then fail in the way that is the store's own."""
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(store, MemoryStore):
            patch.setattr(store, "swap", _and_then(store.swap, ExternalFailure("no reply")))
        elif isinstance(store, LocalStore):
            patch.setattr(local, "sync_directory", _and_then(local.sync_directory, OSError(errno.EIO, "no fsync")))
        else:
            # The reply is lost, and looking what became of the write fails as well.
            sent = []
            for name in ("_replace", "_insert"):
                patch.setattr(store, name, _and_then(getattr(store, name), Unanswered("no reply"), sent))
            away = _and_then(store._look, ExternalFailure("away"))
            patch.setattr(store, "_look", lambda name, look=store._look: away(name) if sent else look(name))
        yield


def _and_then(call, problem, sent=()):
    def landed(*given):
        call(*given)
        if isinstance(sent, list):
            sent.append(given)
        raise problem

    return landed


@pytest.fixture
def taken(store):
    """A lease whose own thread stays away: every renewal is the test's."""
    lease = acquire(store, term=TERM)
    yield lease
    lease.release()


def stored(store):
    return decode_lease(store.read(LEASE))


def free_record():
    process = ProcessIdentity(host="elsewhere", boot="other", namespace="n", pid=7, started="1")
    return LeaseRecord(token=4, owner="o", process=process, term=TERM, renewed_at=time.time(), is_released=True)


def replaced_by_another(store):
    other = LeaseRecord(token=9, owner="another", process=free_record().process, term=TERM)
    assert store.swap(LEASE, store.read(LEASE), encode_lease(other))


def no_waiting(seconds):
    msg = "nobody else holds the lease"
    raise AssertionError(msg)


def first_swap_unheard(store, monkeypatch):
    """The next write lands and fails, those after it succeed; gives the list of those that failed."""
    swap, unheard = store.swap, []

    def first(*given):
        monkeypatch.setattr(store, "swap", swap)
        unheard.append(given)
        with landing_unheard(store):
            return store.swap(*given)

    monkeypatch.setattr(store, "swap", first)
    return unheard


# Renewing.


def test_a_renewal_that_landed_unheard_is_no_loss(store, taken):
    with landing_unheard(store), pytest.raises(FAILURES):
        taken._renew()
    assert stored(store).beat == 1, "it did land"
    taken._renew()
    taken.check()
    assert (taken.lost, taken.token) == (None, 1)
    assert (stored(store).beat, stored(store).owner) == (2, taken._record.owner)


def test_renewals_that_land_unheard_again_and_again_are_no_loss(store, taken):
    for _ in range(3):
        with landing_unheard(store), pytest.raises(FAILURES):
            taken._renew()
    taken._renew()
    assert (taken.lost, stored(store).token, stored(store).beat > 1) == (None, 1, True)


def test_a_renewal_that_lands_late_is_no_loss(store, taken, monkeypatch):
    """The first request is on its way while the next is decided."""
    swap, late = store.swap, []
    monkeypatch.setattr(store, "swap", lambda *given: late.append(given) or _raise())
    with pytest.raises(ExternalFailure):
        taken._renew()

    def meanwhile(*given):
        while late:
            swap(*late.pop())
        return swap(*given)

    monkeypatch.setattr(store, "swap", meanwhile)
    taken._renew()
    assert (taken.lost, stored(store).owner) == (None, taken._record.owner)


def _raise():
    raise ExternalFailure("no reply")


def test_an_unheard_renewal_does_not_prolong_the_lease(store, taken, monkeypatch):
    """What counts is when a renewal was sent that is known to have landed."""
    began = taken._renewed
    with landing_unheard(store), pytest.raises(FAILURES):
        taken._renew()
    assert taken._renewed == began
    monkeypatch.setattr(lease_module.time, "monotonic", lambda: began + 41.0)
    taken.check()
    assert taken._renewed == began + 41.0


def test_a_lost_reply_in_the_middle_of_an_epoch_ends_no_run(store, taken, monkeypatch):
    """A process that slept renews where it goes on; that is no time to learn of a reply that was lost."""
    began, unheard = taken._renewed, first_swap_unheard(store, monkeypatch)
    monkeypatch.setattr(lease_module.time, "monotonic", lambda: began + 41.0)
    taken.check()
    assert (len(unheard), taken.lost, stored(store).beat) == (1, None, 2)


def test_who_was_replaced_after_an_unheard_renewal_is_fenced(store, taken):
    with landing_unheard(store), pytest.raises(FAILURES):
        taken._renew()
    replaced_by_another(store)
    taken._renew()
    with pytest.raises(Fenced) as caught:
        taken.check()
    assert (caught.value.found, caught.value.known) == ("token 1", "token 9")
    assert stored(store).owner == "another"


@pytest.mark.parametrize("changed", [{"owner": "another"}, {"token": 2}])
def test_owner_and_token_must_both_be_the_runs_own(store, taken, changed):
    fields = {"token": 1, "owner": taken._record.owner, "process": taken._record.process, "term": TERM}
    assert store.swap(LEASE, store.read(LEASE), encode_lease(LeaseRecord(**{**fields, **changed})))
    taken._renew()
    with pytest.raises(Fenced):
        taken.check()


def test_a_lease_is_given_back_behind_an_unheard_renewal(store):
    lease = acquire(store, term=TERM)
    with landing_unheard(store), pytest.raises(FAILURES):
        lease._renew()
    lease.release(settled=True)
    assert (stored(store).is_released, stored(store).is_settled) == (True, True)


# Taking.


def test_a_lease_that_was_taken_unheard_is_held_at_once(store, monkeypatch):
    assert store.create(LEASE, encode_lease(free_record()))
    unheard = first_swap_unheard(store, monkeypatch)
    lease = acquire(store, term=TERM, sleep=no_waiting)
    lease.check()
    assert (len(unheard), lease.token, stored(store).token, lease.lost) == (1, 5, 5, None)
    lease.release()


def test_who_could_not_learn_the_outcome_does_not_wait_for_itself(store):
    assert store.create(LEASE, encode_lease(free_record()))
    with landing_unheard(store), pytest.raises(FAILURES):
        acquire(store, term=TERM, sleep=no_waiting)
    assert stored(store).token == 5, "it did land"
    lease = acquire(store, term=TERM, sleep=no_waiting)
    assert (lease.token, lease.lost) == (6, None)
    lease.release()


def test_a_lease_that_was_not_taken_is_not_believed_to_be(store, monkeypatch):
    """The write failed and never landed; meanwhile another took the lease."""
    assert store.create(LEASE, encode_lease(free_record()))

    def fails(*given):
        monkeypatch.undo()
        replaced_by_another(store)
        raise ExternalFailure("no reply")

    monkeypatch.setattr(store, "swap", fails)
    with pytest.raises(ExternalFailure, match="no reply"):
        acquire(store, term=TERM, sleep=no_waiting)
    assert stored(store).owner == "another"


def test_a_store_that_contradicts_itself_is_an_error_not_a_loop(monkeypatch):
    store = MemoryStore()
    lease = acquire(store, term=TERM)
    monkeypatch.setattr(store, "swap", lambda *_: False)
    with pytest.raises(ExternalFailure) as caught:
        lease._renew()
    assert (caught.value.code, lease.lost) == ("CKPT-060", None)
    monkeypatch.undo()
    lease.release()
