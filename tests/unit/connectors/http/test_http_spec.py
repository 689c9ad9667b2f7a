import json

import pytest
from tests.unit.connectors.http.apis import checked

import millstream as ms
from millstream.errors import InvalidStep

URL = "https://api.example.com/items"
DATES = {"type": "dates", "start": "2024-01-01"}
WINDOW = {"field": "at", "param": "from", "key": "id", "pages": 3}


def refused(**options):
    url = options.pop("url", URL)
    with pytest.raises(InvalidStep) as problem:
        ms.Job("j").source("in", ms.http(url, **options), schema="id long")
    assert problem.value.step == "in"
    return problem.value


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"params": {"org": "${slice:org}"}}, "${slice:org} is the value of no slice; known: none"),
        (
            {"params": {"a": "${slice:begin}"}, "slices": DATES},
            "${slice:begin} is the value of no slice; known: end, start",
        ),
        ({"json": {"a": 1}}, "a body goes with method='POST'"),
        ({"method": "POST", "json": {}, "form": {"a": 1}}, "json= or form=, not both"),
        ({"paginator": {"type": "page", "in": "json"}}, "a body goes with method='POST'"),
        (
            {"paginator": {"type": "page", "size": 5, "size_param": "n", "size_in": "form"}},
            "a body goes with method='POST'",
        ),
        ({"on_status": [{"status": 400, "action": "split"}]}, "the action 'split' needs window="),
        ({"incremental": {"field": "at", "start": 0}}, "incremental= gives ${slice:since}, and nothing asks for it"),
        ({"paginator": {"type": "page"}, "stop": {"empty": False}}, "with a rule that ends"),
        ({"stop": {"short": True}}, "'short' comes with a paginator that has a 'size'"),
        ({"format": "csv", "records": "items"}, "format='csv' has no paths"),
        ({"format": "jsonl", "paginator": {"type": "link"}}, "format='jsonl' has no paths"),
        ({"format": "jsonl", "stop": {"has_more": {"path": "more"}}}, "format='jsonl' has no paths"),
        ({"format": "csv", "paginator": {"type": "page"}, "window": WINDOW}, "which format='csv' does not do"),
        (
            {"slices": {"type": "parent", "request": {"url": URL, "slices": {}}, "fields": {"a": "b"}}},
            "'request' of slices 'parent' without 'slices'",
        ),
        (
            {"slices": {"type": "parent", "request": {"url": "${slice:a}"}, "fields": {"a": "b"}}},
            "whose 'url' is an address such as",
        ),
    ],
)
def test_options_that_do_not_go_together(options, expected):
    problem = refused(**options)
    assert problem.code == "HTTP-001"
    assert expected in problem.message


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"url": "ftp://a.example/x"}, "an address such as"),
        ({"url": "https://me:pw@a.example/x"}, "pass auth="),
        ({"paginator": {"type": "page", "parm": "p"}}, "paginator 'page' without 'parm'"),
        ({"method": "DELETE"}, "GET, POST"),
        ({"format": "xml"}, "json, jsonl, csv"),
        ({"rate": {"requests": -1}}, "a number above zero"),
        ({"timeout": "soon"}, "a duration such as"),
        ({"timeout": 0}, "a duration above zero"),
        ({"timeout": -1}, "a duration such as"),
        ({"page_timeout": 0}, "a duration above zero"),
        ({"rate": {"requests": 1, "per": 0}}, "a duration above zero"),
        ({"rate": {"backoff": -1}}, "a duration such as"),
        ({"rate": {"max_wait": -1}}, "a duration such as"),
        ({"headers": {"Host": "b.example"}}, "headers without 'Host'"),
        ({"headers": {"content-length": "5"}}, "headers without 'content-length'"),
        ({"allowed_hosts": ["https://a.example"]}, "hosts such as"),
        ({"max_page_bytes": 0}, "a number above zero"),
        ({"slices": {"type": "list", "name": "a"}}, "with 'values'"),
        ({"window": {"field": "at"}}, "with 'param'"),
        ({"delimiter": "ab"}, "one ASCII character"),
        ({"records": "a[0]"}, "a path such as"),
    ],
)
def test_options_that_are_wrong_by_themselves(options, expected):
    problem = refused(**options)
    assert problem.code == "CONN-005"
    assert expected in problem.known


@pytest.mark.parametrize(
    "options",
    [
        {"auth": {"type": "bearer", "token": "c4nary"}},
        {"auth": {"type": "basic", "username": "me", "password": "c4nary"}},
        {"auth": "c4nary"},
        {"headers": {"Authorization": "Bearer c4nary"}},
        {"headers": {"X-Api-Key": "c4nary"}},
        {"params": {"access_token": "c4nary"}},
        {"method": "POST", "form": {"password": "c4nary"}},
        {"method": "POST", "json": {"login": {"client_secret": "c4nary"}}},
        {"url": "https://me:c4nary@a.example/"},
    ],
)
def test_a_secret_in_the_options_is_refused_and_not_shown(options):
    problem = refused(**options)
    assert problem.code == "CONN-005"
    assert "c4nary" not in str(problem) + repr(problem.fields())


def test_a_job_with_named_secrets_is_written_as_json():
    job = ms.Job("named")
    auth = {"type": "bearer", "token": "${secret:TOKEN}"}
    stream = job.source("in", ms.http(URL, auth=auth, params={"key": "${secret:KEY}"}), schema="id long")
    stream.sink("out", ms.collect("named"))
    text = json.dumps(job.to_json())
    assert "${secret:TOKEN}" in text
    assert "${secret:KEY}" in text


def test_names_that_only_look_like_secrets_are_taken():
    params = {"author": "me", "page_token": "abc", "sort_key": "id", "empty_key": "", "key": "${secret:KEY}"}
    assert checked(URL, params=params)["params"] == params


def test_options_have_defaults():
    options = checked(URL)
    assert options["paginator"] == {"type": "single"}
    assert (options["method"], options["format"], options["allow_private"]) == ("GET", "json", True)
