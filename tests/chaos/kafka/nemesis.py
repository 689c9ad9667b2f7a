"""The faults of a broker. Each takes a round whose job does not run, starts it, breaks something, and leaves it ended again."""

import signal
import time

from confluent_kafka import TopicPartition
from tests.chaos.kafka.world import PARTITIONS, TRANSACTION_SECONDS
from tests.chaos.nemesis import await_stop, nth, passes, replaced_while_stopped
from tests.chaos.process import await_true
from tests.chaos.round import Anomaly
from tests.chaos.workload import SOURCES

_END_TRANSACTION = 26
_STEP_FAILED_EXIT = 13
_LEASE, _LONG_LEASE = 4_000, 60_000
"""Longer than the looks at a process that stopped where it was not meant to; longer than a transaction."""


def is_commit(data):
    """Whether a request of the protocol ends a transaction."""
    return int.from_bytes(data[4:6], "big") == _END_TRANSACTION


# The broker and the way to it.


def restart_broker(round_):
    """`kill -9` of the broker while epochs run: the job waits for the next one and goes on by itself."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    time.sleep(round_.random.uniform(0, 0.5))
    round_.broker.kill()
    time.sleep(round_.random.uniform(0, 2))
    round_.broker.start()
    _await_topics(round_)
    round_.sometimes.add("broker restart")
    round_.history.note("restart the broker", "ok")
    round_.await_epochs(process, 2)
    round_.killed(process, "kill after the restart of the broker")


def restart_broker_and_job(round_):
    """The job is killed while the broker is away, and started before it is back."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    round_.broker.kill()
    round_.killed(process, "kill while the broker is away")
    round_.broker.launch()
    process = round_.start()
    await_true(round_.broker.answers, round_.patience, "the start of the broker")
    _await_topics(round_)
    round_.sometimes.add("started before the broker")
    round_.await_epochs(process, 2)
    round_.killed(process, "kill after the start of the broker")


def _await_topics(round_):
    for topic in round_.config["broker"]["topics"].values():
        round_.broker.await_leaders(topic, PARTITIONS)


def pause_broker(round_):
    """The broker stands still: nothing is refused, nothing is answered."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    round_.broker.pause()
    time.sleep(round_.random.uniform(1, 5))
    round_.broker.resume()
    _await_topics(round_)
    round_.sometimes.add("broker pause")
    round_.await_epochs(process, 2)
    round_.killed(process, "kill after a pause of the broker")


def lose_commit_reply(round_):
    """A transaction is committed and its owner does not hear of it; then all connections are cut."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    round_.broker.proxy.lose_reply_to(is_commit)
    if not round_.broker.proxy.lost.wait(round_.patience):
        raise Anomaly("no end of a transaction passed the proxy")
    round_.await_epochs(process, 2)
    round_.broker.proxy.cut()
    round_.await_epochs(process, 2)
    round_.sometimes.add("lost reply to a Kafka commit")
    round_.killed(process, "kill after a lost reply to a Kafka commit")


def lose_commit_reply_and_die(round_):
    """The same, and the owner dies before it could ask: the next one finds the epoch published."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    round_.broker.proxy.lose_reply_to(is_commit)
    if not round_.broker.proxy.lost.wait(round_.patience):
        raise Anomaly("no end of a transaction passed the proxy")
    round_.killed(process, "kill with a lost reply to a Kafka commit")
    process = round_.start()
    round_.await_epochs(process, 2)
    round_.sometimes.add("died with a lost reply")
    round_.killed(process, "kill after a lost reply to a Kafka commit")


def late_commit(round_):
    """A commit is held on its way, and comes in long after its owner went on or was followed by another."""
    round_.feed(10)
    process = round_.start()
    round_.await_epochs(process, 1)
    round_.broker.proxy.hold(is_commit)
    if not round_.broker.proxy.lost.wait(round_.patience):
        raise Anomaly("no end of a transaction passed the proxy")
    if round_.random.randrange(2):
        round_.killed(process, "kill with a held Kafka commit")
        process = round_.start()
    round_.await_epochs(process, 1)
    round_.broker.proxy.release()
    round_.sometimes.add("late Kafka commit")
    round_.await_epochs(process, 2)
    round_.killed(process, "kill after a late Kafka commit")


# Owners that stand still.


def outlive_transaction(round_):
    """SIGSTOP inside a transaction until the broker has ended it; nobody else comes; SIGCONT: the epoch is sent again."""
    round_.feed(8)
    # Short, for the pause lasts longer.
    round_.config["broker"]["transaction_timeout"] = "2s"
    process = _stopped_in_transaction(round_, lease_term=_LONG_LEASE)
    round_.config["broker"]["transaction_timeout"] = f"{TRANSACTION_SECONDS}s"
    since = round_.progress()
    await_true(lambda: not round_.outputs.open_transactions(), 60, "the end of the transaction by the broker")
    _wake(round_, process)
    round_.sometimes.add("transaction outlived")
    round_.await_epochs(process, 2, since=since)
    # The lease is a long one: it ends in order, so that the next owner need not wait for it.
    round_.ask("cancel", f"c{len(round_.history.entries)}")
    code = process.wait(round_.patience)
    if code != 0:
        raise Anomaly(f"cancelled, the job ended with {code}: {process.end}")
    round_.history.note("outlive a transaction", "ok", epochs=round_.progress())


def takeover_in_transaction(round_):
    """SIGSTOP inside a transaction beyond the lease; another owner runs; SIGCONT."""
    round_.feed(8)
    process = _stopped_in_transaction(round_, lease_term=_LEASE)
    round_.sometimes.add("replaced in a Kafka transaction")
    replaced_while_stopped(round_, process, "sink_transaction")


def _stopped_in_transaction(round_, *, lease_term):
    """A process that stands still in a transaction of the broker. Databases pass the same place, and are let go on."""
    first, often = nth(round_, "sink_transaction"), passes(round_, "sink_transaction")
    usual, round_.config["lease_term"] = round_.config["lease_term"], lease_term
    process = round_.start(",".join(f"sink_transaction:{first + more}:stop" for more in range(often)))
    round_.config["lease_term"] = usual
    while True:
        await_stop(round_, process)
        if round_.outputs.open_transactions():
            return process
        round_.pauses -= 1
        process.signal(signal.SIGCONT)
        await_true(lambda: not process.is_stopped, round_.patience, "the end of a pause")


def _wake(round_, process):
    """Let it go on, wherever it stops again: the armed places are those of one epoch, which may begin in the middle of one."""
    since = round_.progress()
    round_.feed(8)

    def is_on():
        if process.is_stopped:
            process.signal(signal.SIGCONT)
        return process.code is not None or round_.progress() > since + 2

    await_true(is_on, round_.patience, "epochs after the pause")


# Records that are gone.


def expire(round_):
    """Records are deleted before they are read: an error that says which; skipped and counted where that is accepted."""
    round_.feed(4)
    source, partition = round_.random.choice(SOURCES), round_.random.randrange(PARTITIONS)
    at, end = round_.position(source).get(partition, 0), round_.workload.end(source, partition)
    first = round_.random.randrange(at + 1, end)
    place = TopicPartition(round_.workload.topics[source], partition, first)
    next(iter(round_.broker.admin.delete_records([place]).values())).result(30)
    _refused(round_, "records were deleted")
    lost = round_.workload.forget(source, partition, at, first)
    _skipped(round_, "expired records", source, lost)


def recreate(round_):
    """A topic is deleted and made anew: an error; where it is accepted, the new one is read from its beginning."""
    round_.feed(4)
    source = round_.random.choice(SOURCES)
    for partition in range(PARTITIONS):
        at = round_.position(source).get(partition, 0)
        round_.workload.forget(source, partition, at, round_.workload.end(source, partition))
    round_.workload.renew(source)
    # As many as before, so that no offset looks wrong.
    round_.workload.drip(round_.random.choice([1, 4, 40]))
    _refused(round_, "topic recreated")
    _skipped(round_, "topic recreated", source, None)


def _refused(round_, what):
    since = round_.progress()
    process = round_.start()
    code = process.wait(round_.patience)
    if code != _STEP_FAILED_EXIT or process.end.get("code") != "KAFKA-013":
        raise Anomaly(f"{what}: the job ended with {code}: {process.end}")
    if round_.progress() != since:
        raise Anomaly(f"{what}: {round_.progress() - since} epochs before the refusal")


def _skipped(round_, what, source, lost):
    since = round_.progress()
    round_.config["broker"]["on_data_loss"] = "skip"
    process = round_.start()
    round_.config["broker"]["on_data_loss"] = "fail"
    round_.await_epochs(process, 2, since=since)
    round_.skipped[source] = round_.skipped.get(source, 0) + (lost or 0)
    round_.sometimes.add(what)
    round_.history.note(what, "ok", source=source, lost=lost)
    round_.killed(process, f"kill after {what}")


FAULTS = {
    "restart the broker": restart_broker,
    "restart broker and job": restart_broker_and_job,
    "pause the broker": pause_broker,
    "lose a Kafka reply": lose_commit_reply,
    "lose a Kafka reply and die": lose_commit_reply_and_die,
    "late Kafka commit": late_commit,
    "late Kafka commit again": late_commit,
    "outlive a transaction": outlive_transaction,
    "outlive a transaction again": outlive_transaction,
    "expire records": expire,
    "recreate a topic": recreate,
    **{f"take over in a transaction {number}": takeover_in_transaction for number in range(3)},
}
