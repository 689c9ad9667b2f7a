"""One owner at a time: how the lease is taken, kept, lost and given back, with real processes where they matter."""

import os
import signal
import subprocess
import sys
import threading
import time

import msgspec
import pytest

from millstream.checkpoint import lease as lease_module
from millstream.checkpoint.head import Head, HeadKeeper
from millstream.checkpoint.lease import acquire
from millstream.checkpoint.lease_record import FORMAT, LEASE, LeaseRecord, decode_lease, encode_lease
from millstream.checkpoint.owner import ProcessIdentity, this_process
from millstream.checkpoint.sealed import seal
from millstream.checkpoint.stores.local import LocalStore
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import CheckpointRefused, ExternalFailure, Fenced

TERM = 300
OWNER = """
import sys
from millstream.checkpoint.head import Head, HeadKeeper
from millstream.checkpoint.lease import acquire
from millstream.checkpoint.stores.local import LocalStore
from millstream.errors import Fenced

store = LocalStore(sys.argv[1])
lease = acquire(store, term=int(sys.argv[2]))
keeper = HeadKeeper(store)
keeper.move(Head(job="j", lineage="l", token=lease.token))
print("holds", lease.token, flush=True)
for line in sys.stdin:
    try:
        if line.strip() == "check":
            lease.check()
        else:
            keeper.move(Head(job="j", lineage="l", token=lease.token, epoch=int(line), manifest="m"))
        print("ok", flush=True)
    except Fenced as problem:
        print("fenced", problem, flush=True)
"""


class OtherProcess:
    """A process that takes the lease and the head, and does what it is told."""

    def __init__(self, root, term=TERM):
        self._process = subprocess.Popen(
            [sys.executable, "-c", OWNER, str(root), str(term)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.token = int(self._process.stdout.readline().split()[1])

    def ask(self, line):
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()

    def signal(self, number):
        os.kill(self._process.pid, number)
        if number == signal.SIGKILL:
            self._process.wait()
        if number == signal.SIGSTOP:
            os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    def end(self):
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


@pytest.fixture
def other(tmp_path):
    found = OtherProcess(tmp_path)
    yield found
    found.end()


@pytest.fixture
def held():
    """Leases that are given back at the end of the test."""
    found = []

    def take(store, **given):
        found.append(acquire(store, **{"term": TERM, **given}))
        return found[-1]

    yield take
    for each in found:
        each.release()


class Outage(MemoryStore):
    """A store that can be away."""

    problem = None

    def swap(self, name, expected, content):
        if self.problem is not None:
            raise self.problem
        return super().swap(name, expected, content)


class Ticks:
    """A monotonic clock that moves while one sleeps."""

    def __init__(self, on_sleep=lambda: None):
        self.now, self._on_sleep = 1000.0, on_sleep

    def sleep(self, seconds):
        self.now += seconds
        self._on_sleep()

    def take(self, store, **given):
        return acquire(store, **{"term": TERM, "sleep": self.sleep, "monotonic": lambda: self.now, **given})


def record(**changes):
    """The lease of a process on another machine."""
    process = ProcessIdentity(host="elsewhere", boot="other", namespace="n", pid=7, started="1")
    given = {"token": 4, "owner": "o", "process": process, "term": TERM, "renewed_at": time.time()}
    return LeaseRecord(**{**given, **changes})


def stored(store):
    return decode_lease(store.read(LEASE))


def until(holds, seconds=10.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited too long"
        time.sleep(0.005)


# Taking, keeping and giving back.


def test_a_free_lease_is_taken_at_once_and_given_back(held):
    store = MemoryStore()
    lease = held(store)
    lease.check()
    assert (lease.token, lease.lost, stored(store).process) == (1, None, this_process())
    lease.release()
    assert stored(store).is_released
    with pytest.raises(Fenced, match="given back"):
        lease.check()


def test_the_token_always_rises(held):
    store = MemoryStore()
    tokens = []
    for above in (0, 0, 10, 3):
        lease = held(store, token_above=above)
        tokens.append(lease.token)
        lease.release()
    assert tokens == [1, 2, 11, 12]


def test_a_lease_is_renewed_by_itself(held):
    store = MemoryStore()
    lease = held(store, term=60)
    until(lambda: stored(store).beat >= 3)
    lease.check()
    assert stored(store).owner == lease._record.owner


def test_a_lease_that_was_given_back_is_not_renewed(held):
    store = MemoryStore()
    lease = held(store, term=30)
    lease.release()
    before = store.read(LEASE)
    assert not lease._thread.is_alive()
    lease._renew()
    lease.release()
    assert store.read(LEASE) == before


def test_giving_back_does_not_hide_what_ended_the_run():
    store = Outage()
    lease = acquire(store, term=60_000)
    store.problem = ExternalFailure("the store is away")
    lease.release()
    assert not stored(store).is_released


# Other owners.


def test_a_live_owner_is_left_alone_and_named(tmp_path):
    other = OtherProcess(tmp_path, term=3000)
    began = time.monotonic()
    with pytest.raises(CheckpointRefused) as caught:
        acquire(LocalStore(tmp_path), term=TERM)
    assert time.monotonic() - began < 5
    assert caught.value.code == "CKPT-021"
    assert f"process {other._process.pid}" in caught.value.found
    assert f"token {other.token}" in caught.value.found
    assert other.ask("check") == "ok"
    other.end()


def test_the_refusal_comes_with_the_next_renewal_not_after_the_term():
    store = MemoryStore()
    store.create(LEASE, encode_lease(record(term=15_000)))

    def renew():
        found = store.read(LEASE)
        store.swap(LEASE, found, encode_lease(msgspec.structs.replace(decode_lease(found), beat=1)))

    ticks = Ticks(on_sleep=renew)
    with pytest.raises(CheckpointRefused, match="CKPT-021"):
        ticks.take(store, term=15_000)
    assert ticks.now - 1000.0 <= 0.5


def test_an_owner_that_died_on_this_machine_is_replaced_at_once(tmp_path, held):
    store = LocalStore(tmp_path)
    other = OtherProcess(tmp_path, term=60_000)
    other.signal(signal.SIGKILL)
    began = time.monotonic()
    lease = held(store, term=60_000)
    assert time.monotonic() - began < 5, "a term of a minute is not waited for"
    assert lease.token == other.token + 1
    other.end()


def test_an_owner_whose_process_nobody_collected_is_dead_too(tmp_path, held):
    other = OtherProcess(tmp_path, term=60_000)
    os.kill(other._process.pid, signal.SIGKILL)
    os.waitid(os.P_PID, other._process.pid, os.WEXITED | os.WNOWAIT)  # it stays as a zombie
    assert held(LocalStore(tmp_path)).token == other.token + 1
    other.end()


def test_a_stopped_owner_is_replaced_after_its_term_and_can_write_nothing_when_it_wakes(tmp_path, other, held):
    store = LocalStore(tmp_path)
    assert other.ask("0") == "ok"
    other.signal(signal.SIGSTOP)
    began = time.monotonic()
    lease = held(store)
    assert time.monotonic() - began >= TERM / 1000
    keeper = HeadKeeper(store)
    keeper.move(Head(job="j", lineage="l", token=lease.token, epoch=0, manifest="m"))
    other.signal(signal.SIGCONT)
    assert other.ask("1").startswith("fenced [CKPT-020] another owner took over this checkpoint")
    assert other.ask("check").startswith("fenced [CKPT-020] another owner took over this checkpoint")
    keeper.move(Head(job="j", lineage="l", token=lease.token, epoch=1, manifest="m"))
    lease.check()
    assert HeadKeeper(store).current.token == lease.token > other.token


def test_a_stopped_owner_that_nobody_replaced_goes_on(tmp_path, other):
    other.signal(signal.SIGSTOP)
    silent = LocalStore(tmp_path).read(LEASE)
    time.sleep(TERM / 1000 * 1.2)
    assert LocalStore(tmp_path).read(LEASE) == silent
    other.signal(signal.SIGCONT)
    assert other.ask("check") == "ok"
    assert other.ask("0") == "ok"


def test_a_silent_owner_elsewhere_is_watched_for_its_own_term():
    store = MemoryStore()
    store.create(LEASE, encode_lease(record(term=9000)))
    ticks = Ticks()
    lease = ticks.take(store)
    assert 9.0 <= ticks.now - 1000.0 < 9.5
    assert lease.token == 5
    lease.release()


def test_one_of_many_challengers_wins(held):
    store = MemoryStore()
    store.create(LEASE, encode_lease(record()))
    won, refused, start = [], [], threading.Barrier(8)

    def challenge():
        start.wait()
        try:
            won.append(held(store, term=60_000))
        except CheckpointRefused as problem:
            refused.append(problem.code)

    threads = [threading.Thread(target=challenge) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    # The winner lives, in this very process; the others see a lease that changed hands while they watched.
    assert (len(won), refused) == (1, ["CKPT-021"] * 7)
    assert (won[0].token, stored(store).owner) == (5, won[0]._record.owner)


def test_a_lost_reply_to_taking_the_lease_is_resolved_by_reading(held, monkeypatch):
    store = MemoryStore()
    swap = store.swap
    monkeypatch.setattr(store, "swap", lambda *given: swap(*given) and False)
    lease = held(store)
    assert stored(store).owner == lease._record.owner
    lease._renew()
    assert (lease.lost, stored(store).beat) == (None, 1)


def test_an_owner_that_was_replaced_learns_it_by_itself():
    store = MemoryStore()
    lease = acquire(store, term=60)
    mine = store.read(LEASE)
    while not store.swap(LEASE, mine, encode_lease(record(token=9))):
        mine = store.read(LEASE)
    until(lambda: lease.lost is not None)
    with pytest.raises(Fenced) as caught:
        lease.check()
    assert (caught.value.found, caught.value.known) == ("token 1", "token 9")
    lease.release()
    assert stored(store).token == 9, "what belongs to another is not given back"


def test_a_lease_that_was_damaged_or_removed_is_lost():
    for content in (None, b"{"):
        store = MemoryStore()
        lease = acquire(store, term=60_000)
        found = store.read(LEASE)
        store.delete(LEASE) if content is None else store.swap(LEASE, found, content)
        lease._renew()
        with pytest.raises((Fenced, CheckpointRefused)):
            lease.check()
        lease.release()


# Outages and clocks.


@pytest.mark.parametrize("problem", [ExternalFailure("away"), OSError(28, "No space left on device")])
def test_an_outage_is_tolerated_until_two_thirds_of_the_term(held, monkeypatch, problem):
    store = Outage()
    lease = held(store, term=60_000)
    store.problem = problem
    began, now = lease._renewed, {"is": lease._renewed}
    monkeypatch.setattr(lease_module.time, "monotonic", lambda: now["is"])
    now["is"] = began + 39.9
    lease.check()
    now["is"] = began + 40.1
    with pytest.raises(type(problem)):
        lease.check()
    store.problem = None
    lease.check()
    assert (lease.lost, lease._renewed) == (None, now["is"])


@pytest.mark.parametrize("problem", [ExternalFailure("away"), OSError(28, "No space left on device")])
def test_renewing_goes_on_after_an_outage(held, problem):
    store = Outage()
    lease = held(store, term=60)
    store.problem = problem
    before = store.read(LEASE)
    time.sleep(0.08)
    assert store.read(LEASE) == before
    store.problem = None
    until(lambda: store.read(LEASE) != before)
    lease.check()


def test_what_counts_is_when_the_renewal_was_sent(held, monkeypatch):
    """A process may be stopped between sending and noting: the term began when it sent."""
    store = MemoryStore()
    real = time.monotonic
    offset = {"is": 0.0}
    swap = store.swap
    monkeypatch.setattr(lease_module.time, "monotonic", lambda: real() + offset["is"])

    def slow(*given):
        done = swap(*given)
        offset["is"] += 100.0
        return done

    monkeypatch.setattr(store, "swap", slow)
    lease = held(store, term=60_000)
    assert real() + offset["is"] - lease._renewed >= 100.0
    lease._renew()
    assert real() + offset["is"] - lease._renewed >= 100.0


@pytest.mark.parametrize("jump", [-86_400.0, -600.0, 30.0])
def test_a_clock_that_jumps_does_not_cost_a_live_owner_its_lease(held, monkeypatch, jump):
    store = MemoryStore()
    lease = held(store, term=900)
    monkeypatch.setattr(lease_module.time, "time", lambda real=time.time: real() + jump)
    if jump == 30.0:
        lease._renew()  # its own clock jumped as well
    with pytest.raises(CheckpointRefused, match="CKPT-021"):
        acquire(store, term=900)
    lease.check()


def test_a_challenger_with_a_clock_far_ahead_is_refused(held, monkeypatch):
    """Clocks of two machines are not compared: the lease is watched, and it moves."""
    store = MemoryStore()
    first = held(store, term=900)
    monkeypatch.setattr(lease_module.time, "time", lambda real=time.time: real() + 86_400.0)
    with pytest.raises(CheckpointRefused, match="CKPT-021"):
        acquire(store, term=900)
    first.check()


# Who a process is.


def test_a_process_knows_itself_and_others():
    me = this_process()
    assert not me.is_gone
    assert (me.pid, bool(me.boot), bool(me.started)) == (os.getpid(), True, True)
    assert msgspec.structs.replace(me, started="1").is_gone, "another process had this number before"
    assert not msgspec.structs.replace(me, boot="another machine", pid=1, started="x").is_gone
    assert not msgspec.structs.replace(me, namespace="pid:[1]", started="x").is_gone
    assert not msgspec.structs.replace(me, started="").is_gone


def test_a_damaged_lease_is_refused():
    store = MemoryStore()
    store.create(LEASE, encode_lease(record())[:-3])
    with pytest.raises(CheckpointRefused) as caught:
        acquire(store, term=TERM)
    assert caught.value.code == "CKPT-003"


# Claims: whoever gives runs away numbers that.


def test_a_later_claim_takes_the_lease_of_a_live_owner_at_once(held):
    store, clock = MemoryStore(), Ticks()
    first = held(store, claim=3)
    second = clock.take(store, claim=4)
    try:
        assert clock.now == 1000.0  # nobody was watched
        assert (second.token, decode_lease(store.read(LEASE)).claim) == (first.token + 1, 4)
        first._renew()
        with pytest.raises(Fenced, match="CKPT-020"):
            first.check()
    finally:
        second.release()


def test_an_earlier_claim_comes_too_late_even_when_the_lease_is_free(held):
    store = MemoryStore()
    held(store, claim=4).release()
    before = store.read(LEASE)
    with pytest.raises(Fenced, match=r"given to another.*claim 3.*claim 4"):
        acquire(store, term=TERM, claim=3)
    assert store.read(LEASE) == before
    held(store, claim=4).release()
    held(store)  # a person may take what is free


@pytest.mark.parametrize(("mine", "stored"), [(4, 4), (4, 0), (0, 4)])
def test_without_a_later_claim_a_live_owner_is_left_alone(held, mine, stored):
    store = MemoryStore()
    first = held(store, claim=stored)
    clock = Ticks(first._renew)
    with pytest.raises(CheckpointRefused, match="CKPT-021"):
        clock.take(store, claim=mine)
    assert first.lost is None


def test_the_claim_stays_when_the_lease_is_renewed_and_given_back(held):
    store = MemoryStore()
    first = held(store, claim=9)
    first._renew()
    assert decode_lease(store.read(LEASE)).claim == 9
    first.release()
    assert decode_lease(store.read(LEASE)).claim == 9


def test_a_record_of_an_earlier_version_has_no_claim():
    fields = {name: value for name, value in msgspec.to_builtins(record()).items() if name != "claim"}
    assert decode_lease(seal(fields, format=FORMAT)).claim == 0
