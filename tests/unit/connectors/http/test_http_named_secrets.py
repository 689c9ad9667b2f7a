"""What a server answers goes into the next request: it never names a secret of this machine there."""

import pytest

import millstream as ms
from millstream.errors import MillstreamError, StepFailed

NAMED = "${secret:MS_TEST_HIDDEN}"


def walked(api, tmp_path, **options):
    job = ms.Job("named")
    spec = ms.http(f"{api.url}/items", records="items", allow_private=True, **options)
    job.source("in", spec, schema="id long").sink("out", ms.collect("named"))
    job.run(local=True, checkpoint=tmp_path)


def told(api):
    return [str((each.path, each.query, dict(each.headers), each.body)) for each in api.asked]


@pytest.fixture(autouse=True)
def hidden(monkeypatch):
    monkeypatch.setenv("MS_TEST_HIDDEN", "t0psecret")
    monkeypatch.setenv("MS_TEST_KEY", "k3y")


CURSOR = {"type": "cursor", "path": "next", "param": "after"}
LINK = {"type": "link", "path": "next"}


@pytest.mark.parametrize(
    ("options", "following"),
    [
        ({"paginator": CURSOR}, NAMED),
        ({"paginator": {**CURSOR, "in": "header"}}, f"x {NAMED}"),
        ({"paginator": {**CURSOR, "in": "json"}, "method": "POST", "json": {}}, NAMED),
        ({"paginator": {**CURSOR, "in": "form"}, "method": "POST", "form": {"a": "b"}}, NAMED),
        ({"paginator": LINK}, f"/items?after={NAMED}"),
        ({"paginator": LINK}, f"/{NAMED}"),
        ({"paginator": LINK, "headers": {"X-Api": "${secret:MS_TEST_HIDDEN}"}}, f"/items?after={NAMED}"),
    ],
)
def test_the_name_of_the_next_page_names_no_secret(api, tmp_path, options, following):
    api.answer = lambda asked: {"items": [{"id": len(api.asked)}], "next": following if len(api.asked) == 1 else None}
    with pytest.raises(StepFailed, match="HTTP-032"):
        walked(api, tmp_path, **options)
    assert len(api.asked) == 1


def test_a_parent_names_no_secret(api, tmp_path):
    api.answer = lambda asked: {"items": [{"id": 1}]} if asked.path == "/items" else {"all": [{"name": NAMED}]}
    slices = {
        "type": "parent",
        "request": {"url": f"{api.url}/parents", "records": "all"},
        "fields": {"who": "name"},
    }
    with pytest.raises(StepFailed, match="HTTP-032"):
        walked(api, tmp_path, slices=slices, params={"who": "${slice:who}"})
    assert not any("t0psecret" in each for each in told(api))


def test_secrets_of_the_job_go_along_with_every_page(api, tmp_path):
    api.answer = lambda asked: {
        "items": [{"id": len(api.asked)}],
        "next": f"{api.url}/items?after={len(api.asked)}" if len(api.asked) < 3 else None,
    }
    walked(
        api,
        tmp_path,
        paginator=LINK,
        params={"key": "${secret:MS_TEST_KEY}"},
        headers={"X-Api": "${secret:MS_TEST_HIDDEN}"},
    )
    assert [each.query["key"] for each in api.asked] == ["k3y"] * 3


def test_a_field_that_a_further_run_starts_from_names_no_secret(api, tmp_path):
    api.answer = lambda asked: {"items": [{"id": 1, "at": f"z{NAMED}"}]}
    given = {"incremental": {"field": "at", "start": "a"}, "params": {"since": "${slice:since}"}}
    with pytest.raises(StepFailed, match="HTTP-032"):
        walked(api, tmp_path, **given)


def test_two_values_that_are_joined_name_no_secret(api, tmp_path):
    parent = {"first": "${sec", "second": "ret:MS_TEST_HIDDEN}"}
    api.answer = lambda asked: {"items": [{"id": 1}]} if asked.path == "/items" else {"all": [parent]}
    slices = {
        "type": "parent",
        "request": {"url": f"{api.url}/parents", "records": "all"},
        "fields": {"first": "first", "second": "second"},
    }
    with pytest.raises(StepFailed, match="HTTP-032"):
        walked(api, tmp_path, slices=slices, params={"who": "${slice:first}${slice:second}"})
    assert not any("t0psecret" in each for each in told(api))


def test_values_that_the_options_list_may_name_some(api, tmp_path):
    api.answer = lambda asked: {"items": [{"id": 1}]}
    slices = {"type": "list", "name": "who", "values": ["${secret:MS_TEST_KEY}"]}
    walked(api, tmp_path, slices=slices, headers={"X-Api": "${slice:who}"})
    assert "k3y" in told(api)[0]


@pytest.mark.parametrize("query", ["api_key=t0psecret", "page=1&access_token=t0psecret", "a=b&password=t0psecret#x"])
@pytest.mark.parametrize("role", ["source", "parent", "sink"])
def test_a_secret_that_stands_in_an_address_as_text_is_refused(role, query):
    """It would stand in plans, and in the errors of those who look at them."""
    job, url = ms.Job("written"), f"https://api.example.com/items?{query}"
    with pytest.raises(MillstreamError, match=r"as \$\{secret:NAME\}") as refused:
        if role == "sink":
            job.source("in", ms.memory([]), schema="id long").sink("out", ms.http(url))
        elif role == "source":
            job.source("in", ms.http(url), schema="id long")
        else:
            slices = {"type": "parent", "request": {"url": url}, "fields": {"who": "name"}}
            job.source("in", ms.http("https://api.example.com/${slice:who}", slices=slices), schema="id long")
    assert "t0psecret" not in str(refused.value)


def test_an_address_may_name_a_secret():
    url = "https://api.example.com/items?api_key=${secret:KEY}&page_token=&q=key"
    ms.Job("named").source("in", ms.http(url), schema="id long")
