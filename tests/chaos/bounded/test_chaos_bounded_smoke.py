"""Jobs with an end are killed a few times: they go on where they were, and fetch nothing committed again."""

import pytest
from tests.chaos.bounded.run import BoundedRun, chaos
from tests.chaos.bounded.worlds import opened_world
from tests.chaos.process import Processes

pytestmark = pytest.mark.chaos
SEED, KILLS, ROWS = 5, 3, 120


@pytest.mark.parametrize("mode", ["http", "jdbc", pytest.param("kafka", marks=pytest.mark.kafka)])
def test_a_killed_job_with_an_end_goes_on(mode, tmp_path, request):
    servers = {"broker": request.getfixturevalue("kafka")} if mode == "kafka" else {}
    numbers = chaos(mode, tmp_path, SEED, KILLS, rows=ROWS, **servers)
    assert numbers["problems"] == [], numbers
    assert numbers["kills"] == KILLS


def test_the_harness_would_notice_a_page_that_is_fetched_again(tmp_path):
    """A start that has lost its checkpoint reads everything again."""
    processes = Processes()
    with opened_world("http") as world:
        try:
            played = BoundedRun(tmp_path, SEED, world, processes, rows=100)
            played._start("published:3:kill")
            played._config["checkpoint"] += "-lost"
            played._start("")
            played._compare()
        finally:
            processes.close()
    found = " ".join(played.problems)
    for text in ("pages were fetched again", "came through the job again", "durable rows came again", "I1 rows"):
        assert text in found
