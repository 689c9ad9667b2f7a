"""A short run between topics: an owner that dies in a transaction, and one that dies with a reply it never got."""

import pytest
from tests.chaos.invariants import check_all
from tests.chaos.kafka.run import KafkaChaos
from tests.chaos.run import Size
from tests.chaos.stores import DIRECTORY

pytestmark = [pytest.mark.chaos, pytest.mark.kafka]
SEED = 12


@pytest.fixture(scope="module")
def chaos(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chaos")
    with KafkaChaos(folder, seed=SEED, size=Size(rows_per_file=10), mounts=False) as running:
        yield running


def test_nothing_is_lost_or_doubled_between_topics(chaos):
    names = ["lose a Kafka reply and die", "kill at sink_transaction"]
    round_ = chaos.round(1, names, DIRECTORY)
    assert chaos.tally.problems == []
    assert round_.kills >= 4
    assert round_.sometimes >= {"died with a lost reply", "sink_transaction"}
    _would_notice(round_)


def _would_notice(round_):
    """What a broken sink would leave behind is planted: a message twice, a line never read, a loss not counted."""
    topic = round_.config["broker"]["topics"]["running"]
    twice = round_.broker.read(topic)[0]
    round_.broker.send(topic, [twice.value()])
    round_.workload.lines["b"].pop()
    round_.skipped["a"] = round_.skipped.get("a", 0) + 1
    found = " ".join(check_all(round_))
    for text in ("rows doubled", "rows foreign", "are counted"):
        assert text in found
