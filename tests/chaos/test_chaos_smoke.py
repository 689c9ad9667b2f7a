"""A short run of the chaos harness: kills at every failpoint, takeovers, savepoints, damage; and that it would notice."""

import pytest
from tests.chaos.damage import HOW
from tests.chaos.invariants import check_all
from tests.chaos.nemesis import EPOCH_PLACES, RESTORE_PLACES, SAVEPOINT_PLACES, START_PLACES
from tests.chaos.run import Chaos, Size
from tests.chaos.stores import DIRECTORY
from tests.servers.s3 import MISSING

pytestmark = pytest.mark.chaos
SEED = 20
SMALL = Size(rows_per_file=10)


@pytest.fixture(scope="module")
def chaos(tmp_path_factory):
    with Chaos(tmp_path_factory.mktemp("chaos"), seed=SEED, size=SMALL, mounts=False) as running:
        yield running


def clean(chaos, number, names, store=DIRECTORY):
    """Run a round of these faults; its problems carry the seed and the command that repeats it."""
    round_ = chaos.round(number, names, store)
    assert chaos.tally.problems == []
    return round_


def test_kills_at_every_place_of_an_epoch(chaos):
    round_ = clean(chaos, 1, [f"kill at {place}" for place in (*EPOCH_PLACES, *START_PLACES)])
    assert round_.kills >= 12
    assert round_.sometimes >= {*EPOCH_PLACES, *START_PLACES, "published by a later owner", "orphan clean-up"}


def test_the_harness_would_notice(chaos):
    """What a broken protocol would leave behind is planted, piece by piece."""
    round_ = clean(chaos, 6, ["kill at staged"])
    schema, execute = round_.config["schema"], chaos.server.execute
    (chaos.folder / "round-6" / "out" / "plain" / "part-00000001-0123456789-0-x.json").write_text("")
    execute(f"DELETE FROM {schema}.running WHERE source = 'a' AND seq = (SELECT min(seq) FROM {schema}.running)")
    execute(f"INSERT INTO {schema}.running SELECT * FROM {schema}.running WHERE source = 'b' LIMIT 1")
    execute(f"DELETE FROM {schema}.millstream_marker WHERE step = 'running' AND epoch = 1")
    execute(f"UPDATE {schema}.millstream_fence SET token = 0 WHERE step = 'bells'")
    round_.workload.lines["b"].pop()
    found = " ".join(check_all(round_))
    rows = ("rows lost", "rows doubled", "rows foreign", "EXCEPT ALL", "markers missing [1]")
    for text in (*rows, "I3", "I4", "I5", "I6"):
        assert text in found


def test_paused_owners_are_fenced(chaos):
    names = ["take over at staged", "take over at durable", "take over at leased", "two owners"]
    round_ = clean(chaos, 2, names)
    assert round_.takeovers == 3
    assert round_.sometimes >= {"fence refusal", "second owner refused"}


def test_kills_in_savepoints_and_restores(chaos):
    names = [f"savepoint killed at {place}" for place in SAVEPOINT_PLACES]
    round_ = clean(chaos, 3, [*names, *(f"restore killed at {place}" for place in RESTORE_PLACES)])
    assert round_.sometimes >= {*SAVEPOINT_PLACES, *RESTORE_PLACES}


def test_faults_of_the_surroundings(chaos):
    round_ = clean(chaos, 4, ["lose a reply", "restart PostgreSQL", "disk full at prepared", "limit files"])
    assert round_.sometimes >= {"lost reply to COMMIT", "database restart"}


@pytest.mark.parametrize("store", [DIRECTORY, "sqlite", "postgres", pytest.param("s3", marks=pytest.mark.s3)])
def test_a_lease_whose_replies_are_lost_is_kept(chaos, store):
    if store not in chaos.stores.kinds:
        pytest.skip(MISSING)
    number = 7 + ["directory", "sqlite", "postgres", "s3"].index(store)
    round_ = clean(chaos, number, ["lease unheard"], store)
    assert f"lease written unheard in {store}" in round_.sometimes


def test_damaged_heads_are_refused_or_mended(chaos):
    round_ = clean(chaos, 5, [f"damage: {how} head" for how in HOW])
    assert "damage refused" in round_.sometimes
