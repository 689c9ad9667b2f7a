"""One slice, page by page, as a function of what came."""

import hashlib
import json

import pytest

from millstream.connectors.http.paging.page_request import full_url
from millstream.connectors.http.paging.pages import BodyFormat, HttpAnswer, page_of
from millstream.connectors.http.paging.turning import (
    MOST_RESETS,
    after_page,
    begun,
    next_request,
    paging_of,
    reset,
    split,
)
from millstream.errors import StepFailed

DEFAULTS = {"method": "GET", "params": {}, "headers": {}, "json": None, "form": None, "stop": {}, "window": None}


def plan_of(**options):
    return paging_of({**DEFAULTS, "url": "https://a.example/items", **options})


def page(document):
    return page_of(HttpAnswer(200, {}, json.dumps(document).encode()), BodyFormat("json", ("items",), ",", header=True))


def turned(plan, documents, state=None):
    """The states behind pages that come one after the other, and the last outcome."""
    state = begun(plan, "0", {}) if state is None else state
    outcome = None
    for document in documents:
        outcome = after_page(plan, state, page(document))
        state = outcome.state
    return state, outcome


def test_pages_and_records_are_counted():
    plan = plan_of(paginator={"type": "cursor", "path": "next"})
    state, _ = turned(plan, [{"items": [1, 2], "next": "b"}, {"items": None, "next": "c"}, {"next": "d"}])
    assert (state.token, state.pages, state.records) == ("d", 3, 2)
    assert full_url(next_request(plan, state)) == "https://a.example/items?cursor=d"
    end, outcome = turned(plan, [{"items": [9]}], state)
    assert (end, outcome.why) == (None, "no next token")


def test_a_token_that_comes_again_is_an_error_or_the_end():
    plan = plan_of(paginator={"type": "cursor", "path": "next"})
    state, _ = turned(plan, [{"items": [1], "next": "b"}])
    with pytest.raises(StepFailed) as refused:
        after_page(plan, state, page({"items": [2], "next": "b"}))
    assert refused.value.code == "HTTP-020"
    assert "empty_ends" in refused.value.hint
    ending = plan_of(paginator={"type": "cursor", "path": "next"}, stop={"on_repeat": "end"})
    outcome = after_page(ending, state, page({"items": [2], "next": "b"}))
    assert (outcome.state, outcome.skip) == (None, ())


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 21, 64])
@pytest.mark.parametrize("lead", [0, 1, 7])
def test_a_round_of_any_length_is_noticed(lead, length):
    """Tokens go through a lead and then round and round; what is kept of them stays small."""
    plan = plan_of(paginator={"type": "cursor", "path": "next"})
    state = begun(plan, "0", {})
    for number in range(1, 4 * (lead + length) + 16):
        name = number if number < lead + length else lead + (number - lead) % length
        try:
            state = after_page(plan, state, page({"items": [number], "next": f"t{name}"})).state
        except StepFailed as refused:
            assert refused.code == "HTTP-020"
            assert number >= lead + length
            return
        assert len(state.seen) <= 3 + number.bit_length()
    raise AssertionError("nobody noticed")


def test_the_same_page_twice_is_an_error_and_none_of_its_rows_count():
    paginator = {"type": "page"}
    state, _ = turned(plan_of(paginator=paginator), [{"items": [1, 2]}])
    with pytest.raises(StepFailed) as refused:
        after_page(plan_of(paginator=paginator), state, page({"items": [1, 2]}))
    assert refused.value.code == "HTTP-020"
    ending = plan_of(paginator=paginator, stop={"on_repeat": "end"})
    outcome = after_page(ending, state, page({"items": [1, 2]}))
    assert (outcome.state, outcome.skip) == (None, (0, 1))


def test_empty_pages_may_be_the_same():
    plan = plan_of(paginator={"type": "page"}, stop={"empty": False, "max_page": 9})
    state, _ = turned(plan, [{"items": [1]}, {"items": []}, {"items": []}, {"items": [2]}])
    assert (state.pages, state.records, state.token) == (4, 2, 5)


def test_more_pages_than_allowed_are_an_error_or_the_end():
    documents = [{"items": [1]}, {"items": [2]}]
    with pytest.raises(StepFailed) as refused:
        turned(plan_of(paginator={"type": "page"}, stop={"max_pages": 2}), documents)
    assert refused.value.code == "HTTP-021"
    assert turned(plan_of(paginator={"type": "page"}, stop={"max_pages": 3}), documents)[0].pages == 2
    ending = plan_of(paginator={"type": "page"}, stop={"max_pages": 2, "on_max_pages": "end"})
    assert turned(ending, documents)[0] is None


def test_the_last_page_within_the_limit_is_no_error():
    plan = plan_of(paginator={"type": "page"}, stop={"max_pages": 2})
    assert turned(plan, [{"items": [1]}, {"items": []}])[1].why == "an empty page"


def test_a_next_address_is_looked_at_before_it_is_kept():
    plan = plan_of(paginator={"type": "link"})
    state = begun(plan, "0", {})
    outcome = after_page(plan, state, page({"items": [1], "next": "/2"}), lambda link: f"https://a.example{link}")
    assert outcome.state.token == "https://a.example/2"
    with pytest.raises(StepFailed) as refused:
        after_page(plan, outcome.state, page({"items": [2], "next": "/2"}), lambda link: f"https://a.example{link}")
    assert refused.value.code == "HTTP-020"


def test_starting_over_ends_some_time():
    plan = plan_of(paginator={"type": "page"})
    state, _ = turned(plan, [{"items": [1]}])
    for number in range(1, MOST_RESETS + 1):
        state = reset(plan, state)
        assert (state.token, state.pages, state.resets) == (1, 0, number)
    with pytest.raises(StepFailed) as refused:
        reset(plan, state)
    assert refused.value.code == "HTTP-024"


WINDOW = {"field": "at", "param": "from", "key": "id", "pages": 2}


def items(*pairs):
    return {"items": [{"at": at, "id": number} for at, number in pairs]}


def test_a_full_window_starts_again_behind_its_edge_without_doubles():
    plan = plan_of(paginator={"type": "page"}, window=WINDOW)
    state, _ = turned(plan, [items((1, 1), (2, 2)), items((2, 3), (2, 4))])
    assert (state.token, state.since, state.cut.value, state.pages) == (1, (0, 0), 2, 2)
    assert full_url(next_request(plan, state)) == "https://a.example/items?from=2&page=1"
    outcome = after_page(plan, state, page(items((2, 2), (2, 3), (2, 5), (3, 6))))
    assert outcome.skip == (0, 1)
    assert outcome.state.edge.value == 3


def test_a_window_of_records():
    plan = plan_of(paginator={"type": "offset", "size": 2}, window={**WINDOW, "pages": None, "records": 4})
    state, _ = turned(plan, [items((1, 1), (2, 2)), items((3, 3), (4, 4))])
    assert (state.token, state.cut.value) == (0, 4)


def test_a_window_full_of_one_value_is_refused():
    plan = plan_of(paginator={"type": "page"}, window=WINDOW)
    state, _ = turned(plan, [items((1, 1)), items((2, 2))])
    with pytest.raises(StepFailed) as refused:
        turned(plan, [items((2, 2), (2, 3)), items((2, 4))], state)
    assert refused.value.code == "HTTP-023"


def test_a_record_without_the_sorted_field_is_refused():
    plan = plan_of(paginator={"type": "page"}, window=WINDOW)
    with pytest.raises(StepFailed) as refused:
        turned(plan, [{"items": [{"id": 1}]}])
    assert refused.value.code == "HTTP-022"


def test_a_server_may_ask_to_start_again_behind_the_last_value():
    plan = plan_of(paginator={"type": "page"}, window={**WINDOW, "pages": 100})
    state, _ = turned(plan, [items((1, 1), (2, 2))])
    assert split(plan, state).cut.value == 2


def test_no_row_is_lost_or_doubled_by_a_window():
    """An API that shows at most three pages of four, sorted, with many rows of one value."""
    table = [{"at": number // 3, "id": hashlib.sha256(bytes([number])).hexdigest()} for number in range(60)]
    plan = plan_of(paginator={"type": "page", "size": 4}, window={**WINDOW, "pages": 3})
    state, found = begun(plan, "0", {}), []
    while state is not None:
        query = dict(next_request(plan, state).query)
        shown = [row for row in table if row["at"] >= int(query.get("from", 0))]
        first = (int(query["page"]) - 1) * 4
        assert first < 12, "nobody turns further"
        document = {"items": shown[first : first + 4]}
        outcome = after_page(plan, state, page(document))
        found += [row for number, row in enumerate(document["items"]) if number not in outcome.skip]
        state = outcome.state
    assert found == table
