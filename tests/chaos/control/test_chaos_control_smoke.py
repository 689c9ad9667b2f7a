"""A short run of the harness: every kind of fault, on the local engine; and that it would notice."""

import pytest
from tests.chaos.control.jobs import ChaosJob
from tests.chaos.control.run import ControlChaos, is_clean

import millstream as ms

pytestmark = pytest.mark.chaos
DECK = {
    "node kill": 3,
    "driver kill": 4,
    "dispatcher kill": 2,
    "database kill": 1,
    "node pause": 1,
    "driver pause": 2,
    "dispatcher pause": 1,
}


def test_a_service_under_every_kind_of_fault(tmp_path_factory):
    folder = tmp_path_factory.mktemp("control")
    folder.chmod(0o755)
    for parent in folder.parents[:2]:
        parent.chmod(0o755)  # PostgreSQL runs as another user
    table = ControlChaos(folder, seed=3, deck=DECK, endless=2).run(60)
    assert table["faults"] == DECK
    assert is_clean(table), table


def test_the_harness_would_notice(tmp_path):
    """Rows that are lost or doubled are counted, in both outputs."""
    job = ChaosJob("numbers", tmp_path, rows=100)
    made = ms.Job("made")
    rows = [{"value": each} for each in [*range(99), 5]]
    made.source("s", ms.memory(rows), schema="value long").sink("o", ms.files(tmp_path / "all"))
    made.run(local=True)
    assert job.judged() == {"lost": 1 + 100, "doubled": 1, "rows": 100}
