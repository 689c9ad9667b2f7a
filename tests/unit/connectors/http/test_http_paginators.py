import pytest

from millstream.connectors.http.paging.links import linked
from millstream.connectors.http.paging.page_request import PageRequest, full_url
from millstream.connectors.http.paging.pages import FetchedPage
from millstream.connectors.http.paging.paginators import first_token, next_token, page_request, paginator_of
from millstream.connectors.http.paging.paths import MISSING
from millstream.errors import StepFailed

REQUEST = PageRequest("GET", "https://a.example/items", query=(("sort", "id"),))


def page(document=MISSING, records=({"id": 1},), headers=()):
    return FetchedPage(dict(headers), document, list(records), "digest")


def asked(paginator, token, *, is_first=False, request=REQUEST):
    return page_request(paginator, request, token, is_first=is_first)


def test_one_page_has_no_next():
    paginator = paginator_of({"type": "single"})
    assert first_token(paginator) is None
    assert asked(paginator, None, is_first=True) == REQUEST
    assert next_token(paginator, None, page({"next": "https://a.example/2"}, headers={"link": "<x>; rel=next"})) is None


def test_pages_are_counted():
    paginator = paginator_of({"type": "page", "param": "p", "start": 0, "size": 50, "size_param": "per_page"})
    assert first_token(paginator) == 0
    assert full_url(asked(paginator, 0, is_first=True)) == "https://a.example/items?sort=id&per_page=50&p=0"
    assert next_token(paginator, 0, page(records=[])) == 1


def test_the_first_page_may_be_asked_for_without_its_number():
    paginator = paginator_of({"type": "page", "omit_first": True})
    assert asked(paginator, 1, is_first=True) == REQUEST
    assert full_url(asked(paginator, 2)).endswith("sort=id&page=2")


def test_offsets_grow_by_the_limit_or_by_what_came():
    by_limit = paginator_of({"type": "offset", "size": 42, "start": 123})
    assert full_url(asked(by_limit, 123, is_first=True)) == "https://a.example/items?sort=id&limit=42&offset=123"
    assert next_token(by_limit, 123, page()) == 165
    by_records = paginator_of({"type": "offset", "size": 42, "by": "records"})
    assert next_token(by_records, 7, page(records=[1, 2, 3])) == 10
    assert asked(paginator_of({"type": "offset", "size": 5, "size_param": None}), 0).query == (
        ("sort", "id"),
        ("offset", "0"),
    )


def test_an_offset_goes_into_a_body():
    paginator = paginator_of({"type": "offset", "size": 5, "param": "page.offset", "in": "json", "size_in": "json"})
    request = PageRequest("POST", "https://a.example/search", json={"ids": [1]})
    assert asked(paginator, 10, request=request).json == {"ids": [1], "limit": 5, "page": {"offset": 10}}


@pytest.mark.parametrize(
    ("fields", "answer", "token"),
    [
        ({"path": "next"}, page({"next": "c2"}), "c2"),
        ({"path": "meta.next"}, page({"meta": {"next": 17}}), 17),
        ({"path": "next"}, page({"next": None}), None),
        ({"path": "next"}, page({}), None),
        ({"path": "next"}, page({"next": ""}), ""),
        ({"path": "next"}, page({"next": 0}), 0),
        ({"path": "next"}, page({"next": False}), False),
        ({"path": "next", "empty_ends": True}, page({"next": ""}), None),
        ({"path": "next"}, page({"next": "c2"}, records=[]), "c2"),
        ({"header": "X-Next"}, page(headers={"x-next": "c2"}), "c2"),
        ({"header": "X-Next"}, page(), None),
        ({"path": "items.-1.id"}, page({"items": [{"id": 1}, {"id": 9}]}), 9),
    ],
)
def test_absence_of_a_cursor_is_the_end_and_nothing_else_is(fields, answer, token):
    found = next_token(paginator_of({"type": "cursor", **fields}), "c1", answer)
    assert (type(found), found) == (type(token), token)


def test_an_empty_cursor_is_sent():
    assert (
        full_url(asked(paginator_of({"type": "cursor", "path": "next"}), ""))
        == "https://a.example/items?sort=id&cursor="
    )


@pytest.mark.parametrize(
    ("place", "made"),
    [
        ("query", PageRequest("GET", "https://a.example/i", query=(("after", "c2"),))),
        ("header", PageRequest("GET", "https://a.example/i", headers=(("after", "c2"),))),
        ("form", PageRequest("GET", "https://a.example/i", form=(("after", "c2"),))),
        ("json", PageRequest("GET", "https://a.example/i", json={"after": "c2"})),
        ("path", PageRequest("GET", "https://a.example/c2")),
    ],
)
def test_a_cursor_goes_into_each_of_five_places(place, made):
    paginator = paginator_of({"type": "cursor", "path": "next", "param": "after", "in": place})
    assert asked(paginator, "c2", request=PageRequest("GET", "https://a.example/i")) == made


def test_a_link_in_the_answer_is_followed():
    paginator = paginator_of({"type": "link", "path": "/@odata.nextLink"})
    token = next_token(paginator, None, page({"@odata.nextLink": "/items?skip=2"}))
    assert full_url(asked(paginator, token)) == "https://a.example/items?skip=2"
    assert next_token(paginator, token, page({"value": []})) is None


@pytest.mark.parametrize("wrong", [{"url": "x"}, ["x"], 7, True])
def test_a_link_that_is_none_is_refused(wrong):
    with pytest.raises(StepFailed) as refused:
        next_token(paginator_of({"type": "link"}), None, page({"next": wrong}))
    assert refused.value.code == "HTTP-022"


@pytest.mark.parametrize(
    ("header", "rel", "address"),
    [
        ('<https://a.example/2>; rel="next", <https://a.example/9>; rel="last"', "next", "https://a.example/2"),
        ('<https://a.example/2>; rel="next", <https://a.example/9>; rel="last"', "last", "https://a.example/9"),
        ("<https://a.example/2>; rel=next", "next", "https://a.example/2"),
        ('</2?a=1,2;3>; title="a, b; rel=next"; rel="prev next"', "next", "/2?a=1,2;3"),
        ('<https://a.example/2>;REL="next"', "next", "https://a.example/2"),
        ('<https://a.example/2>; rel="NEXT"', "next", "https://a.example/2"),
        ("<https://a.example/2>; rel='next'", "next", "https://a.example/2"),
        ("<https://a.example/2>; rel='first next', <https://a.example/9>; rel='last'", "last", "https://a.example/9"),
        ("<https://a.example/2>; rel='first next', <https://a.example/9>; rel='last'", "next", "https://a.example/2"),
        ('<https://a.example/1>; rel="prev"', "next", None),
        ("", "next", None),
        ("garbage; rel=next", "next", None),
    ],
)
def test_links_in_a_header(header, rel, address):
    assert linked(header, rel) == address


@pytest.mark.parametrize("large", [10**30, -(10**30), 2**63])
def test_a_number_that_no_position_holds_is_a_token_as_text(large):
    cursor = paginator_of({"type": "cursor", "path": "next"})
    assert next_token(cursor, None, page({"next": large})) == str(large)
    keyset = paginator_of({"type": "keyset", "field": "id", "param": "since"})
    assert next_token(keyset, None, page(records=({"id": large},))) == str(large)
    with pytest.raises(ValueError, match="a whole number of 64 bits"):
        paginator_of({"type": "page", "start": large})


def test_the_last_key_is_the_next_token():
    paginator = paginator_of({"type": "keyset", "field": "key.id", "param": "since_id"})
    assert asked(paginator, None, is_first=True) == REQUEST
    assert next_token(paginator, None, page(records=[{"key": {"id": 3}}, {"key": {"id": 7}}])) == 7
    assert full_url(asked(paginator, 7)) == "https://a.example/items?sort=id&since_id=7"
    assert next_token(paginator, 7, page(records=[])) is None
    assert first_token(paginator_of({"type": "keyset", "field": "id", "param": "s", "start": 100})) == 100


@pytest.mark.parametrize("last", [{}, {"id": None}, {"id": {"x": 1}}, {"id": True}, "text"])
def test_a_last_record_without_a_key_is_refused(last):
    with pytest.raises(StepFailed) as refused:
        next_token(paginator_of({"type": "keyset", "field": "id", "param": "s"}), None, page(records=[last]))
    assert refused.value.code == "HTTP-022"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({}, "'type' is one of single, page, offset"),
        ({"type": "pages"}, "'type' is one of"),
        ("page", "as a mapping whose 'type'"),
        ({"type": "page", "parm": "p"}, "paginator 'page' without 'parm'; its fields are param, start"),
        ({"type": "page", "start": "1"}, "whose 'start' is int"),
        ({"type": "page", "start": True}, "whose 'start' is int"),
        ({"type": "page", "param": ""}, "whose 'param' is text that is not empty"),
        ({"type": "page", "in": "body"}, "whose 'in' is one of query, header, json, form, path"),
        ({"type": "page", "size_param": "n"}, "whose 'size_param' comes with 'size'"),
        ({"type": "offset"}, "paginator 'offset' with 'size': records of a full page"),
        ({"type": "offset", "size": 0}, "whose 'size' is a number above zero"),
        ({"type": "cursor"}, "with either 'path' or 'header'"),
        ({"type": "cursor", "path": "a", "header": "b"}, "with either 'path' or 'header'"),
        ({"type": "cursor", "path": "a[0]"}, "whose 'path' is a path such as"),
        ({"type": "keyset", "param": "s"}, "with 'field'"),
    ],
)
def test_what_is_wrong_with_a_paginator_is_said(value, expected):
    with pytest.raises(ValueError) as refused:
        paginator_of(value)
    assert expected in str(refused.value)
