"""Answers as servers really give them: half readable, without a body, of random pages, broken off on the way."""

import collections
import gzip
import json
import random

import pytest
from tests.servers.http import Reply
from tests.unit.connectors.http.apis import QUICK, Reading, ids, read_all, refused, rows

from millstream.contract.source import BadRecord
from millstream.errors import ExternalFailure, StepFailed

GOOD = [{"id": 1, "name": "a"}, {"id": 3, "name": "c"}]


@pytest.mark.parametrize(
    "broken",
    [
        b'{"id": 2, "name": "\\ud83d"}',
        b'{"id": 2, "name": "\\udc00\\ud83d\\ude00"}',
        b'{"id": 2, "\\ud800": "x"}',
        b'{"id": 2, "name": "\xe9"}',
        b'{"id": ' + b"9" * 5000 + b"}",
    ],
)
def test_a_record_that_cannot_be_read_is_a_bad_record_and_those_beside_it_are_rows(api, broken):
    body = b'{"data": {"items": [{"id":1,"name":"a"},' + broken + b',{"id":3,"name":"c"}]}, "next": null}'
    api.answer = lambda asked: Reply(body)
    found = read_all(f"{api.url}/items", records="data.items", paginator={"type": "cursor", "path": "next"})
    assert [row for row in found if not isinstance(row, BadRecord)] == GOOD
    assert [row.origin for row in found if isinstance(row, BadRecord)] == [f"{api.url}/items page 1 item 2"]


@pytest.mark.parametrize("status", [301, 302])
@pytest.mark.parametrize("body", [{"json": {"q": 1}}, {"form": {"q": "1"}}])
def test_a_page_that_is_asked_for_by_post_does_not_become_another_question(api, status, body):
    """Such a redirect makes a GET of it, without what was asked: the other address would answer with other rows."""
    api.answer = lambda asked: Reply(b"", status, (("Location", "/there"),)) if asked.path == "/items" else GOOD
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", method="POST", **body)
    assert (failed.value.code, failed.value.step) == ("HTTP-010", "in")
    assert failed.value.found.endswith("/items: leads to /there")
    assert "307 and 308 keep it" in failed.value.hint
    assert len(api.asked) == 1


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_that_keeps_a_post_is_followed(api, status):
    api.answer = lambda asked: Reply(b"", status, (("Location", "/there"),)) if asked.path == "/items" else GOOD
    assert read_all(f"{api.url}/items", method="POST", json={"q": 1}) == GOOD
    assert [(asked.method, asked.json) for asked in api.asked] == [("POST", {"q": 1})] * 2


def test_escapes_that_only_look_like_half_a_pair_stay(api):
    body = b'[{"id":1,"name":"\\\\ud800"},{"id":2,"name":"\\ud83d\\ude00"},{"id":3,"name":"\\ud800"}]'
    api.answer = lambda asked: Reply(body)
    first, second, third = sorted(read_all(f"{api.url}/items"), key=lambda row: isinstance(row, BadRecord))
    assert (first["name"], second["name"]) == ("\\ud800", "\N{GRINNING FACE}")
    assert isinstance(third, BadRecord)


@pytest.mark.parametrize(
    ("form", "body"),
    [
        ("json", b'{"items": [], "next": "\\ud800"}'),
        ("json", b'{"\xe9": 1, "items": []}'),
        ("csv", "id,name\n1,\xe9\n".encode("utf-16")),
    ],
)
def test_what_stands_around_the_records_has_to_be_readable(api, form, body):
    api.answer = lambda asked: Reply(body)
    with pytest.raises(ExternalFailure) as failed:
        read_all(f"{api.url}/items", format=form, **({"records": "items"} if form == "json" else {}))
    assert failed.value.code == "HTTP-012"


@pytest.mark.parametrize("form", ["json", "jsonl", "csv"])
@pytest.mark.parametrize("packed", [lambda body: body, gzip.compress])
def test_a_mark_of_utf8_is_no_part_of_an_answer(api, form, packed):
    body = {"json": json.dumps(GOOD), "jsonl": "\n".join(map(json.dumps, GOOD)), "csv": "id,name\n1,a\n3,c\n"}[form]
    api.answer = lambda asked: Reply(packed(b"\xef\xbb\xbf" + body.encode()))
    assert read_all(f"{api.url}/items", format=form) == GOOD


def test_an_answer_that_says_it_has_no_body_is_a_page_without_records(api):
    api.answer = lambda asked: Reply(GOOD) if asked.query["page"] == "1" else Reply(status=204)
    assert read_all(f"{api.url}/items", paginator={"type": "page"}) == GOOD


def test_a_slice_without_an_answer_may_be_ignored(api):
    api.answer = lambda asked: Reply(GOOD, cut=0) if asked.query["of"] == "2" else Reply(GOOD[:1])
    found = read_all(
        f"{api.url}/items",
        params={"of": "${slice:of}"},
        slices={"type": "list", "name": "of", "values": [1, 2, 3]},
        on_status=[{"status": "connection", "action": "ignore"}],
    )
    assert found == [GOOD[0], GOOD[0]]


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"headers": {"X-A": "${secret:BROKEN}"}}, "the header 'X-A'"),
        ({"headers": {"X A": "1"}}, "a header called 'X A'"),
        ({"auth": {"type": "bearer", "token": "${secret:BROKEN}"}}, "the header 'Authorization'"),
        ({"params": {"a": "\ud800"}}, "half of a pair of surrogates"),
    ],
)
def test_a_request_that_cannot_be_sent_is_not_tried_again(api, monkeypatch, options, found):
    monkeypatch.setenv("BROKEN", "c4nary\n")
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", **options)
    assert failed.value.code == "HTTP-018"
    assert found in failed.value.found
    assert "c4nary" not in str(failed.value)
    assert api.asked == []


def test_certificates_that_are_not_there_are_named(api, tmp_path):
    with pytest.raises(StepFailed) as failed:
        read_all(f"{api.url}/items", ca_file=str(tmp_path / "none.pem"))
    assert (failed.value.code, failed.value.step) == ("HTTP-018", "in")
    assert "none.pem" in failed.value.found


class RandomApi:
    """Pages of random sizes, some of them empty or null, in random slices; some answers are none."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.kind = self.dice.choice(["page", "offset", "cursor", "header_link", "link", "keyset"])
        self.size = self.dice.choice([1, 3, 10])
        self.tables = [rows(self.dice.choice([0, 1, 2 * self.size, 37]), 1000 * part) for part in range(4)]
        self.pages = [self._pages(table) for table in self.tables]
        self.served = collections.Counter()

    def _pages(self, table):
        pages, at = [], 0
        while at < len(table) or not pages:
            size = self.dice.choice([0, 1, self.size])
            pages.append(table[at : at + size])
            at += size
        return [*pages, []]

    def options(self):
        paginator = {
            "page": {"type": "page"},
            "offset": {"type": "offset", "size": self.size},
            "cursor": {"type": "cursor", "path": "next"},
            "header_link": {"type": "header_link"},
            "link": {"type": "link", "path": "link"},
            "keyset": {"type": "keyset", "field": "id", "param": "behind"},
        }[self.kind]
        return {
            "params": {"of": "${slice:of}"},
            "slices": {"type": "list", "name": "of", "values": [0, 1, 2, 3]},
            "records": "items",
            "paginator": paginator,
            "rate": {**QUICK, "attempts": 40},
        }

    def __call__(self, asked):
        if (fault := self._fault()) is not None:
            return fault
        part, query = int(asked.query["of"]), asked.query
        table, pages, document, headers = self.tables[part], self.pages[part], {}, ()
        if self.kind in ("page", "offset"):
            first = int(query["offset"]) if self.kind == "offset" else (int(query["page"]) - 1) * self.size
            document["items"] = table[first : first + self.size]
        elif self.kind == "keyset":
            document["items"] = [row for row in table if row["id"] > int(query.get("behind", -1))][: self.size]
        else:
            number = int(query.get("cursor", 0))
            document["items"] = pages[number] or None
            if number + 1 < len(pages):
                address = f"/items?of={part}&cursor={number + 1}"
                document |= {"next": number + 1, "link": address}
                headers = (("Link", f"<{address}>; rel=next"),)
        self.served[str(sorted(query.items()))] += 1
        return Reply(document, headers=headers)

    def _fault(self):
        faults = [refused(500), refused(429, headers=(("Retry-After", "0"),)), Reply({"items": []}, cut=5)]
        return self.dice.choice(faults) if self.dice.random() < 0.1 else None


@pytest.mark.parametrize("seed", range(12))
def test_every_row_of_a_random_api_comes_once_and_no_page_is_asked_for_again(api, tmp_path, seed):
    api.answer = random_api = RandomApi(seed)
    found, position = [], None
    for token in (1, 2, 3, 4):
        with Reading(f"{api.url}/items", folder=tmp_path, token=token, **random_api.options()) as reading:
            reading.position = position or reading.position
            while (more := reading.step(5)) is not None:
                found += more
                if token < 4 and random_api.dice.random() < 0.2:
                    break
            position = reading.position
    assert ids(found) == ids(row for table in random_api.tables for row in table)
    # An owner that goes may have asked for one page of each slice that it had not written down yet.
    assert sum(random_api.served.values()) - len(random_api.served) <= 3 * 4
