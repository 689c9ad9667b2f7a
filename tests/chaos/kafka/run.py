"""Rounds between topics: a broker and a database behind proxies, and the deck of their faults."""

import functools

from tests.chaos import nemesis, spark_nemesis
from tests.chaos.kafka.nemesis import FAULTS
from tests.chaos.kafka.world import KafkaRound
from tests.chaos.run import Chaos
from tests.servers.kafka import KafkaServer

SINKS = ("files", "postgres", "outbox")
_SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500"}


class KafkaChaos(Chaos):
    """Rounds whose job reads from Kafka and writes to Kafka and PostgreSQL."""

    world = "kafka"

    def _open_servers(self):
        super()._open_servers()
        self.broker = KafkaServer(proxied=True, settings=_SETTINGS)
        self._open.callback(self.broker.stop)
        self.broker.start()

    def _deck(self, engine):
        places = (*nemesis.EPOCH_PLACES, *nemesis.START_PLACES)
        if engine == "spark":
            places = [place for place in places if place != "task_staged"]
        kills = {f"kill at {place}": functools.partial(nemesis.kill_at, place=place) for place in places}
        if engine == "spark":
            return kills | spark_nemesis.FAULTS
        takeovers = {
            f"take over at {place}": functools.partial(nemesis.takeover_at, place=place)
            for place in nemesis.TAKEOVER_PLACES
        }
        others = {
            "kill at random": nemesis.kill_random,
            "kill at random again": nemesis.kill_random,
            "burst of kills": nemesis.burst,
            "take over at random": nemesis.takeover_random,
            "two owners": nemesis.two_owners,
            "restart PostgreSQL": nemesis.restart_postgres,
            "lose a reply": nemesis.lose_commit_reply,
        }
        return kills | takeovers | others | FAULTS

    def _new_round(self, folder, seed, **world):
        return KafkaRound(folder, seed, self.broker, **world)

    def _wanted(self):
        if self.engine != "local":
            return set()
        return {
            "broker restart", "started before the broker", "broker pause", "lost reply to a Kafka commit",
            "died with a lost reply", "late Kafka commit", "transaction outlived", "replaced in a Kafka transaction",
            "expired records", "topic recreated", "fence refusal", "second owner refused", "database restart",
            "lost reply to COMMIT",
        }  # fmt: skip
