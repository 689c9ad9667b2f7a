"""Pages that are asked for before the one in front of them has come: the rows are those of pages asked for one by one."""

import threading

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import QUICK, Reading, checked, pages_of, read_all, refused, rows

from millstream.connectors.http.ahead import PagesAhead
from millstream.connectors.http.asking.exchange import ExchangeClosed
from millstream.connectors.http.paging.page_request import PageRequest
from millstream.connectors.http.paging.turning import SliceState, next_request, paging_of, requests_ahead

TABLE = rows(23)
SIZE = 5


def numbers(api):
    return sorted(int(asked.query["page"]) for asked in api.asked)


@pytest.fixture(autouse=True)
def _table(api):
    api.answer = pages_of(TABLE, SIZE)


@pytest.mark.parametrize("ahead", [0, 1, 3, 16])
def test_the_rows_are_the_same_in_the_same_order(api, ahead):
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page", "ahead": ahead})
    assert found == TABLE
    assert numbers(api)[:6] == [1, 2, 3, 4, 5, 6], "the sixth is empty and ends the slice"
    assert len(api.asked) <= 6 + ahead


def test_offsets_too(api):
    api.answer = lambda asked: {"items": TABLE[int(asked.query["offset"]) :][:SIZE]}
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "offset", "size": SIZE, "ahead": 2})
    assert found == TABLE


def test_offsets_by_records_that_come_short_are_asked_for_again(api):
    def answer(asked):
        first = int(asked.query["offset"])
        return {"items": TABLE[first : first + (SIZE if first != 5 else 2)]}

    api.answer = answer
    paginator = {"type": "offset", "size": SIZE, "by": "records", "ahead": 2}
    assert read_all(f"{api.url}/items", records="items", paginator=paginator) == TABLE


def test_what_is_wrong_behind_the_end_is_nobodys_concern(api):
    def answer(asked):
        page = int(asked.query["page"])
        return pages_of(TABLE, SIZE)(asked) if page <= 5 else refused(404)

    api.answer = answer
    found = read_all(
        f"{api.url}/items", records="items", stop={"short": True}, paginator={"type": "page", "size": SIZE, "ahead": 3}
    )
    assert found == TABLE


def test_an_error_inside_is_told_when_its_turn_comes(api):
    failures = {3: 2}

    def answer(asked):
        page = int(asked.query["page"])
        if failures.get(page, 0):
            failures[page] -= 1
            return refused(503)
        return pages_of(TABLE, SIZE)(asked)

    api.answer = answer
    found = read_all(f"{api.url}/items", records="items", paginator={"type": "page", "ahead": 2}, rate=QUICK)
    assert found == TABLE


def test_a_source_that_closes_does_not_wait_for_pages_ahead(api):
    held = threading.Event()

    def answer(asked):
        page = pages_of(TABLE, SIZE)(asked)
        return page if int(asked.query["page"]) < 3 else Reply(page, held=held)

    api.answer = answer
    try:
        with Reading(f"{api.url}/items", records="items", paginator={"type": "page", "ahead": 2}) as reading:
            assert reading.step(credit=5) is not None
    finally:
        held.set()


# Which requests


def plan_of(**paginator):
    return paging_of(checked("https://a.example/items", records="items", paginator=paginator))


def test_none_before_the_first_page_has_come():
    plan = plan_of(type="page", ahead=3)
    assert requests_ahead(plan, SliceState(token=1)) == []


def test_as_many_as_asked_for_and_no_more_than_there_may_be():
    plan = plan_of(type="page", ahead=3)
    state = SliceState(token=4, pages=3, since=(3, 15))
    expected = [next_request(plan, SliceState(token=token, since=(9, 9))) for token in (5, 6, 7)]
    assert requests_ahead(plan, state) == expected
    last = plan.stop.max_pages - 2
    assert len(requests_ahead(plan, SliceState(token=4, pages=last, since=(last, 15)))) == 1


@pytest.mark.parametrize("ahead", [-1, 17])
def test_a_wrong_number_is_refused(ahead):
    with pytest.raises(Exception, match="from 0 to 16"):
        plan_of(type="page", ahead=ahead)


def test_behind_the_end_nothing_is_asked():
    ahead = PagesAhead(lambda request, resting: None, threads=1)
    ahead.close()
    with pytest.raises(ExchangeClosed):
        ahead.answer("0", PageRequest("GET", "a"), [PageRequest("GET", "b")], lambda until, why: None)
