"""Starts in an order that nobody planned: kills, other words, other parameters, savepoints, suspends and drains between runs."""

from collections import Counter

import pytest
from tests.unit.runs.inputs import SCHEMA, FilesInput

import millstream as ms
from millstream.errors import CheckpointRefused, InvalidStep


@pytest.fixture
def data(tmp_path):
    return FilesInput(tmp_path / "files")


class Shop:
    """One job over growing files, with a result that is replaced and rows that are added."""

    def __init__(self, data, place, failpoints):
        self.data, self.place, self.failpoints = data, place, failpoints

    def job(self, carry="nothing", write="replace", **options):
        job = ms.Job("odd", rows_per_epoch=2, carry=carry, params={"least": {"type": "long", "default": 0}}, **options)
        rows = job.source("rows", self.data.connector(), schema=SCHEMA).filter("n >= :least")
        rows.sink("whole", ms.files(self.place / "whole", write=write))
        rows.sink("added", ms.files(self.place / "added"))
        return job

    def run(self, *, carry="nothing", write="replace", **options):
        options = {"checkpoint": self.place / "c", **options}
        return self.job(carry, write).run(local=True, **options)

    def killed(self, where, **options):
        self.failpoints(f"{where}:raise")
        with pytest.raises(ms.MillstreamError, match="failpoint"):
            self.run(**options)
        self.failpoints("")

    def whole(self):
        return sorted(ms.read_files(self.place / "whole").to_pydict().get("id", []))

    def added(self):
        return Counter(ms.read_files(self.place / "added").to_pydict().get("id", []))

    def suspended(self, **options):
        running = self.job().start(local=True, checkpoint=self.place / "c", **options)
        path = running.ask("suspend", id="half").wait(30).path
        running.wait(30)
        return path


@pytest.fixture
def shop(data, tmp_path, failpoints):
    return Shop(data, tmp_path, failpoints)


def test_another_carry_waits_for_the_run_that_was_killed(shop, data):
    shop.run()
    data.add(4)
    shop.killed("published:1")
    assert shop.whole() == list(range(1, 7))
    assert shop.run(carry="position").run == 2, "it is resumed, as it began: from the start"
    assert shop.whole() == list(range(1, 11))
    data.add(2)
    assert shop.run(carry="position").run == 3
    assert shop.whole() == [11, 12]
    assert shop.run(carry="state").run == 4
    assert shop.whole() == []
    assert shop.run(carry="nothing").run == 5
    assert shop.whole() == list(range(1, 13))


def test_other_parameters_make_another_result(shop, data):
    shop.run(params={"least": 4})
    assert shop.whole() == [4, 5, 6]
    shop.killed("published:1", params={"least": 2})
    with pytest.raises(CheckpointRefused) as refused:
        shop.run(params={"least": 5})
    assert refused.value.code == "CKPT-065"
    shop.run(params={"least": 2})
    assert shop.whole() == [2, 3, 4, 5, 6]


def test_a_run_that_is_given_up_leaves_the_result_before(shop, data):
    shop.run()
    data.add(4)
    shop.killed("published:2")
    shop.run(ignore_state_once=True, on_newer_output="keep")
    assert shop.whole() == list(range(1, 11))


def test_suspended_and_started_again_it_is_the_same_run(shop, data):
    shop.run()
    data.add(4)
    shop.suspended()
    assert shop.whole() == list(range(1, 7))
    assert shop.run(carry="position").run == 2
    assert shop.whole() == list(range(1, 11))
    assert shop.added() == Counter([*range(1, 7), *range(1, 11)])


@pytest.mark.parametrize("again", [False, True])
def test_a_savepoint_of_a_run_is_restored_elsewhere(shop, data, tmp_path, again):
    shop.run()
    data.add(4)
    savepoint = shop.suspended()
    if again:  # the run has ended meanwhile, and its result is shown
        shop.run()
        with pytest.raises(CheckpointRefused) as refused:
            shop.run(checkpoint=tmp_path / "d", from_savepoint=savepoint)
        assert refused.value.step == "added", "what replaces has nothing against it"
    result = shop.run(checkpoint=tmp_path / "d", from_savepoint=savepoint, on_newer_output="truncate")
    assert result.run == 2
    assert shop.whole() == list(range(1, 11))
    assert shop.added() == Counter([*range(1, 7), *range(1, 11)])
    data.add(1)
    shop.run(checkpoint=tmp_path / "d")
    assert shop.whole() == list(range(1, 12))


def test_a_drain_of_a_result_is_refused_and_the_run_goes_on(shop):
    running = shop.job().start(local=True, checkpoint=shop.place / "c")
    try:
        running.drain(30)
    except InvalidStep as refused:
        assert refused.code in ("RUN-028", "STEP-092"), refused
    running.wait(30)
    assert shop.whole() == list(range(1, 7))


def test_the_way_of_writing_may_change_between_runs_and_not_inside_one(shop, data):
    shop.run(write="append")
    data.add(2)
    shop.run(write="append", carry="position")
    assert shop.whole() == list(range(1, 9))
    shop.killed("published:1", write="replace")
    with pytest.raises(CheckpointRefused) as refused:
        shop.run(write="append")
    assert refused.value.code == "SINK-006"
    assert shop.whole() == list(range(1, 9))
    shop.run(write="replace")
    assert shop.whole() == list(range(1, 9))
    data.add(1)
    shop.run(write="append", carry="position")
    assert shop.whole() == list(range(1, 10))


def test_a_new_checkpoint_replaces_what_an_old_one_left(shop, data, tmp_path):
    shop.run()
    shop.run()
    data.add(1)
    shop.run(checkpoint=tmp_path / "other")
    assert shop.whole() == list(range(1, 8))
    shop.run(checkpoint=None)
    assert shop.whole() == list(range(1, 8))


def test_a_retry_of_a_complete_run_changes_nothing(shop, data):
    shop.run(run_id="monday")
    data.add(1)
    assert shop.run(run_id="monday").epochs == 0
    assert shop.whole() == list(range(1, 7))


def test_a_run_killed_while_it_swaps_is_resumed_before_the_next_one(shop, data):
    shop.run()
    data.add(4)
    shop.killed("files_shown:1")
    assert shop.whole() == list(range(1, 11))
    data.add(1)
    assert shop.run(carry="position").run == 3, "run 2 was durable: the start sees to it and begins another one"
    assert shop.whole() == [11]
