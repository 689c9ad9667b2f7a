"""Slices, restarts at every place, and further runs: nothing is lost, doubled, or asked for again once it is in a plan."""

import itertools
import json
import threading
from collections import Counter

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import Reading, ids, pages_of, read_all, refused, rows

from millstream.checkpoint import failpoint
from millstream.connectors.intake.files import file_names
from millstream.errors import CheckpointRefused
from millstream.records.codecs import batch_to_rows

TABLE = rows(23)
PAGED = {"records": "items", "paginator": {"type": "page"}}
ORGS = {"a": rows(11), "b": rows(3, 100), "c": [], "d": rows(7, 200)}
LIST = {"type": "list", "name": "org", "values": list(ORGS)}


def orgs(asked):
    """An API with an address for each of several lists."""
    if asked.path == "/orgs":
        return pages_of([{"id": name} for name in ORGS], 2)(asked)
    return pages_of(ORGS[asked.path.split("/")[2]], 4)(asked)


EVERY_ORG = [row for table in ORGS.values() for row in table]
ALL = ids(EVERY_ORG)


# Slices


def test_slices_of_a_list(api):
    api.answer = orgs
    with Reading(f"{api.url}/orgs/${{slice:org}}", **PAGED, slices=LIST) as reading:
        assert set(reading.advance(0).partitions) == set(ORGS)
        found = reading.everything(5)
        last = reading.advance()
    assert ids(found) == ALL
    assert last.partitions == []
    assert set(last.drained) == set(ORGS)


def test_a_slice_is_a_partition_and_a_split_is_of_one(api):
    api.answer = orgs
    with Reading(f"{api.url}/orgs/${{slice:org}}", **PAGED, slices=LIST) as reading:
        reading.everything()
        splits = reading.enumerator.splits(reading.path[0], reading.path[-1])
        for split in splits:
            origins = {page for page, table in ORGS.items() for row in table if row["id"] in ids(_rows(reading, split))}
            assert origins == {split.partition}
    assert {split.partition for split in splits} == {"a", "b", "d"}


def _rows(reading, split):
    return [row for part in reading.reader.read(split.body) for row in batch_to_rows(part)]


def test_one_slice_is_cut_over_the_tasks(api):
    api.answer = pages_of(TABLE, 2)
    with Reading(f"{api.url}/items", **PAGED, parallelism=4) as reading:
        reading.everything()
        splits = reading.enumerator.splits(reading.path[0], reading.path[-1])
        assert [split.rows for split in splits] == [6, 6, 6, 5]
        assert ids(row for split in splits for row in _rows(reading, split)) == list(range(1, 24))


def test_slices_are_fetched_at_once_up_to_the_limit(api):
    """Each first page is held until as many slices as may be under way have asked for theirs."""
    first, there = {}, threading.Event()

    def answer(asked):
        if asked.query["page"] == "1" and len(first) < 3:
            first[asked.path] = True
            if len(first) == 3:
                there.set()
            return Reply(orgs(asked), held=there)
        return orgs(asked)

    api.answer = answer
    found = read_all(f"{api.url}/orgs/${{slice:org}}", **PAGED, slices=LIST, rate={"concurrency": 3})
    assert ids(found) == ALL


def test_parents_give_slices(api):
    api.answer = orgs
    request = {"url": f"{api.url}/orgs", **PAGED}
    slices = {"type": "parent", "request": request, "fields": {"org": "id"}}
    assert ids(read_all(f"{api.url}/orgs/${{slice:org}}", **PAGED, slices=slices)) == ALL
    assert Counter(api.paths())["/orgs"] == 3


def test_few_children_wait_while_parents_are_many(api):
    names = [f"p{number:03}" for number in range(60)]

    def answer(asked):
        if asked.path == "/parents":
            return pages_of([{"id": name} for name in names], 5)(asked)
        return {"items": rows(1, int(asked.path[2:]) + 1)}

    api.answer = answer
    request = {"url": f"{api.url}/parents", **PAGED}
    slices = {"type": "parent", "request": request, "fields": {"p": "id"}}
    with Reading(f"{api.url}/${{slice:p}}", records="items", slices=slices) as reading:
        found = reading.everything(1)
        assert max(len(position.get("slices", {})) for position in reading.path) <= 10
        assert max(len(json.dumps(position)) for position in reading.path) < 2500
    assert ids(found) == list(range(1, 61))


def test_steps_of_time(api):
    asked_for = []

    def answer(asked):
        asked_for.append((asked.query["from"], asked.query["to"]))
        return {"items": rows(1, int(asked.query["from"][-2:]))}

    api.answer = answer
    slices = {"type": "dates", "start": "2024-05-01", "end": "2024-05-06", "step": "2d", "format": "date"}
    params = {"from": "${slice:start}", "to": "${slice:end}"}
    found = read_all(f"{api.url}/items", records="items", params=params, slices=slices, rate={"concurrency": 1})
    assert ids(found) == [1, 3, 5]
    assert asked_for == [("2024-05-01", "2024-05-03"), ("2024-05-03", "2024-05-05"), ("2024-05-05", "2024-05-06")]


# Restarts

SOURCES = {
    "pages": ({"url": "/items"}, lambda api: pages_of(TABLE, 4), TABLE),
    "cursor": (
        {"url": "/items", "paginator": {"type": "cursor", "path": "next"}},
        lambda api: lambda asked: _cursors(asked),
        TABLE,
    ),
    "list": ({"url": "/orgs/${slice:org}", "slices": LIST}, lambda api: orgs, EVERY_ORG),
    "parent": (
        {"url": "/orgs/${slice:org}", "slices": {"type": "parent", "fields": {"org": "id"}}},
        lambda api: orgs,
        EVERY_ORG,
    ),
    "window": (
        {"url": "/items", "window": {"field": "id", "param": "min_id", "key": "id", "pages": 2}},
        lambda api: lambda asked: _windowed(asked),
        TABLE,
    ),
}


def _cursors(asked):
    first = int(asked.query.get("cursor", 0))
    return {"items": TABLE[first : first + 4], **({"next": str(first + 4)} if first + 4 < 23 else {})}


def _windowed(asked):
    return pages_of([row for row in TABLE if row["id"] >= int(asked.query.get("min_id", 0))], 4)(asked)


def opened(api, name, folder, token=1, **more):
    options, answer, table = SOURCES[name]
    api.answer = answer(api)
    options = {**PAGED, **options}
    url = f"{api.url}{options.pop('url')}"
    if options.get("slices", {}).get("type") == "parent":
        options["slices"] = {**options["slices"], "request": {"url": f"{api.url}/orgs", **PAGED}}
    return Reading(url, folder=folder, token=token, **options, **more), sorted(row["id"] for row in table)


@pytest.mark.parametrize("name", SOURCES)
def test_a_restart_at_every_position_reads_the_rest_and_no_more(api, name, tmp_path):
    """The successor has nothing of what was fetched ahead: it asks for what is behind the position, and only for that."""
    first, expected = opened(api, name, tmp_path / "whole")
    with first:
        assert ids(first.everything(1)) == expected
        stretches = [first.read(*pair) for pair in itertools.pairwise(first.path)]
    whole = Counter((each.path, tuple(sorted(each.query.items()))) for each in api.asked)
    for place in range(len(first.path)):
        api.asked.clear()
        resumed, _ = opened(api, name, tmp_path / f"at-{place}", token=2)
        with resumed:
            resumed.position = first.path[place]
            rest = resumed.everything(3)
        before = [row for stretch in stretches[:place] for row in stretch]
        assert ids([*before, *rest]) == expected, f"at {first.path[place]}"
        again = Counter((each.path, tuple(sorted(each.query.items()))) for each in api.asked)
        assert not again - whole, "nothing is asked for that was not asked for before"
        assert sum(again.values()) <= sum(whole.values()) - place + _slack(name)


def _slack(name):
    """Several slices are under way at once: a position may lie before pages that others have brought."""
    return 8 if name in ("list", "parent") else 1


@pytest.mark.parametrize("name", SOURCES)
def test_what_lies_in_the_log_is_not_asked_for_again(api, name, tmp_path):
    first, expected = opened(api, name, tmp_path)
    with first:
        first.everything(1)
    api.asked.clear()
    for token, position in enumerate(first.path[:-1], 2):
        resumed, _ = opened(api, name, tmp_path, token=token)
        with resumed:
            resumed.position = position
            before = [row for pair in itertools.pairwise(first.path) for row in first.read(*pair)]
            assert ids(resumed.everything(3)) == ids(
                before[-_left(first, position) :] if _left(first, position) else []
            )
    assert expected == ids(before)
    assert api.asked == []


def _left(reading, position):
    """How many rows lie behind a position."""
    place = reading.path.index(position)
    return sum(len(reading.read(*pair)) for pair in itertools.pairwise(reading.path[place:]))


def test_a_failure_between_the_answer_and_the_log_costs_one_request_at_most(api, tmp_path, monkeypatch):
    api.answer = pages_of(TABLE, 4)
    failpoint.reset()
    monkeypatch.setenv("MILLSTREAM_FAILPOINTS", "intake_written:3:raise")
    with (
        Reading(f"{api.url}/items", folder=tmp_path, **PAGED, ahead_bytes=1) as first,
        pytest.raises(Exception, match="intake_written"),
    ):
        first.everything(1)
    monkeypatch.delenv("MILLSTREAM_FAILPOINTS")
    with Reading(f"{api.url}/items", folder=tmp_path, token=2, **PAGED) as second:
        second.position = first.position
        rest = second.everything()
    read = ids(rest) + ids(row for pair in itertools.pairwise(first.path) for row in first.read(*pair))
    assert sorted(read) == list(range(1, 24))
    assert len(api.asked) in (7, 8)


def test_files_are_deleted_behind_what_is_published(api, tmp_path):
    api.answer = pages_of(rows(400), 10)
    with Reading(f"{api.url}/items", folder=tmp_path, **PAGED) as reading:
        reading.enumerator._intake._log._file_bytes = 2000
        found = []
        while (more := reading.step(10)) is not None:
            found += more
            reading.enumerator.acknowledge(reading.position)
        left = len(file_names(tmp_path))
    assert ids(found) == list(range(1, 401))
    assert left <= 2


def test_a_lost_log_is_refused_and_named(api, tmp_path):
    api.answer = pages_of(TABLE, 4)
    with Reading(f"{api.url}/items", folder=tmp_path, **PAGED) as reading:
        reading.everything()
    for name in file_names(tmp_path):
        (tmp_path / name).unlink()
    with (
        Reading(f"{api.url}/items", folder=tmp_path, token=2, **PAGED) as later,
        pytest.raises(CheckpointRefused) as failed,
    ):
        later.enumerator.splits(reading.path[0], reading.path[-1])
    assert failed.value.code == "INTAKE-002"


def test_without_a_checkpoint_the_log_goes_with_the_run(api):
    api.answer = pages_of(TABLE, 4)
    with Reading(f"{api.url}/items", **PAGED) as reading:
        folder = reading.enumerator._folder
        assert ids(reading.everything()) == list(range(1, 24))
        assert folder.is_dir()
    assert not folder.exists()


# Further runs


def test_a_further_run_starts_behind_the_largest_value(api):
    table = [{"id": number, "name": f"2024-05-0{number}"} for number in (1, 3, 2)]
    api.answer = lambda asked: {"items": [row for row in table if row["name"] > asked.query["since"]]}
    options = {
        "records": "items",
        "params": {"since": "${slice:since}"},
        "incremental": {"field": "name", "start": "2024"},
    }
    with Reading(f"{api.url}/items", **options) as first:
        assert ids(first.everything()) == [1, 2, 3]
    table.append({"id": 4, "name": "2024-05-04"})
    with Reading(f"{api.url}/items", **options, lineage="L2") as second:
        second.position = first.position
        assert ids(second.everything()) == [4]
    with Reading(f"{api.url}/items", **options, lineage="L2") as same:
        same.position = second.position
        assert same.everything() == []
    assert [each.query["since"] for each in api.asked] == ["2024", "2024-05-03"]


def test_a_further_run_goes_on_behind_the_last_key(api):
    table = rows(5)
    api.answer = lambda asked: {"items": [row for row in table if row["id"] > int(asked.query.get("since_id", 0))][:2]}
    options = {"records": "items", "paginator": {"type": "keyset", "field": "id", "param": "since_id"}}
    with Reading(f"{api.url}/items", **options) as first:
        assert ids(first.everything()) == [1, 2, 3, 4, 5]
    table += rows(2, 6)
    with Reading(f"{api.url}/items", **options, lineage="L2") as second:
        second.position = first.position
        assert ids(second.everything()) == [6, 7]
    assert api.asked[4].query == {"since_id": "5"}


def test_a_further_run_of_steps_of_time_looks_back(api, monkeypatch):
    api.answer = lambda asked: {"items": []}
    day = 86_400_000
    now = [1_714_694_400_000]  # 2024-05-03
    monkeypatch.setattr("millstream.connectors.http.source.now_ms", lambda: now[0])
    slices = {"type": "dates", "start": "2024-05-01", "step": "1d", "format": "date", "look_back": "1d"}
    options = {"records": "items", "params": {"from": "${slice:start}"}, "slices": slices, "rate": {"concurrency": 1}}
    with Reading(f"{api.url}/items", **options) as first:
        first.everything()
    now[0] += 2 * day
    with Reading(f"{api.url}/items", **options, lineage="L2") as second:
        second.position = first.position
        second.everything()
    assert [each.query["from"][-2:] for each in api.asked] == ["01", "02", "02", "03", "04"]


def test_now_is_the_same_for_all_of_a_run(api, tmp_path, monkeypatch):
    now = [1_714_694_400_000]
    monkeypatch.setattr("millstream.connectors.http.source.now_ms", lambda: now[0])
    slices = {"type": "dates", "start": "2024-05-01"}
    options = {"params": {"from": "${slice:start}"}, "slices": slices}
    with Reading(f"{api.url}/items", folder=tmp_path, **options) as first:
        now[0] += 1
        with Reading(f"{api.url}/items", folder=tmp_path, token=2, **options) as second:
            assert first.position == second.position == first.enumerator.initial()


def test_where_nothing_tells_what_is_new_a_finished_source_stays_so(api):
    api.answer = pages_of(TABLE, 4)
    with Reading(f"{api.url}/items", **PAGED) as first:
        first.everything()
    api.asked.clear()
    with Reading(f"{api.url}/items", **PAGED, lineage="L2") as second:
        second.position = first.position
        assert second.everything() == []
    assert api.asked == []


def test_a_run_that_was_interrupted_goes_on_in_another_lineage(api):
    api.answer = pages_of(TABLE, 4)
    with Reading(f"{api.url}/items", **PAGED, ahead_bytes=1) as first:
        found = first.step(1)
    with Reading(f"{api.url}/items", **PAGED, lineage="L2") as second:
        second.position = first.position
        found += second.everything()
        assert second.advance().finished
    assert ids(found) == list(range(1, 24))


def test_an_error_in_one_slice_leaves_the_others_at_their_place(api):
    is_broken = [True]
    api.answer = lambda asked: refused(403) if "/b" in asked.path and is_broken[0] else orgs(asked)
    url = f"{api.url}/orgs/${{slice:org}}"
    found = []
    with Reading(url, **PAGED, slices=LIST, rate={"concurrency": 1}) as first, pytest.raises(Exception, match="403"):
        while True:
            found += first.step(4)
    is_broken[0] = False
    with Reading(url, **PAGED, slices=LIST, lineage="L2") as second:
        second.position = first.position
        found += second.everything()
    assert ids(found) == ALL
