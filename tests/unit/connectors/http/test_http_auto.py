"""Paginator `auto`: follows a next address wherever it stands, and does not take a first page for all there is."""

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import Reading, read_all, rows

from millstream.connectors.http.paging.links import detected
from millstream.errors import StepFailed

TABLE = rows(23)
SIZE = 5

PLACES = {
    "next": lambda address: {"next": address},
    "links": lambda address: {"links": {"self": "/x", "next": address}},
    "_links": lambda address: {"_links": {"next": {"href": address}}},
    "paging": lambda address: {"paging": {"next": address, "total_pages": 5}},
    "odata": lambda address: {"@odata.nextLink": address},
    "meta": lambda address: {"meta": {"next_url": address, "last_page": 5}},
}


@pytest.mark.parametrize("place", [*PLACES, "header"])
@pytest.mark.parametrize("form", ["{url}/items?at={at}", "/items?at={at}", "?at={at}"])
def test_addresses_are_followed_wherever_they_stand(api, place, form):
    def answer(asked):
        first = int(asked.query.get("at", 0))
        document = {"items": TABLE[first : first + SIZE]}
        if first + SIZE >= len(TABLE):
            return document
        address = form.format(url=api.url, at=first + SIZE)
        if place == "header":
            return Reply(document, headers=(("Link", f'<{address}>; rel="next"'),))
        return {**document, **PLACES[place](address)}

    api.answer = answer
    assert read_all(f"{api.url}/items", records="items", paginator={"type": "auto"}) == TABLE


def test_one_page_is_one_page(api):
    api.answer = lambda asked: {"items": TABLE, "next": None, "has_more": False, "total_pages": 1, "next_cursor": ""}
    assert read_all(f"{api.url}/items", records="items", paginator={"type": "auto"}) == TABLE
    assert len(api.asked) == 1


SIGNS = {
    "a cursor": ({"next_cursor": "abc"}, "'path': 'next_cursor'"),
    "a cursor inside": ({"response_metadata": {"next_cursor": "abc"}}, "'path': 'response_metadata.next_cursor'"),
    "a token where an address may stand": ({"next": "dXNlcjpV"}, "'path': 'next'"),
    "the number of the next page": ({"next": 2}, "'path': 'next'"),
    "more": ({"has_more": True}, "'type': 'page'"),
    "pages": ({"meta": {"last_page": 5}}, "'type': 'page'"),
}


@pytest.mark.parametrize("sign", SIGNS)
def test_a_first_page_that_tells_of_others_is_not_taken_for_all(api, sign):
    document, hint = SIGNS[sign]
    api.answer = lambda asked: {"items": TABLE[:SIZE], **document}
    with (
        Reading(f"{api.url}/items", records="items", paginator={"type": "auto"}) as reading,
        pytest.raises(StepFailed) as refusal,
    ):
        reading.everything()
    assert refusal.value.code == "HTTP-025"
    assert hint in refusal.value.hint


def test_a_last_page_may_tell_of_pages():
    assert detected({}, {"total_pages": 5, "cursor": "abc"}, is_first=False) is None
