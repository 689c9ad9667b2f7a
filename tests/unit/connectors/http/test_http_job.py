"""Jobs over an API on the local engine: killed between any two steps, they go on and ask for no committed page again."""

import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import pages_of, refused, rows
from tests.unit.connectors.http.killed_job import job_of

import millstream as ms

ROWS, SIZE = 36, 4
SCRIPT = Path(__file__).with_name("killed_job.py")
PLACES = ("begun", "staged", "manifest_written", "durable", "published", "intake_written", "intake_synced")
KILLS = 3


def run(api, folder, failpoints=""):
    arguments = [sys.executable, str(SCRIPT), api.url, str(folder / "checkpoint"), str(folder / "out")]
    environment = {**os.environ, "MILLSTREAM_FAILPOINTS": failpoints}
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, timeout=120).returncode


def visible(folder):
    return ms.read_files(folder / "out").to_pylist() if (folder / "out").exists() else []


def complete_pages(found):
    """The numbers of pages of which every row is there."""
    counted = Counter((row["id"] - 1) // SIZE + 1 for row in found)
    return {page for page, count in counted.items() if count == SIZE}


@pytest.mark.parametrize("place", PLACES)
def test_a_job_that_is_killed_again_and_again_asks_for_no_committed_page(api, tmp_path, place):
    api.answer = pages_of(rows(ROWS), SIZE)
    codes = []
    for number in range(KILLS + 1):
        committed = complete_pages(visible(tmp_path))
        api.asked.clear()
        codes.append(run(api, tmp_path, f"{place}:{2 + number % 2}:kill" if number < KILLS else ""))
        asked = {int(each.query["page"]) for each in api.asked}
        assert not asked & committed, f"in run {number}"
    assert sorted(row["id"] for row in visible(tmp_path)) == list(range(1, ROWS + 1))
    assert (codes[0], codes[-1]) == (-9, 0)


def test_a_job_reads_all_pages_once(api, tmp_path):
    api.answer = pages_of(rows(ROWS), SIZE)
    result = job_of(api.url, str(tmp_path / "out")).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert sorted(row["id"] for row in visible(tmp_path)) == list(range(1, ROWS + 1))
    assert Counter(each.query["page"] for each in api.asked).most_common(1)[0][1] == 1
    assert result.epochs > 3


def test_dead_letters_name_the_page(api, tmp_path):
    api.answer = lambda asked: {"items": [{"id": "x"}, {"id": 1}] if asked.query["page"] == "1" else []}
    job = ms.Job("letters")
    spec = ms.http(f"{api.url}/items", records="items", paginator={"type": "page"}, allow_private=True)
    bad = ms.dead_letter(ms.files(tmp_path / "dead"))
    job.source("in", spec, schema="id long", on_error=bad).sink("out", ms.files(tmp_path / "out"))
    job.run(local=True, checkpoint=tmp_path / "checkpoint")
    (letter,) = ms.read_files(tmp_path / "dead").to_pylist()
    assert letter["origin"] == f"{api.url}/items?page=1 page 1 item 1"


def test_a_job_whose_api_refuses_it_ends_with_the_reason(api, tmp_path):
    api.answer = lambda asked: refused(403, error="no access")
    with pytest.raises(ms.MillstreamError) as failed:
        job_of(api.url, str(tmp_path / "out")).run(local=True, checkpoint=tmp_path / "checkpoint")
    assert (failed.value.code, failed.value.step) == ("HTTP-010", "in")
    assert "no access" in failed.value.found


def test_a_job_is_restored_from_a_savepoint_in_the_middle(api, tmp_path):
    """The new lineage finds the log of the old one in the savepoint, and goes on behind its position."""
    page = pages_of(rows(ROWS), SIZE)
    held, read = threading.Event(), threading.Event()
    api.answer = lambda asked: Reply(page(asked), held=held) if asked.query["page"] == "7" else page(asked)
    job = job_of(api.url, str(tmp_path / "out"))
    running = job.start(
        local=True, checkpoint=tmp_path / "one", on_epoch=lambda summary: read.set() if summary.rows_in else None
    )
    assert read.wait(60)
    savepoint = running.suspend().savepoint
    held.set()
    committed = complete_pages(visible(tmp_path))
    assert committed
    api.asked.clear()
    job.run(local=True, checkpoint=tmp_path / "two", from_savepoint=savepoint)
    assert sorted(row["id"] for row in visible(tmp_path)) == list(range(1, ROWS + 1))
    assert not {int(each.query["page"]) for each in api.asked} & committed
