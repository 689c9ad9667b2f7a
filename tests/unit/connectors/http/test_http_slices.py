import pytest

from millstream.connectors.http.paging.slices import (
    NO_SLICES,
    children,
    names_of,
    slice_at,
    slice_name,
    slices_of,
)
from millstream.errors import StepFailed

DAY = 86_400_000
START = 1_704_067_200_000  # 2024-01-01


def every(slices, until=0, cursor=0):
    found = []
    while (at := slice_at(slices, cursor, until)) is not None:
        values, cursor = at
        found.append(dict(values))
    return found


def dates(until, cursor=START, **fields):
    return every(slices_of({"type": "dates", "start": "2024-01-01", **fields}), until, cursor)


def test_without_slices_there_is_one():
    assert every(NO_SLICES) == [{}]
    assert slices_of(None) == NO_SLICES
    assert slice_name({}) == "0"


def test_the_values_of_a_list():
    assert every(slices_of({"type": "list", "name": "org", "values": ["a", 7]})) == [{"org": "a"}, {"org": 7}]
    pairs = slices_of({"type": "list", "name": "-", "values": [{"org": "a", "year": 2024}, {"org": "b", "year": 2025}]})
    assert [slice_name(values) for values in every(pairs)] == ["org=a,year=2024", "org=b,year=2025"]
    assert names_of(pairs) == {"org", "year"}
    none = slices_of({"type": "list", "name": "org", "values": []})
    assert (every(none), names_of(none)) == ([], {"org"})
    some = slices_of({"type": "list", "name": "org", "values": [{"org": "a", "year": 1}, "b"]})
    assert names_of(some) == {"org"}, "what only some have cannot be asked for"


def test_steps_of_time():
    assert dates(START + 2 * DAY + 1000) == [
        {"start": "2024-01-01T00:00:00Z", "end": "2024-01-02T00:00:00Z"},
        {"start": "2024-01-02T00:00:00Z", "end": "2024-01-03T00:00:00Z"},
        {"start": "2024-01-03T00:00:00Z", "end": "2024-01-03T00:00:01Z"},
    ]
    assert dates(START) == []
    assert dates(START - DAY) == []


@pytest.mark.parametrize(
    ("form", "first", "last"),
    [
        ("date", "2024-01-01", "2024-01-02"),
        ("seconds", START // 1000, START // 1000 + 86_400),
        ("milliseconds", START, START + DAY),
        ("%d.%m.%Y", "01.01.2024", "02.01.2024"),
    ],
)
def test_times_are_written_as_the_api_reads_them(form, first, last):
    assert dates(START + DAY, format=form) == [{"start": first, "end": last}]


@pytest.mark.parametrize(
    ("form", "last"),
    [
        ("date", "2024-01-01"),
        ("iso", "2024-01-01T23:59:59Z"),
        ("milliseconds", START + DAY - 1),
        ("%d.%m.%Y", "01.01.2024"),
        ("%Y%m%d%H", "2024010123"),
        ("%Y-%m-%d %H:%M", "2024-01-01 23:59"),
        ("%Y-%m-%d %H:%M:%S", "2024-01-01 23:59:59"),
        ("%Y-%m-%dT%H:%M:%S.%fZ", "2024-01-01T23:59:59.999999Z"),
    ],
)
def test_an_end_may_be_part_of_its_step(form, last):
    assert dates(START + DAY, format=form, inclusive=True)[0]["end"] == last


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("date", DAY),
        ("iso", 1000),
        ("seconds", 1000),
        ("%Y%m%d", DAY),
        ("%d.%m. %H:%M", 60_000),
        ("%Y%m%d%H", 3_600_000),
    ],
)
def test_no_inclusive_step_ends_before_it_starts(form, unit):
    """What is left behind the last whole day or second is for a further run, which begins at the end of this one."""
    assert dates(START + unit // 2, format=form, inclusive=True) == []
    whole = dates(START + unit, format=form, inclusive=True)
    assert len(whole) == 1
    assert dates(START + unit + unit // 2, format=form, step=unit / 1000, inclusive=True) == whole
    halves = dates(START + unit, format=form, step=unit / 2000, inclusive=True)
    assert [each for each in halves if each["end"] < each["start"]] == []


def test_a_parent_may_have_a_number_that_no_position_holds():
    slices = slices_of({"type": "parent", "request": {}, "fields": {"id": "id"}})
    assert children(slices, [{"id": 10**30}]) == [{"id": str(10**30)}]


def test_parents_become_slices():
    slices = slices_of({"type": "parent", "request": {}, "fields": {"repo": "name", "owner": "owner.login"}})
    parents = [{"name": "r1", "owner": {"login": "o"}}, {"name": "r2", "owner": {"login": "p"}}]
    assert children(slices, parents) == [{"repo": "r1", "owner": "o"}, {"repo": "r2", "owner": "p"}]
    assert slice_at(slices, 0, 0) is None


@pytest.mark.parametrize("parent", [{}, {"id": None}, {"id": {"x": 1}}, "text"])
def test_a_parent_without_its_field_is_refused(parent):
    with pytest.raises(StepFailed) as refused:
        children(slices_of({"type": "parent", "request": {}, "fields": {"id": "id"}}), [parent])
    assert refused.value.code == "HTTP-022"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"type": "week"}, "'type' is one of list, parent, dates"),
        ({"type": "list", "name": "x"}, "with 'values'"),
        ({"type": "list", "name": "x", "values": [None]}, "texts, numbers or mappings"),
        ({"type": "list", "name": "x", "values": [{}]}, "texts, numbers or mappings"),
        ({"type": "dates", "start": "yesterday"}, "'start' is an instant such as"),
        ({"type": "dates", "start": "2024-01-01", "end": "later"}, "'end' is an instant such as"),
        ({"type": "dates", "start": "2024-01-01", "step": "0s"}, "'step' is above zero"),
        ({"type": "dates", "start": "2024-01-01", "format": "american"}, "'format' is one of"),
        ({"type": "parent", "request": {}, "fields": {"id": "a[0]"}}, "a path such as"),
        ({"type": "parent", "request": {}, "fields": {"id": 1}}, "paths by name"),
        ({"type": "dates", "start": "2024-01-01", "look_back": -1}, "'look_back' is a duration such as"),
        ({"type": "list", "name": "x", "values": ["\ud800"]}, "text of Unicode"),
    ],
)
def test_what_is_wrong_with_slices_is_said(value, expected):
    with pytest.raises(ValueError) as refused:
        slices_of(value)
    assert expected in str(refused.value)
