"""The requests of a run: what one thread answers while another looks at them."""

import threading

import pytest

from millstream.api.running.control import RequestBox, RunControl, checked_request, request_ids
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.errors import ExternalFailure
from millstream.jobmaster.requests import Requests
from millstream.plan.epoch import EpochPlan

PATIENCE = 10.0


class Still:
    """A planner that plans nothing."""

    def drain(self):
        pass

    def hold(self):
        pass


class WatchedWhileRead(dict):
    """Open requests; between two of them `meanwhile` runs."""

    def __init__(self, content, meanwhile):
        super().__init__(content)
        self._meanwhile = meanwhile

    def values(self):
        for place, value in enumerate(super().values()):
            if place:
                self._meanwhile()
            yield value


@pytest.fixture
def asked(tmp_path):
    """A run with two open requests: for a native savepoint, and to drain."""
    control = RunControl()
    requests = Requests(MemoryStore(), control, Still(), tmp_path)
    native = control.ask("savepoint", form="native", id="copied")
    requests.poll()
    drain = control.ask("drain", id="drained")
    requests._open["drained"] = drain
    assert requests.native is native
    return requests, native, drain


def done(requests, pending):
    requests.savepoint_done(pending, "somewhere")


def failed(requests, pending):
    requests.savepoint_failed(pending, ExternalFailure("the disk is full"))


@pytest.mark.parametrize("answer", [done, failed])
def test_a_savepoint_is_answered_while_no_other_thread_looks_at_the_requests(asked, answer):
    """The epoch that ends the run is finished by one thread, the copy of a native savepoint by another."""
    requests, native, drain = asked
    answering = threading.Thread(target=answer, args=(requests, native), daemon=True)

    def meanwhile():
        # Without the lock the other thread takes its request out right here; with it, it waits for the end of the epoch.
        answering.start()
        answering.join(0.3)

    requests._open = WatchedWhileRead(requests._open, meanwhile)
    requests.epoch_done(EpochPlan(epoch=3, now=0, sources={}, terminal=True))
    assert drain.wait(PATIENCE).done
    assert native.wait(PATIENCE).done == (answer is done)
    answering.join(PATIENCE)
    assert (requests.native, dict(requests._open), requests.ended) == (None, {}, "drained")


def left(store, action, identifier):
    RequestBox(store).put(checked_request(action, id=identifier))


def test_a_cancel_that_was_left_before_the_run_was_for_the_one_before(tmp_path):
    store = MemoryStore()
    left(store, "cancel", "early")
    requests = Requests(store, RunControl(), Still(), tmp_path, request_ids(store))
    requests.poll()
    assert requests.ended is None
    assert RequestBox(store).answer("early").done


def test_a_cancel_that_came_while_the_run_started_ends_it(tmp_path):
    store, control = MemoryStore(), RunControl()
    old = request_ids(store)
    left(store, "cancel", "meanwhile")
    requests = Requests(store, control, Still(), tmp_path, old)
    requests.poll()
    assert requests.ended == "cancelled"
    assert control.must_end, "and it is not started again by itself"


class Away(MemoryStore):
    """A store that keeps no answer."""

    def create(self, name, content):
        if name.startswith("answers/"):
            raise ExternalFailure("the store is away")
        return super().create(name, content)


def test_whoever_asked_in_this_process_is_answered_although_the_store_is_away(tmp_path):
    control = RunControl()
    requests = Requests(Away(), control, Still(), tmp_path)
    pending = control.ask("savepoint", form="native", id="copied")
    requests.poll()
    with pytest.raises(ExternalFailure):
        requests.savepoint_done(pending, "somewhere")
    assert pending.wait(PATIENCE).path == "somewhere"
