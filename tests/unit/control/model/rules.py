"""What can happen in the model: every step is drawn from what can happen now, so that few steps do nothing."""

import contextlib
import itertools

from tests.unit.control.model.world import JOBS, Crashed

from millstream.control.act import acting
from millstream.control.dispatcher.starting import StartOptions, start
from millstream.control.dispatcher.stopping import Wish, run_of, stop
from millstream.control.lifecycle.states import OPEN
from millstream.control.nodes.registration import set_state
from millstream.control.refusals import StateConflict, UnknownName
from millstream.driver.service.renewals import Standing
from millstream.errors import ExternalFailure

WAITS = (1, 4, 6, 11, 16, 40)
CRASHES = ("node_claimed", "node_launched", "node_renewed", "node_reported", "claimed")
ENDINGS = {"cancel": "CANCELLED", "drain": "COMPLETED", "suspend": "SUSPENDED"}
_triggers = itertools.count()


def chosen(world, number):
    """What a number means now: a kind by its weight, then one of those who can do it."""
    kinds = [kind for kind in _KINDS if kind != "driver" or any(each.drivers.living() for each in world.machines)]
    kind = kinds[number % len(kinds)]
    acts = _BY_KIND[kind](world)
    return acts[number // 1000 % len(acts)]


_KINDS = ("driver",) * 8 + ("node",) * 8 + ("time",) * 3 + ("sweep",) * 3 + ("people",) * 2 + ("fault",) * 3


def _time(world):
    found = [(f"wait {seconds}", lambda seconds=seconds: world.forward(seconds)) for seconds in WAITS]
    return found + [(f"{each.name} sleeps", lambda each=each: _sleep(world, each)) for each in world.machines] * 2


def _sweep(world):
    return [(f"sweep {number}", each.round) for number, each in enumerate(world.sweepers)]


def _people(world):
    found = [(f"start {job}", lambda job=job: _start(world, job)) for job in JOBS]
    found += [("cancel by an old view", lambda seen=seen: _stop_as_seen(world, seen)) for seen in world.seen]
    for row in world.select("SELECT execution_id, status FROM pipeline_job_execution"):
        if row["status"] in OPEN:
            found += [(mode, lambda row=row, mode=mode: _stop(world, row, mode)) for mode in ("cancel", "drain")]
    return found


def _nodes(world):
    found = []
    for machine in world.machines:
        found += _of_machine(world, machine)
    return found


def _drivers(world):
    living = [driver for machine in world.machines for driver in machine.drivers.living()]
    late = [each for each in living if each.checked and each.spec.token != each.sink.claim]
    return [("driver", lambda driver=driver: _driver(world, driver)) for driver in [*living, *late * 5]]


def _faults(world):
    if world.metadata.away:
        return [("database is back", lambda: _turn(world))]
    found = [("database goes", lambda: _turn(world)), ("dispatcher restarts", world.sweepers[0].restart)]
    found += [(f"lose reply {number}", lambda number=number: _lose(world, number)) for number in (0, 1, 2)]
    for machine in world.machines:
        living = machine.drivers.living()
        found += [(f"driver of {machine.name} dies", lambda driver=each: _die(driver)) for each in living[:1]]
        if machine.node is not None:
            found += _of_process(world, machine)
    return found


def _of_process(world, machine):
    name = machine.name
    return [
        (f"{name} crashes", lambda: _crash(world, machine)),
        (f"{name} crashes", lambda: _crash(world, machine)),
        (f"{name} restarts", machine.start),
        (f"{name} burns", lambda: _burn(world, machine)),
        (f"{name} drains", lambda: _set_state(world, name, "DRAINING")),
        (f"{name} is back", lambda: _set_state(world, name, "ACTIVE")),
    ]


def _of_machine(world, machine):
    if machine.node is None:
        return [(f"{machine.name} comes back", machine.start)]
    node, name = machine.node, machine.name
    return [
        (f"{name} claims", lambda: _part(world, machine, node._claim)),
        (f"{name} renews", lambda: _renew(world, machine)),
        (f"{name} writes", lambda: _part(world, machine, node._write_reports)),
        (f"{name} asks", lambda: _part(world, machine, node._ask)),
        (f"{name} watches", lambda: _part(world, machine, node._watch)),
    ]


_BY_KIND = {"driver": _drivers, "node": _nodes, "time": _time, "sweep": _sweep, "people": _people, "fault": _faults}


def _sleep(world, machine):
    """One machine stands still past its lease, one driver of it between look and write, while another takes over."""
    for driver in machine.drivers.living()[:1]:
        if driver.next is not None and driver.standing is Standing.HELD:
            driver.checked = True
    for _ in range(3):
        world.forward(6)
        for other in world.machines:
            if other is not machine and other.node is not None:
                _renew(world, other)
        world.sweepers[1].round()
    for other in world.machines:
        if other is not machine and other.node is not None:
            _part(world, other, other.node._claim)
            for driver in other.drivers.living():
                if driver.next is None:
                    _begin(world, driver)


def _die(driver):
    driver.is_alive = False


def _part(world, machine, work):
    """A part of a node's round; a database that is away ends it, as it ends the round."""
    machine.hear()
    with contextlib.suppress(ExternalFailure):
        work()


def _renew(world, machine):
    before = {row["name"]: tuple(row) for row in world.select("SELECT name, owner, token, expires_at FROM lease")}
    held = {owned.lease: owned.token for owned in machine.node.runs().values()}
    _part(world, machine, machine.node._renew)
    for row in world.select("SELECT name, owner, token, expires_at FROM lease"):
        name, owner, token, _ = before.get(row["name"], (row["name"], machine.name, row["token"], None))
        if (
            row["expires_at"] != before.get(row["name"], (0, 0, 0, None))[3]
            and row["token"] == token
            and owner is not None
        ):
            assert owner == machine.name, f"{machine.name} renewed the lease of {owner}"
            assert held.get(name, token) == token, (
                f"{machine.name} renewed with token {held[name]}, the lease has {token}"
            )


def _crash(world, machine):
    """A round of a process that ends at one of its failpoints; another one starts later."""
    world.crash_at = CRASHES[int(world.seconds) % len(CRASHES)]
    machine.hear()
    try:
        machine.node.round()
    except Crashed as crash:
        world.counts[f"crash at {crash}"] += 1
    world.crash_at = None
    machine.node = None


def _burn(world, machine):
    """The whole machine ends."""
    for driver in machine.drivers.living():
        driver.is_alive = False
    machine.node = None


def _turn(world):
    world.metadata.away = not world.metadata.away
    if world.metadata.away:
        for sweeper in world.sweepers:
            sweeper.round()


def _lose(world, number):
    world.metadata.lost_reply = number


def _act(world, work):
    with contextlib.suppress(ExternalFailure, StateConflict, UnknownName), acting(world.metadata, "ada") as act:
        work(act)


def _set_state(world, name, state):
    _act(world, lambda act: set_state(act, name, state))


def _start(world, job):
    _act(world, lambda act: start(act, job, StartOptions(), trigger=f"t{next(_triggers)}"))


def _stop(world, row, mode):
    _act(world, lambda act: stop(act, run_of(act, row["execution_id"]), Wish(mode)))


def _stop_as_seen(world, seen):
    """Somebody looked at a run a while ago, and acts on what it was then."""
    _act(world, lambda act: stop(act, seen, Wish("cancel")))


def _driver(world, driver):
    """The next thing that a driver does: it takes its checkpoint, says that it runs, does as asked, or publishes."""
    if driver.standing is Standing.ORPHANED:
        driver.ends("CANCELLED")
    elif driver.next is None:
        _begin(world, driver)
    elif driver.wishes:
        driver.ends(ENDINGS[driver.wishes[-1]])
    elif driver.checked:
        _publish(world, driver)
    elif driver.standing is not Standing.HELD:
        world.counts["self-fence"] += 1
    else:
        driver.checked = True  # it may fall asleep here, between the look and the write


def _begin(world, driver):
    driver.next = driver.sink.take(driver.spec.token)
    if driver.next is None:
        world.counts["came too late"] += 1
        driver.is_alive = False
    else:
        driver.runs()


def _publish(world, driver):
    driver.checked = False
    if driver.sink.write(driver.spec.token, driver.next):
        driver.epoch(driver.next)
        driver.next += 1
        world.counts["epoch"] += 1
    else:
        world.counts["stale write"] += 1
        driver.is_alive = False
