import msgspec
import pytest

from millstream.connectors.http.paging.paths import MISSING, found_at, raw_records, steps_of, with_value

DOCUMENT = {"data": {"items": [{"id": 1}, {"id": 2}]}, "@odata.nextLink": "x", "a/b": {"~": 3}, "n": None, "0": "zero"}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", DOCUMENT),
        ("data.items.0.id", 1),
        ("data.items.-1.id", 2),
        ("/data/items/1/id", 2),
        ("/@odata.nextLink", "x"),
        ("/a~1b/~0", 3),
        ("n", None),
        ("0", "zero"),
        ("n.x", MISSING),
        ("data.items.2", MISSING),
        ("data.items.-3", MISSING),
        ("data.items.id", MISSING),
        ("nowhere.at.all", MISSING),
    ],
)
def test_what_lies_at_a_path(path, found):
    assert found_at(DOCUMENT, steps_of(path)) == found


@pytest.mark.parametrize("path", ["$.data", "data[0]", "data.*", "a..b", ".a", "a.", "items[?(@.x)]"])
def test_paths_are_no_language(path):
    with pytest.raises(ValueError, match="without wildcards"):
        steps_of(path)


def test_a_value_is_placed_and_the_rest_stays():
    body = {"query": "{ x }", "variables": {"first": 10, "list": [1, {"after": None}]}}
    assert with_value(body, ("variables", "list", "1", "after"), "c")["variables"]["list"] == [1, {"after": "c"}]
    assert with_value(body, ("page", "offset"), 5) == {**body, "page": {"offset": 5}}
    assert with_value(None, ("cursor",), 1) == {"cursor": 1}
    assert body["variables"]["list"][1] == {"after": None}


@pytest.mark.parametrize(
    ("body", "path", "records"),
    [
        (b'{"items": [{"a": 1.10}, 2 , null]}', "items", [b'{"a": 1.10}', b"2", b"null"]),
        (b' \n[ {"a":1},\n {"a": 2} ]\n', "", [b'{"a":1}', b'{"a": 2}']),
        (b'{"items": null}', "items", []),
        (b'{"other": []}', "items", []),
        (b'{"items": []}', "items", []),
        (b'{"item": {"a": 123456789012345678901234567890}}', "item", [b'{"a": 123456789012345678901234567890}']),
        (b"null", "", []),
        (b'[[1], [{"b": 2}]]', "1", [b'{"b": 2}']),
        (b'"text"', "x", []),
        (b'{"a": "text"}', "a.b", []),
    ],
)
def test_records_keep_every_digit(body, path, records):
    assert raw_records(body, steps_of(path)) == records


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"items": [1,}', b'{"items": [1, 2'])
def test_what_is_no_json_is_refused(body):
    with pytest.raises(msgspec.DecodeError):
        raw_records(body, ("items",))
