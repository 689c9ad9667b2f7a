"""The source against a server that is scripted: every way of paging with every way of ending, and what goes wrong on the way."""

import threading

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import QUICK, Reading, ids, pages_of, read_all, refused, rows

from millstream.contract.source import BadRecord
from millstream.errors import ExternalFailure, StepFailed
from millstream.model.schema import schema_of

TABLE = rows(23)
SIZE = 5


@pytest.fixture(autouse=True)
def _table(api):
    api.answer = pages_of(TABLE, SIZE)


# Every paginator with every rule that ends


def cut(table, first):
    return table[first : first + SIZE]


def answers(kind, stop, url, asked):
    """What an API of that kind answers, with all that the rule needs: as a document, and headers."""
    query = asked.query
    first = {
        "page": lambda: (int(query.get("page", 1)) - 1) * SIZE,
        "offset": lambda: int(query.get("offset", 0)),
        "cursor": lambda: int(query.get("cursor", 0)),
        "link": lambda: int(query.get("at", 0)),
        "header_link": lambda: int(query.get("at", 0)),
        "keyset": lambda: int(query.get("since_id", 0)),
    }[kind]()
    document, headers, behind = {"items": cut(TABLE, first)}, [], first + SIZE
    has_more = behind < len(TABLE)
    # Rules that end leave the token in place, so that it is they who do it.
    is_named = has_more or stop not in ("token", "empty")
    if stop == "empty" and first < len(TABLE):
        is_named = True
    if is_named and kind == "cursor":
        document["next"] = str(behind)
    if is_named and kind == "link":
        document["next"] = f"{url}/items?at={behind}"
    if is_named and kind == "header_link":
        headers.append(("Link", f'<{url}/items?at={behind}>; rel="next", </items?at=0>; rel="first"'))
    extra = {
        "has_more": {"more": has_more},
        "total": {"total": len(TABLE)},
        "pages": {"pages": 5},
        "when": {"state": "more" if has_more else "last"},
    }
    return Reply({**document, **extra.get(stop, {})}, headers=tuple(headers))


PAGINATORS = {
    "page": {"type": "page"},
    "offset": {"type": "offset", "size": SIZE},
    "cursor": {"type": "cursor", "path": "next"},
    "link": {"type": "link"},
    "header_link": {"type": "header_link"},
    "keyset": {"type": "keyset", "field": "id", "param": "since_id"},
}
STOPS = {
    "empty": {"empty": True},
    "short": {"empty": False, "short": True},
    "has_more": {"empty": False, "has_more": {"path": "more"}},
    "total": {"empty": False, "total": {"path": "total"}},
    "pages": {"empty": False, "total": {"path": "pages", "of": "pages"}},
    "when": {"empty": False, "when": {"path": "state", "equals": "last"}},
    "records": {"empty": False, "max_records": 23},
    "most_pages": {"empty": False, "max_pages": 5, "on_max_pages": "end", "max_records": 1000},
    "token": {},
}


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", PAGINATORS)
def test_every_paginator_with_every_end(api, kind, stop):
    api.answer = lambda asked: answers(kind, stop, api.url, asked)
    found = read_all(
        f"{api.url}/items", records="items", paginator={**PAGINATORS[kind], "size": SIZE}, stop=STOPS[stop]
    )
    assert ids(found) == list(range(1, 24))
    is_asked_for_nothing = stop == "empty" or (stop == "token" and kind in ("page", "offset", "keyset"))
    assert len(api.asked) == 5 + is_asked_for_nothing


def test_one_page(api):
    assert ids(read_all(f"{api.url}/items", records="items")) == [1, 2, 3, 4, 5]
    assert len(api.asked) == 1


@pytest.mark.parametrize(
    ("place", "seen"),
    [
        ("query", lambda asked: asked.query.get("after")),
        ("header", lambda asked: asked.headers.get("after")),
        ("json", lambda asked: asked.json.get("after")),
        ("form", lambda asked: asked.form.get("after")),
        ("path", lambda asked: asked.path.removeprefix("/").removeprefix("items") or None),
    ],
)
def test_a_cursor_goes_into_each_of_five_places(api, place, seen):
    def answer(asked):
        first = int(seen(asked) or 0)
        more = {"next": str(first + SIZE)} if first + SIZE < len(TABLE) else {}
        return {"items": cut(TABLE, first), **more}

    api.answer = answer
    body = {"json": {"json": {"a": 1}}, "form": {"form": {"a": 1}}}.get(place, {})
    options = {"method": "POST", **body} if body else {}
    paginator = {"type": "cursor", "path": "next", "param": "after", "in": place}
    found = read_all(f"{api.url}/items", records="items", paginator=paginator, **options)
    assert ids(found) == list(range(1, 24))


# What APIs really answer


@pytest.mark.parametrize("document", [{"items": None}, {}, {"items": []}, None, []])
def test_null_and_nothing_are_no_records(api, document):
    api.answer = lambda asked: Reply(b"null" if document is None else document)
    assert read_all(f"{api.url}/items", records="" if isinstance(document, list) else "items") == []


def test_an_empty_page_with_more_behind_it(api):
    pages = [
        {"items": rows(2), "next": "b"},
        {"items": [], "next": "c"},
        {"items": None, "next": "d"},
        {"items": rows(2, 9)},
    ]
    api.answer = lambda asked: pages["abcd".index(asked.query.get("cursor", "a"))]
    assert ids(read_all(f"{api.url}/items", records="items", paginator=PAGINATORS["cursor"])) == [1, 2, 9, 10]


def test_an_empty_text_is_a_cursor_unless_it_is_said_to_end(api):
    pages = {None: {"items": rows(1), "next": ""}, "": {"items": rows(1, 2)}}
    api.answer = lambda asked: pages[asked.query.get("cursor")]
    assert ids(read_all(f"{api.url}/items", records="items", paginator=PAGINATORS["cursor"])) == [1, 2]
    ending = {**PAGINATORS["cursor"], "empty_ends": True}
    assert ids(read_all(f"{api.url}/items", records="items", paginator=ending)) == [1]


def test_one_object_is_one_record(api):
    api.answer = lambda asked: {"item": {"id": 7, "name": "x"}}
    assert read_all(f"{api.url}/items", records="item") == [{"id": 7, "name": "x"}]


def test_pretty_json_with_more_fields_than_columns(api):
    api.answer = lambda asked: Reply(b'{"items": [\n  {"id": 1,\n   "name": "a\\nb",\n   "more": [1,\n2]}\n]}\n')
    assert read_all(f"{api.url}/items", records="items") == [{"id": 1, "name": "a\nb"}]


def test_json_lines(api):
    api.answer = lambda asked: Reply(b'{"id": 1, "name": "a"}\n\n{"id": 2}\n' if asked.query["page"] == "1" else b"")
    found = read_all(f"{api.url}/items", format="jsonl", paginator={"type": "page"})
    assert found == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_csv_with_its_own_order_of_columns(api):
    pages = [b'name,id\n"a,\nb",1\nc,2\n', b"id;name\n3;d\n", b"name,id\n"]
    api.answer = lambda asked: Reply(pages[0] if asked.query["page"] == "1" else pages[2])
    found = read_all(f"{api.url}/items", format="csv", paginator={"type": "page"})
    assert found == [{"id": 1, "name": "a,\nb"}, {"id": 2, "name": "c"}]
    api.answer = lambda asked: Reply(pages[1])
    assert read_all(f"{api.url}/items", format="csv", delimiter=";") == [{"id": 3, "name": "d"}]
    api.answer = lambda asked: Reply(b"4,e\n")
    assert read_all(f"{api.url}/items", format="csv", header=False) == [{"id": 4, "name": "e"}]


def test_bad_records_say_where_they_stand(api):
    items = [{"id": 1, "name": "a"}, {"id": "x"}, 7, None, {"id": 2}]
    api.answer = lambda asked: {
        "items": items if asked.query["page"] == "2" else rows(1, 9) if asked.query["page"] == "1" else []
    }
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, params={"q": "a b"})
    bad = [each for each in found if isinstance(each, BadRecord)]
    origin = f"{api.url}/items?q=a%20b&page=2 page 2 item"
    assert [(each.raw, each.origin) for each in bad] == [
        (b'{"id": "x"}', f"{origin} 2"),
        (b"7", f"{origin} 3"),
        (b"null", f"{origin} 4"),
    ]
    assert [row["id"] for row in found if not isinstance(row, BadRecord)] == [9, 1, 2]


def test_a_column_that_may_not_be_null(api):
    api.answer = lambda asked: {"items": [{"id": 1}, {"name": "b"}]}
    schema = schema_of("id long not null, name string")
    found = read_all(f"{api.url}/items", records="items", schema=schema)
    assert found[0] == {"id": 1, "name": None}
    assert found[1].origin.endswith("page 1 item 2")


def test_bad_records_of_lines_and_csv_have_an_origin_too(api):
    api.answer = lambda asked: Reply(b'{"id": 1}\nnot json\n')
    assert read_all(f"{api.url}/items", format="jsonl")[1].origin.endswith("/items page 1 item 2")
    api.answer = lambda asked: Reply(b"id,name\n1,a\n2\n3,b\n")
    assert read_all(f"{api.url}/items", format="csv")[1].origin.endswith("/items page 1 item 2")


# What goes wrong


def test_a_cursor_that_never_ends_is_an_error_that_names_the_step(api):
    api.answer = lambda asked: {"items": rows(1, len(api.asked)), "next": "same"}
    with Reading(f"{api.url}/items", records="items", paginator=PAGINATORS["cursor"]) as reading:
        assert ids(reading.step()) == [1]
        with pytest.raises(StepFailed) as failed:
            reading.everything()
    assert (failed.value.code, failed.value.step) == ("HTTP-020", "in")
    assert "step 'in'" in str(failed.value)


def test_an_api_that_ignores_the_page_is_noticed(api):
    api.answer = lambda asked: {"items": rows(3)}
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", records="items", paginator={"type": "page"})
    assert failed.value.code == "HTTP-020"
    end = read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, stop={"on_repeat": "end"})
    assert ids(end) == [1, 2, 3]


@pytest.mark.parametrize("status", [500, 503, 408])
def test_what_passes_is_asked_again(api, status):
    ways = [status, status, 200]
    page = pages_of(TABLE, SIZE)
    api.answer = lambda asked: refused(each) if (each := ways.pop(0) if ways else 200) != 200 else page(asked)
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, rate=QUICK)
    assert ids(found) == list(range(1, 24))
    assert len(api.asked) == 6 + 2


def test_a_connection_that_breaks_in_the_body_is_asked_again(api):
    page = pages_of(TABLE, SIZE)
    api.answer = lambda asked: Reply(page(asked), cut=20) if len(api.asked) % 3 == 1 else page(asked)
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, rate=QUICK)
    assert ids(found) == list(range(1, 24))


def test_what_does_not_pass_fails_and_says_why(api):
    api.answer = lambda asked: refused(400, error="no such field")
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", records="items")
    assert failed.value.code == "HTTP-010"
    assert failed.value.message == "the server answered 400"
    assert failed.value.found == f'GET {api.url}/items: {{"error": "no such field"}}'
    assert len(api.asked) == 1


def test_an_answer_that_is_no_json_is_an_external_failure(api):
    api.answer = lambda asked: Reply(b"<html>maintenance</html>")
    with pytest.raises(ExternalFailure) as failed:
        read_all(f"{api.url}/items", records="items")
    assert failed.value.code == "HTTP-012"


def test_a_server_that_is_away_is_told_and_asked_again(api):
    page = pages_of(TABLE, SIZE)
    options = {"records": "items", "paginator": {"type": "page"}, "rate": {**QUICK, "attempts": 2}}
    with Reading(f"{api.url}/items", **options, ahead_bytes=1) as reading:
        found = reading.step()
        with api.away(), pytest.raises(ExternalFailure) as failed:
            while True:
                found += reading.step() or []
        assert failed.value.code == "HTTP-011"
        api.answer = page
        while (more := _step_or_wait(reading)) is not None:
            found += more
    assert ids(found) == list(range(1, 24))


def _step_or_wait(reading):
    """What was away may be told once more, of a request that was under way."""
    while True:
        try:
            return reading.step()
        except ExternalFailure:
            continue


def test_a_server_that_is_away_from_the_start(api):
    with api.away(), Reading(f"{api.url}/items", records="items", rate={**QUICK, "attempts": 2}) as reading:
        start = reading.position
        with pytest.raises(ExternalFailure):
            reading.everything()
        assert reading.position == start


def test_pages_before_an_error_are_read(api):
    page = pages_of(TABLE, SIZE)
    api.answer = lambda asked: page(asked) if int(asked.query["page"]) < 4 else refused(403)
    with Reading(f"{api.url}/items", records="items", paginator={"type": "page"}) as reading:
        found = []
        with pytest.raises(StepFailed):
            while True:
                found += reading.step(5)
    assert ids(found) == list(range(1, 16))


def test_actions_by_status_and_content(api):
    page = pages_of(TABLE, SIZE)

    def answer(asked):
        if asked.path == "/gone":
            return refused(404)
        return Reply({"items": [], "code": "LAST"}, status=400) if asked.query["page"] == "3" else page(asked)

    api.answer = answer
    rules = [{"status": 404, "action": "ignore"}, {"status": 400, "path": "code", "equals": "LAST", "action": "ignore"}]
    options = {"records": "items", "paginator": {"type": "page"}, "on_status": rules}
    assert read_all(f"{api.url}/gone", **options) == []
    assert ids(read_all(f"{api.url}/items", **options)) == list(range(1, 11))


def test_a_slice_starts_over(api):
    page = pages_of(TABLE, SIZE)
    told = []

    def answer(asked):
        if asked.query["page"] == "3" and not told:
            told.append(True)
            return refused(500, error="START OVER")
        return page(asked)

    api.answer = answer
    rules = [{"status": 500, "path": "error", "equals": "START OVER", "action": "reset"}]
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page"}, on_status=rules)
    assert ids(found) == sorted([*range(1, 11), *range(1, 24)])


def test_a_slice_starts_again_behind_the_last_value(api):
    def answer(asked):
        shown = [row for row in TABLE if row["id"] >= int(asked.query.get("min_id", 0))]
        first = (int(asked.query["page"]) - 1) * SIZE
        return refused(400, error="window too large") if first >= 10 else {"items": cut(shown, first)}

    api.answer = answer
    rules = [{"status": 400, "path": "error", "contains": "window", "action": "split"}]
    window = {"field": "id", "param": "min_id", "key": "id"}
    options = {"records": "items", "paginator": {"type": "page"}}
    assert ids(read_all(f"{api.url}/items", **options, on_status=rules, window=window)) == list(range(1, 24))
    assert ids(read_all(f"{api.url}/items", **options, window={**window, "pages": 2})) == list(range(1, 24))


# How often


@pytest.mark.parametrize("said", ["0.05", "Thu, 01 Jan 1970 00:00:00 GMT"])
def test_a_server_says_how_long_to_wait(api, said):
    page = pages_of(TABLE, SIZE)
    api.answer = lambda asked: refused(429, headers=(("Retry-After", said),)) if len(api.asked) == 2 else page(asked)
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page"})
    assert ids(found) == list(range(1, 24))
    assert len(api.asked) == 7


def test_waiting_is_told_to_the_planner_and_to_people(api):
    api.answer = lambda asked: refused(429, headers=(("Retry-After", "300"),))
    with Reading(f"{api.url}/items", records="items") as reading:
        while not (advance := reading.advance()).blocked:
            threading.Event().wait(0.005)
        assert advance.blocked == {"0": "the server answered 429"}
        assert advance.position == reading.position
        assert 0 < advance.not_before - reading.enumerator._run_began() <= 320_000


def test_a_wait_that_is_too_long_is_an_external_failure(api):
    api.answer = lambda asked: refused(429, headers=(("Retry-After", "300"),))
    with pytest.raises(ExternalFailure) as failed:
        read_all(f"{api.url}/items", records="items", rate={"max_wait": "1m"})
    assert failed.value.code == "HTTP-014"
    assert (failed.value.found, failed.value.known) == (f"300 s for {api.url}/items", "60 s")


def test_a_quota_that_is_used_up_is_waited_for(api):
    page = pages_of(TABLE, SIZE)
    headers = (("X-Left", "0"), ("X-Reset", "600"))
    api.answer = lambda asked: Reply(page(asked), headers=headers)
    rate = {"remaining": "X-Left", "reset": "X-Reset"}
    with Reading(f"{api.url}/items", records="items", paginator={"type": "page"}, rate=rate) as reading:
        assert ids(reading.step()) == [1, 2, 3, 4, 5]
        while not (advance := reading.advance()).blocked:
            threading.Event().wait(0.005)
        assert advance.blocked == {"0": "the rate limit of the host"}
        assert len(api.asked) == 1


def test_requests_keep_to_their_rate(api):
    rate = {"requests": 1, "per": "10m", "burst": 2}
    with Reading(f"{api.url}/items", records="items", paginator={"type": "page"}, rate=rate) as reading:
        found = reading.step(1) + reading.step(1)
        while not reading.advance().not_before:
            threading.Event().wait(0.005)
    assert ids(found) == list(range(1, 11))
    assert len(api.asked) == 2


def test_closing_does_not_wait_for_an_answer(api):
    held = threading.Event()
    api.answer = lambda asked: Reply({}, held=held)
    reading = Reading(f"{api.url}/items", records="items", timeout="1h")
    reading.advance()
    while not api.asked:
        threading.Event().wait(0.005)
    reading.enumerator.close()
    held.set()
    assert not any(thread.is_alive() for thread in reading.enumerator._intake._threads)


# Where it leads


def test_a_next_page_on_another_host_is_refused(api):
    api.answer = lambda asked: {"items": rows(1), "next": "http://169.254.169.254/latest/meta-data"}
    with (
        Reading(f"{api.url}/items", records="items", paginator={"type": "link"}) as reading,
        pytest.raises(StepFailed) as failed,
    ):
        reading.everything()
    assert failed.value.code == "HTTP-031"
    assert failed.value.found == "169.254.169.254:80"


def test_private_addresses_are_refused_unless_they_are_allowed(api):
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", records="items", allow_private=False)
    assert failed.value.code == "HTTP-030"
    assert api.asked == []


def test_a_schema_with_times_and_decimals(api):
    body = b'{"items": [{"at": "2024-05-01T10:00:00Z", "price": 12.340000000000000001, "tags": ["a"]}]}'
    api.answer = lambda asked: Reply(body)
    schema = schema_of("at timestamp, price decimal(30,18), tags array<string>")
    (found,) = read_all(f"{api.url}/items", records="items", schema=schema)
    assert str(found["price"]) == "12.340000000000000001"
    assert found["tags"] == ["a"]


def test_a_server_that_has_no_room_is_asked_ever_more_seldom(api, monkeypatch):
    page = pages_of(TABLE, SIZE)
    api.answer = lambda asked: refused(429) if len(api.asked) <= 4 else page(asked)
    waits = []
    rate = {"backoff": 0.01, "max_backoff": 0.05}
    with Reading(f"{api.url}/items", records="items", paginator={"type": "page"}, rate=rate) as reading:
        wait = reading.enumerator._intake.wait
        monkeypatch.setattr(reading.enumerator._intake, "wait", lambda seconds: waits.append(seconds) or wait(seconds))
        reading.everything()
    assert [seconds for seconds in waits if seconds] == [0.01, 0.02, 0.04, 0.05]
