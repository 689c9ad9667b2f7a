"""Everything that a run opens is closed: after a refused start, a failed close, an error; and the first error counts."""

import pytest

import millstream as ms
from millstream.checkpoint.lease_record import LEASE, decode_lease
from millstream.checkpoint.stores.local import LocalStore
from millstream.connectors.collect.sink import CollectCommitter, CollectWriter
from millstream.connectors.memory.source import MemoryEnumerator
from millstream.errors import CheckpointRefused, ExternalFailure
from millstream.runtime.closing import OpenedParts

SCHEMA = "v long"


class Watched:
    """Notes which sources and sinks are open, by step; `refusing` fail when they are opened, `failing` when closed."""

    def __init__(self, monkeypatch):
        self.open, self.closed, self.failing, self.refusing = [], [], {}, {}
        for kind in (CollectCommitter, MemoryEnumerator):
            self._watch(kind, monkeypatch)
        monkeypatch.setattr(LocalStore, "close", lambda store: self._closed("store"))

    def _watch(self, kind, monkeypatch):
        create, close, watched = kind.__init__, kind.close, self

        def created(self, options, context):
            create(self, options, context)
            self.step_under_watch = context.step
            if context.step in watched.refusing:
                raise watched.refusing[context.step]
            watched.open.append(context.step)

        def closed(self):
            close(self)
            watched._closed(self.step_under_watch)

        monkeypatch.setattr(kind, "__init__", created)
        monkeypatch.setattr(kind, "close", closed)

    def _closed(self, step):
        self.closed.append(step)
        if step in self.failing:
            raise self.failing[step]


@pytest.fixture
def watched(monkeypatch):
    return Watched(monkeypatch)


def job(name="closing", *, fails=False):
    found = ms.Job(name)
    for source in ("s1", "s2"):
        rows = found.source(source, ms.memory([{"v": 1}]), schema=SCHEMA)
        rows = rows.map(_raise, schema=SCHEMA, id=f"{source}-map") if fails else rows
        rows.sink(f"{source}-out", ms.collect(f"{name}-{source}"))
    return found


def _raise(row):
    raise ValueError("no such row")


def lease_in(folder):
    return decode_lease((folder / "millstream" / LEASE).read_bytes())


PARTS = ["s1", "s1-out", "s2", "s2-out"]


def test_a_run_closes_what_it_opened(watched, tmp_path):
    job().run(local=True, checkpoint=tmp_path)
    assert (sorted(watched.open), sorted(watched.closed)) == (PARTS, [*PARTS, "store"])
    assert watched.closed == ["s2", "s1", "s2-out", "s1-out", "store"], "the last opened first"
    assert lease_in(tmp_path).is_settled


@pytest.mark.parametrize("refusing", PARTS)
def test_a_start_that_is_refused_half_way_leaves_nothing_open(watched, tmp_path, refusing):
    watched.refusing[refusing] = ExternalFailure("not today", code="EXT-009")
    with pytest.raises(ExternalFailure, match="EXT-009"):
        job().run(local=True, checkpoint=tmp_path)
    assert sorted(watched.closed) == sorted([*watched.open, "store"])
    assert (lease_in(tmp_path).is_released, lease_in(tmp_path).is_settled) == (True, False)


def test_output_of_an_earlier_lineage_is_refused_with_everything_closed(watched, tmp_path):
    job("beyond").run(local=True, checkpoint=tmp_path)
    watched.open.clear()
    watched.closed.clear()
    with pytest.raises(CheckpointRefused, match="SINK-003"):
        job("beyond").run(local=True, checkpoint=tmp_path, ignore_state_once=True)
    assert (watched.open, sorted(watched.closed)) == (["s1-out", "s2-out"], ["s1-out", "s2-out", "store"])


def test_a_changed_job_is_refused_with_everything_closed(watched, tmp_path):
    job().run(local=True, checkpoint=tmp_path)
    watched.open.clear()
    watched.closed.clear()
    other = ms.Job("closing")
    rows = other.source("s1", ms.memory([{"v": 1}]), schema=SCHEMA)
    rows.key_by("v").aggregate(n=ms.count(), id="n").sink("s1-out", ms.collect("closing-s1"))
    with pytest.raises(CheckpointRefused):
        other.run(local=True, checkpoint=tmp_path)
    assert sorted(watched.closed) == sorted([*watched.open, "store"])
    assert watched.open, "it was refused with its sinks open"


@pytest.mark.parametrize("failing", [*PARTS, "store"])
def test_a_close_that_fails_leaves_none_of_the_others_open(watched, tmp_path, failing):
    watched.failing[failing] = ExternalFailure("will not close", code="EXT-008")
    with pytest.raises(ExternalFailure, match="EXT-008"):
        job().run(local=True, checkpoint=tmp_path)
    assert sorted(watched.closed) == [*PARTS, "store"]
    assert lease_in(tmp_path).is_released


def test_the_first_error_counts_and_the_others_are_its_notes(watched, tmp_path):
    for step in ("s2", "s1-out", "store"):
        watched.failing[step] = ExternalFailure(f"{step} will not close", code="EXT-008")
    with pytest.raises(ExternalFailure) as caught:
        job().run(local=True, checkpoint=tmp_path)
    assert caught.value.message == "s2 will not close"
    notes = "\n".join(caught.value.__notes__)
    assert "s1-out will not close" in notes
    assert "store will not close" in notes
    assert sorted(watched.closed) == [*PARTS, "store"]


def test_what_ended_the_run_is_not_hidden_by_a_close_that_fails(watched, tmp_path):
    watched.failing["s1"] = OSError(5, "will not close")
    with pytest.raises(ms.MillstreamError, match="no such row") as caught:
        job(fails=True).run(local=True, checkpoint=tmp_path)
    assert "will not close" in "\n".join(caught.value.__notes__)
    assert sorted(watched.closed) == [*PARTS, "store"]


# The parts by themselves.


def test_parts_are_closed_backwards_and_once():
    parts, closed = OpenedParts(), []
    for name in "abc":
        parts.add(name, lambda name=name: closed.append(name))
    parts.close()
    parts.close()
    assert closed == ["c", "b", "a"]


def test_an_interrupt_while_closing_closes_the_rest():
    parts, closed = OpenedParts(), []
    parts.add("a", lambda: closed.append("a"))
    parts.add("b", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        parts.close()
    assert closed == ["a"]


def _interrupt():
    raise KeyboardInterrupt


def test_a_writer_that_cannot_abort_keeps_no_other_from_it(monkeypatch, tmp_path):
    """A task that fails leaves nothing staged, in no sink."""
    aborted = []

    def failing(writer):
        aborted.append(writer)
        raise OSError(5, "will not abort")

    monkeypatch.setattr(CollectWriter, "abort", failing)
    job = ms.Job("aborting")
    rows = job.source("rows", ms.memory([{"v": 1}]), schema=SCHEMA)
    for sink in ("one", "two"):
        rows.sink(sink, ms.collect(f"aborting-{sink}"))
    rows.map(_raise, schema=SCHEMA, id="fails").sink("three", ms.collect("aborting-three"))
    with pytest.raises(ms.MillstreamError, match="no such row") as caught:
        job.run(local=True, checkpoint=tmp_path)
    assert len(aborted) == 2
    assert "will not abort" in "\n".join(caught.value.__notes__)
