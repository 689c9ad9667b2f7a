"""State of a stopped checkpoint, read through Spark at any retained epoch."""

import json

import pytest

import millstream as ms
from millstream.checkpoint.failpoint import VARIABLE
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.spark.files.log_files import read_logs, retained_epochs
from millstream.spark.query.slots import slot_labels
from millstream.spark.query.state_reader import read_pages, read_subtasks
from millstream.state.pages import StepPages

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def folder(spark, tmp_path_factory):
    """Two keyed levels, two subtasks; epochs 0 and 1 are committed, epoch 2 is not."""
    from millstream.checkpoint import failpoint

    root = tmp_path_factory.mktemp("reading")
    (root / "in").mkdir()
    for part in range(3):
        text = "".join(json.dumps({"user": f"u{part}-{i}", "amount": i}) + "\n" for i in range(10))
        (root / "in" / f"{part}.json").write_text(text)
    job = ms.Job("reading", rows_per_epoch=10, parallelism=2)
    rows = job.source("rows", ms.files(str(root / "in"), format="json"), schema="user string, amount long")
    totals = rows.key_by("user").aggregate(total=ms.sum("amount"), emit="row", id="totals")
    sizes = totals.key_by("total").aggregate(m=ms.count(), emit="row", id="sizes")
    sizes.sink("out", ms.files(str(root / "out"), format="json"))
    with pytest.MonkeyPatch.context() as patch:
        failpoint.reset()
        patch.setenv(VARIABLE, "staged:3:raise")
        with pytest.raises(ExternalFailure, match="failpoint"):
            job.run(checkpoint=str(root / "checkpoint"), master="local[2]")
        failpoint.reset()
    (found,) = (root / "checkpoint" / "spark").iterdir()
    return found


@pytest.mark.parametrize(("level", "step"), [(1, "totals"), (2, "sizes")])
def test_each_level_holds_the_pages_of_its_steps(spark, folder, level, step):
    pages = list(read_pages(spark, folder, 1, level=level, depth=2))
    assert {name.split("/")[0] for _, name, _ in pages} == {step}
    assert {label for label, _, _ in pages} <= set(slot_labels(2))
    assert all(isinstance(content, bytes) and content for _, _, content in pages)


def test_a_subtask_is_a_store_of_pages(spark, folder):
    stores = dict(read_subtasks(spark, folder, 1, level=1, depth=2, parallelism=2))
    assert sorted(stores) == [0, 1]
    for store in stores.values():
        steps = StepPages(store, "totals")
        listed = [page for page, _ in steps]
        assert len(listed) == len(store) - 1  # the directory is a page too
        assert all(steps.read(page) for page in listed)
    groups = [{page.group for page, _ in StepPages(store, "totals")} for store in stores.values()]
    assert not groups[0] & groups[1]


def test_an_older_epoch_holds_less(spark, folder):
    names = [{name for _, name, _ in read_pages(spark, folder, epoch, level=1, depth=2)} for epoch in (0, 1)]
    assert names[0] < names[1]


def test_the_store_is_read_only(spark, folder):
    _, store = next(read_subtasks(spark, folder, 0, level=1, depth=2, parallelism=2))
    name = next(iter(store))
    with pytest.raises(CheckpointRefused, match="only read"):
        store.put(name, b"other")
    with pytest.raises(CheckpointRefused, match="only read"):
        store.delete(name)
    assert store.get(name) != b"other"
    assert store.get("nothing") is None


@pytest.mark.parametrize("epoch", [2, 99, -1])
def test_an_epoch_that_is_not_retained_is_named_with_the_range(spark, folder, epoch):
    assert retained_epochs(read_logs(folder)) == [0, 1]
    with pytest.raises(CheckpointRefused, match="epochs 0 to 1") as refused:
        read_pages(spark, folder, epoch, level=1, depth=2)
    assert refused.value.code == "CKPT-055"
