import pytest

from millstream.connectors.http.paging.page_request import (
    PageRequest,
    at_address,
    for_slice,
    full_url,
    looks_secret,
    secret_names,
    shown_address,
    slice_names,
    with_token,
    without_token,
    without_values,
)

BASE = PageRequest(
    "POST",
    "https://api.example.com/orgs/${slice:org}/items",
    query=(("since", "${slice:since}"), ("key", "${secret:KEY}")),
    headers=(("X-Org", "org ${slice:org}"),),
    json={"query": "{ items { id } }", "variables": {"org": "${slice:org}", "n": "${slice:number}"}},
)
VALUES = {"org": "a/b c", "since": "2024-01-01T00:00:00+00:00", "number": 7}


def test_the_values_of_a_slice_fill_a_request():
    filled = for_slice(BASE, VALUES)
    assert filled.url == "https://api.example.com/orgs/a%2Fb%20c/items"
    assert filled.query == (("since", "2024-01-01T00:00:00+00:00"), ("key", "${secret:KEY}"))
    assert filled.headers == (("X-Org", "org a/b c"),)
    assert filled.json == {"query": "{ items { id } }", "variables": {"org": "a/b c", "n": 7}}


def test_the_names_in_a_request_are_known():
    assert slice_names(BASE) == {"org", "since", "number"}
    assert secret_names(BASE) == {"KEY"}


@pytest.mark.parametrize(
    ("place", "name", "changed"),
    [
        ("query", "page", {"query": (("a", "1"), ("page", "2"))}),
        ("query", "a", {"query": (("a", "2"),)}),
        ("header", "X-Page", {"headers": (("X-Page", "2"),)}),
        ("form", "page", {"form": (("page", "2"),)}),
        ("json", "page.number", {"json": {"size": 5, "page": {"number": 2}}}),
    ],
)
def test_a_token_goes_to_its_place(place, name, changed):
    request = PageRequest("POST", "https://a.example/x", query=(("a", "1"),), json={"size": 5})
    made = with_token(request, place, name, 2)
    assert made == PageRequest(**{f: changed.get(f, getattr(request, f)) for f in PageRequest.__slots__})


def test_a_token_fills_the_path_or_is_the_path():
    templated = PageRequest("GET", "https://a.example/x/${token}/y")
    assert with_token(templated, "path", "", "a b").url == "https://a.example/x/a%20b/y"
    assert without_token(templated).url == "https://a.example/x//y"
    assert (
        with_token(PageRequest("GET", "https://a.example/x"), "path", "", "/next?a=1").url
        == "https://a.example/next?a=1"
    )


@pytest.mark.parametrize(
    ("base", "link", "there"),
    [
        ("http://a.example/api/r", "http://a.example/api/r?page=2", "http://a.example/api/r?page=2"),
        ("http://a.example/api/r", "/api/r?page=2", "http://a.example/api/r?page=2"),
        ("http://a.example/api/page/3/items", "/api/page/4/items?f=x", "http://a.example/api/page/4/items?f=x"),
        ("http://a.example/api/r?page=2", "/api/r?page=3&c=b", "http://a.example/api/r?page=3&c=b"),
        ("http://a.example:8080/api/r", "/api/r?page=2", "http://a.example:8080/api/r?page=2"),
        ("http://a.example/api/r", "/api/r?q=%E3%81%82", "http://a.example/api/r?q=%E3%81%82"),
        ("http://a.example/api/r?page=1", "?page=2", "http://a.example/api/r?page=2"),
    ],
)
def test_the_next_address_may_be_relative(base, link, there):
    assert at_address(PageRequest("GET", base), link).url == there


def test_parameters_are_not_doubled_by_a_next_address():
    request = PageRequest("GET", "http://a.example/r", query=(("one", "1"), ("key", "${secret:KEY}")))
    assert (
        full_url(at_address(request, "/r?page=2&one=1")) == "http://a.example/r?page=2&one=1&key=%24%7Bsecret%3AKEY%7D"
    )
    assert at_address(request, "/r?page=2&key=mine").query == ()


def test_secrets_are_left_out_of_a_next_address():
    address = "https://a.example/r?access_token=s3cret&page=2&empty="
    assert without_values(address, {"s3cret"}) == "https://a.example/r?page=2&empty="
    assert without_values(address, {"other"}) == address


def test_secrets_of_a_path_are_names_again_in_a_next_address():
    address = "https://a.example/bot/s3%2Fcret/r?page=2&empty="
    named = {"TOKEN": "s3/cret"}
    assert without_values(address, set(), named) == "https://a.example/bot/${secret:TOKEN}/r?page=2&empty="
    assert without_values(address, set(), {"TOKEN": "other"}) == address


def test_an_address_is_shown_without_secrets():
    request = PageRequest(
        "GET", "https://a.example/r?sig=abc&page=1", query=(("token", "t"), ("key", "${secret:KEY}"), ("q", "x y"))
    )
    shown = shown_address(request)
    assert shown == "https://a.example/r?sig=***&page=1&token=***&key=${secret:KEY}&q=x%20y"


@pytest.mark.parametrize(
    "name", ["token", "key", "api_key", "apikey", "X-Api-Key", "access_token", "Authorization", "password"]
)
def test_names_of_secrets(name):
    assert looks_secret(name)


@pytest.mark.parametrize(
    "name", ["author", "page_token", "next_token", "sort_key", "keyword", "cursor", "monkey", "index_key"]
)
def test_names_that_are_none(name):
    assert not looks_secret(name)
