import pytest

from millstream.connectors.http.paging.pages import FetchedPage
from millstream.connectors.http.paging.paginators import paginator_of
from millstream.connectors.http.paging.stops import ending, stops_of
from millstream.errors import StepFailed

PAGE = {"type": "page"}
OFFSET = {"type": "offset", "size": 10}
CURSOR = {"type": "cursor", "path": "next"}
LINK = {"type": "link"}
HEADER_LINK = {"type": "header_link"}
KEYSET = {"type": "keyset", "field": "id", "param": "since"}
EVERY = [PAGE, OFFSET, CURSOR, LINK, HEADER_LINK, KEYSET]
FULL = [{"id": number} for number in range(10)]


def end_of(paginator, stop, *, document=None, records=FULL, token=2, pages=1, fetched=None, headers=()):
    paginator = paginator_of(paginator)
    rules = stops_of(stop, paginator)
    page = FetchedPage(dict(headers), {} if document is None else document, records, "digest")
    count = pages * 10 if fetched is None else fetched
    return ending(rules, paginator, page, token, since=(pages, count), records=count)


@pytest.mark.parametrize("paginator", EVERY, ids=lambda each: each["type"])
class TestEveryPaginator:
    def test_without_a_next_token_there_is_no_next_page(self, paginator):
        assert end_of(paginator, {}, token=None) == "no next token"

    def test_a_full_page_with_a_token_is_not_the_last(self, paginator):
        assert end_of(paginator, {}) is None

    def test_an_empty_page(self, paginator):
        assert end_of(paginator, {"empty": True}, records=[]) == "an empty page"
        more = {"empty": False, "has_more": {"path": "more"}}
        assert end_of(paginator, more, records=[], document={"more": True}) is None
        is_usual = paginator["type"] in ("page", "offset", "keyset")
        assert end_of(paginator, {}, records=[]) == ("an empty page" if is_usual else None)

    def test_a_short_page(self, paginator):
        sized = {**paginator, "size": 10}
        assert end_of(sized, {"short": True}, records=FULL[:9]) == "a short page"
        assert end_of(sized, {"short": True}) is None

    @pytest.mark.parametrize("said", [False, "false", "False"])
    def test_has_more(self, paginator, said):
        assert end_of(paginator, {"has_more": {"path": "more"}}, document={"more": said}) == "no more"
        assert end_of(paginator, {"has_more": {"path": "more"}}, document={"more": "true"}) is None

    def test_no_rule_revives_what_another_has_ended(self, paginator):
        going_on = {"has_more": {"path": "more"}, "empty": True}
        assert end_of(paginator, going_on, document={"more": True}, token=None) == "no next token"
        assert end_of(paginator, going_on, document={"more": True}, records=[]) == "an empty page"

    @pytest.mark.parametrize("document", [{}, {"more": None}, {"more": "perhaps"}, {"more": 1}])
    def test_an_answer_that_does_not_say_is_refused(self, paginator, document):
        with pytest.raises(StepFailed) as refused:
            end_of(paginator, {"has_more": {"path": "more"}}, document=document)
        assert refused.value.code == "HTTP-022"

    def test_an_answer_that_does_not_say_may_be_the_end(self, paginator):
        assert end_of(paginator, {"has_more": {"path": "more", "missing": "end"}}) == "no more"

    def test_what_the_answer_says(self, paginator):
        stop = {"when": {"path": "state", "equals": ["done", "closed"]}}
        assert end_of(paginator, stop, document={"state": "done"}) == "what the answer says"
        assert end_of(paginator, stop, document={"state": "open"}) is None
        by_header = {"when": {"header": "X-Last", "exists": True}}
        assert end_of(paginator, by_header, headers={"x-last": "1"}) == "what the answer says"

    def test_enough_records(self, paginator):
        assert end_of(paginator, {"max_records": 30}, pages=3) == "enough records"
        assert end_of(paginator, {"max_records": 31}, pages=3) is None

    def test_a_total_of_pages(self, paginator):
        stop = {"total": {"path": "pages", "of": "pages"}}
        assert end_of(paginator, stop, document={"pages": 3}, pages=3) == "the total"
        assert end_of(paginator, stop, document={"pages": "3"}, pages=2) is None

    @pytest.mark.parametrize("total", [None, "many", {"count": 5}, [100], True, 1.5])
    def test_a_total_that_is_none_is_refused(self, paginator, total):
        with pytest.raises(StepFailed) as refused:
            end_of(paginator, {"total": {"path": "total"}}, document={"total": total})
        assert refused.value.code == "HTTP-022"

    def test_a_total_that_is_missing_is_refused(self, paginator):
        with pytest.raises(StepFailed):
            end_of(paginator, {"total": {"header": "X-Total"}})


def test_a_total_of_records_is_counted_by_what_came():
    stop = {"total": {"path": "total"}}
    document = {"total": 25}
    assert end_of(OFFSET, stop, document=document, token=20, fetched=0) is None
    assert end_of(OFFSET, stop, document=document, token=30, fetched=0) == "the total"
    assert end_of({**PAGE, "size": 10}, stop, document=document, pages=2, fetched=20) is None
    assert end_of({**PAGE, "size": 10}, stop, document=document, pages=3, fetched=25) == "the total"
    assert end_of(CURSOR, stop, document=document, pages=3, fetched=24) is None
    assert end_of(CURSOR, stop, document=document, pages=3, fetched=25) == "the total"
    assert end_of(CURSOR, {"total": {"header": "X-Total"}}, headers={"x-total": "7"}, fetched=7) == "the total"


def test_an_api_that_gives_fewer_records_than_a_page_is_asked_for_is_read_to_its_end():
    stop, document = {"total": {"path": "total"}}, {"total": 25}
    wanted = {**PAGE, "size": 100}
    assert end_of(wanted, stop, document=document, pages=1, fetched=10) is None
    assert end_of(wanted, stop, document=document, pages=3, fetched=25) == "the total"


def test_a_total_of_which_some_records_never_come_ends_behind_what_was_asked_for():
    stop, document = {"total": {"path": "total"}, "empty": False}, {"total": 25}
    sized = {**PAGE, "size": 10}
    assert end_of(sized, stop, document=document, pages=2, fetched=7, records=[]) is None
    assert end_of(sized, stop, document=document, pages=3, fetched=7) is None
    assert end_of(sized, stop, document=document, pages=4, fetched=7, records=[]) == "the total"


def test_a_total_below_zero_is_none():
    """By it an API says that it does not know: the first page is not the last for that."""
    with pytest.raises(StepFailed) as refused:
        end_of(PAGE, {"total": {"path": "total"}}, document={"total": -1})
    assert (refused.value.code, refused.value.found) == ("HTTP-022", "-1")


def test_the_last_number_to_ask_for():
    assert end_of(PAGE, {"max_page": 3}, token=3) is None
    assert end_of(PAGE, {"max_page": 3}, token=4) == "the last number to ask for"
    assert end_of(OFFSET, {"max_offset": 100}, token=90) is None
    assert end_of(OFFSET, {"max_offset": 100}, token=100) == "the last number to ask for"
    assert (
        end_of(PAGE, {"max_page": 1, "has_more": {"path": "m"}}, document={"m": True}) == "the last number to ask for"
    )


@pytest.mark.parametrize(
    ("paginator", "stop", "expected"),
    [
        (PAGE, {"empty": False}, "with a rule that ends"),
        (OFFSET, {"empty": False, "max_pages": 5}, "with a rule that ends"),
        (PAGE, {"short": True}, "'short' comes with a paginator that has a 'size'"),
        (OFFSET, {"max_page": 3}, "'max_page' comes with paginator 'page'"),
        (PAGE, {"max_offset": 3}, "'max_offset' comes with paginator 'offset'"),
        (PAGE, {"total": {}}, "either 'path' or 'header'"),
        (PAGE, {"total": {"path": "a", "header": "b"}}, "either 'path' or 'header'"),
        (PAGE, {"has_more": {}}, "with 'path'"),
        (PAGE, {"when": {"equals": 1}}, "with a 'path' or a 'header'"),
        (PAGE, {"when": {}}, "with a 'path' or a 'header'"),
        (PAGE, {"when": {"path": "a", "equals": 1, "contains": "b"}}, "one of 'equals', 'contains' and 'exists'"),
        (PAGE, {"until": 3}, "without 'until'"),
        (PAGE, {"max_pages": 0}, "a number above zero"),
        (PAGE, {"on_repeat": "stop"}, "one of error, end"),
    ],
)
def test_what_is_wrong_with_stop_rules_is_said(paginator, stop, expected):
    with pytest.raises(ValueError) as refused:
        stops_of(stop, paginator_of(paginator))
    assert expected in str(refused.value)
