"""What a job on Spark has stored, read through the service: the node starts a reader, and a JVM in it, once."""

import time

import pytest
from tests.unit.server.stored_world import StoredWorld

from millstream.control.metadata import migrate
from millstream.control.metadata.database import Metadata

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]


@pytest.fixture
def world(tmp_path):
    url = f"sqlite:///{tmp_path}/metadata.db"
    metadata = Metadata(url)
    migrate.upgrade(metadata)
    metadata.close()
    made = StoredWorld(tmp_path, url)
    yield made
    made.close()


def document(folder):
    fields = {"k": {"kind": "int", "low": 0, "high": 4}}
    count = {"aggregate": {"n": "count()"}, "key_by": "k", "id": "counts"}
    steps = [{"source": "s", "from": {"datagen": {"rows": 200, "seed": 7, "fields": fields}}}, count]
    steps.append({"sink": "o", "to": {"files": {"path": str(folder / "out")}}})
    return {"job": "onspark", "rows_per_epoch": 100, "steps": steps}


def test_state_of_a_job_on_spark(world, tmp_path):
    run = world.submit(document(tmp_path), engine="spark", master="local[2]")
    world.until(run, lambda row: row.status == "COMPLETED", seconds=300)
    status, told = world.get(f"/state/{run}")
    assert status == 200, told
    assert (told["engine"], [(each["step"], each["keys"]) for each in told["steps"]]) == ("spark", [("counts", None)])
    begun = time.monotonic()
    status, told = world.get(f"/state/{run}/counts")
    assert status == 200, told
    first, begun = time.monotonic() - begun, time.monotonic()
    assert sum(each["values"]["n"] for each in told["items"]) == 200
    assert {each["label"] for each in told["items"]} == set("0123")
    status, told = world.get(f"/state/{run}@{told['epoch']}/counts/n", key="3")
    assert (status, [each["label"] for each in told["items"]]) == (200, ["3"])
    again = time.monotonic() - begun
    assert again < first
    print(f"first reading {first:.1f} s, the next {again:.2f} s")
    assert world.get(f"/state/{run}", count=True)[1]["steps"][0]["keys"] == 4
    assert len(world.node._readers.pids()) == 1
