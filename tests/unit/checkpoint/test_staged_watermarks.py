"""What an epoch's manifest says about its watermarks."""

import json

import pytest

import millstream as ms
from millstream.checkpoint.manifest import LOWEST_WATERMARK, decode_manifest, encode_manifest
from millstream.inspect.checkpoint import open_view
from millstream.model.ids import step_id

ROWS = [{"at": at, "k": at % 2} for at in range(0, 9_000, 1_000)]


def timed_job(*steps):
    """One branch per event-time step; each allows rows to be later than the one before."""
    job = ms.Job("staged", rows_per_epoch=3)
    rows = job.source("rows", ms.memory(ROWS), schema="at long, k long")
    for place, step in enumerate(steps):
        timed = rows.event_time("at", max_delay=f"{place + 1}s", id=step)
        timed.key_by("k").window(ms.tumbling("2s")).aggregate(n=ms.count(), id=f"n{place}").sink(
            f"out{place}", ms.collect(f"staged-{place}")
        )
    return job


def test_a_step_may_be_called_combined(tmp_path):
    """Its watermark and the lowest of all are two things."""
    timed_job("combined", "slower").run(local=True, checkpoint=tmp_path)
    view = open_view(tmp_path)
    manifests = [view.read_manifest(name) for name in view.retained(view.head()).values()]
    for manifest in manifests:
        own, slower = manifest.plan["watermarks"]["combined"], manifest.plan["watermarks"]["slower"]
        assert manifest.watermarks == {"combined": own, "slower": slower, LOWEST_WATERMARK: min(own, slower)}
    assert any(each.watermarks["combined"] > each.watermarks[LOWEST_WATERMARK] for each in manifests)


def test_no_step_can_bear_the_name():
    with pytest.raises(ms.MillstreamError):
        step_id(LOWEST_WATERMARK)


def test_a_manifest_of_earlier_versions_is_read_and_resumed(tmp_path):
    job = timed_job("timed", "slower")
    job.run(local=True, checkpoint=tmp_path)
    view = open_view(tmp_path)
    file = tmp_path / "millstream" / view.head().manifest
    stored = decode_manifest(file.read_bytes(), name="m")
    lowest = stored.watermarks.pop(LOWEST_WATERMARK)
    stored.watermarks["combined"] = lowest
    file.write_bytes(encode_manifest(stored))
    assert json.loads(file.read_bytes())["content"]["watermarks"].keys() == {"timed", "slower", "combined"}
    assert job.run(local=True, checkpoint=tmp_path).resumed_from == stored.epoch
