"""Windows that go row by row: the work for a row does not depend on how many windows of its key are open."""

import base64
import json
import sys
from pathlib import Path

import pytest
from test_row_window_oracle import job_of
from tests.unit.runtime.epochs import Epochs

import millstream
from millstream.runtime.operators.window.open_windows import OpenWindows

PACKAGE = str(Path(millstream.__file__).parent)
STORED = Path(__file__).with_name("row_windows_stored.json")
"""Pages that an earlier version wrote in `filled`: windows stand in the order in which they were opened."""


def steps_of(run, rows):
    """How many instructions of ours an epoch takes: the same on every machine."""
    taken = 0

    def trace(frame, event, _):
        nonlocal taken
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        taken += event == "opcode"
        return trace

    sys.settrace(trace)
    try:
        run.run(rows)
    finally:
        sys.settrace(None)
    return taken


def spread(windows):
    """One row for each of so many tumbling windows of one key."""
    return [{"k": "a", "at": number * 10, "v": "x"} for number in range(windows)]


@pytest.mark.parametrize("closing", ["process", "reduce"])
@pytest.mark.parametrize("kind", ["tumbling", "session"])
def test_the_work_for_a_row_does_not_grow_with_the_open_windows(kind, closing):
    per_row = []
    for windows in (50, 800):
        run = Epochs(job_of(kind, closing, 0, "default"))
        per_row += [steps_of(run, spread(windows)) / windows, steps_of(run, spread(windows)) / windows]
    assert per_row[2] <= per_row[0]
    assert per_row[3] <= per_row[1]


@pytest.mark.parametrize("closing", ["process", "reduce"])
def test_a_row_decodes_the_windows_it_belongs_to(closing, monkeypatch):
    run = Epochs(job_of("sliding", closing, 0, "default"))
    run.run(spread(200))
    decoded = []
    content_of = OpenWindows.content_of
    monkeypatch.setattr(OpenWindows, "content_of", lambda held, w: decoded.append(w.start) or content_of(held, w))
    run.run([{"k": "a", "at": 100, "v": "y"}])
    assert sorted(decoded) == [93, 96, 99]


def filled(kind, closing):
    """Windows opened in no order, some of which have fired and wait for late rows."""
    run = Epochs(job_of(kind, closing, 7, "default"), parallelism=2)
    times = (31, 2, 55, 12, 3, 40, 21, 33, 14)
    run.run([{"k": key, "at": at, "v": f"{key}{at} "} for at in times for key in "ab"])
    run.run([{"k": "c", "at": 8, "v": "c8 "}], 16)
    return run


def rest(run):
    run.number = 1
    run.marks = {"in.event_time": 16}
    made = [run.run([{"k": key, "at": at, "v": "new "} for at in (13, 35, 90) for key in "abcd"], 19), run.run([], 45)]
    made.append(run.run([], terminal=True))
    return [sorted(map(str, each[sink])) for each in made for sink in ("out", "late")]


@pytest.mark.parametrize("closing", ["process", "reduce"])
@pytest.mark.parametrize("kind", ["tumbling", "sliding", "session"])
def test_windows_that_an_earlier_version_stored_go_on(kind, closing):
    stored = json.loads(STORED.read_text())[f"{kind} {closing}"]
    resumed = Epochs(job_of(kind, closing, 7, "default"), parallelism=2)
    for (level, task), store in resumed.stores.items():
        store.update({name: base64.b64decode(page) for name, page in stored[f"{level}/{task}"].items()})
    assert rest(resumed) == rest(filled(kind, closing))
