"""What jobs that are data may reach: private networks where the operator says so, and never the service's own files."""

import os

import pytest

from millstream.api.jobfile.target import model_of
from millstream.contract.reach import Reach
from millstream.driver.service.loading import job_of
from millstream.driver.service.reach import check_reach
from millstream.errors import StepFailed
from millstream.model import secret
from millstream.plan.compile import compile_job
from millstream.plan.deployment import Deployment


def checked(document, reach, *, kind="declarative", params=None):
    stream = compile_job(
        model_of(job_of({"kind": "declarative", "document": document}, None), None), Deployment(params=params)
    ).stream
    check_reach({"kind": kind}, stream, reach)


def reading(source, sink=None, **more):
    steps = [{"source": "s", "from": source, "schema": "line string"}, {"sink": "o", "to": sink or {"print": {}}}]
    return {"job": "j", "guarantee": "at_least_once", "steps": steps, **more}


def files(path):
    return {"files": {"path": str(path), "format": "json"}}


def refused(document, reach, code, **more):
    with pytest.raises(StepFailed) as problem:
        checked(document, reach, **more)
    assert problem.value.code == code


@pytest.fixture
def service(tmp_path, monkeypatch):
    """The service keeps its files in `data`; a run works in a folder below, as its driver does."""
    data, work = tmp_path / "data", tmp_path / "data/node/runs/4f1c.1/work"
    work.mkdir(parents=True)
    (tmp_path / "link").symlink_to(data)
    monkeypatch.chdir(work)
    return Reach(closed=(str(data), str(tmp_path / "elsewhere.db")))


HTTP = {"http": {"url": "http://10.0.0.1/x", "allow_private": True}}


def test_private_networks_are_the_operators_to_open():
    refused(reading(HTTP), Reach(), "CTL-130")
    refused(reading(HTTP), Reach(closed=("/x",)), "CTL-130")
    checked(reading(HTTP), Reach(private=True))
    checked(reading({"http": {"url": "https://api.example.com/x"}}), Reach())


def test_a_sink_is_asked_too():
    source = {"rate": {"rows_per_second": 1}}
    document = reading(source, {"http": {"url": "http://169.254.169.254/x", "allow_private": True}})
    del document["steps"][0]["schema"]
    refused(document, Reach(), "CTL-130")


def test_code_does_what_it_likes():
    checked(reading(HTTP), Reach(), kind="code")


@pytest.mark.parametrize(
    "path",
    [
        "{root}/data",
        "{root}/data/admin.token",
        "{root}/data/../data/x",
        "{root}/x/../data",
        "{root}/link",
        "{root}/link/keys.json",
        "{root}",
        "/",
        "file://{root}/data",
        "file://{root}/d%61ta",
        "{root}/data/node/runs/4f1c.1/work/../../8888.1",
        "${{secret:PLACE}}/admin.token",
        "${{param:place}}/admin.token",
    ],
)
def test_files_of_the_service_are_closed(service, tmp_path, path, monkeypatch):
    monkeypatch.setattr(secret, "_held", {"PLACE": f"{tmp_path}/data"})
    document = reading(files(path.format(root=tmp_path)), params={"place": "string"})
    refused(document, service, "CTL-131", params={"place": f"{tmp_path}/data"})


@pytest.mark.parametrize("path", ["{root}/data2", "{root}/out", "file://{root}/out"])
def test_other_files_are_not(service, tmp_path, path):
    checked(reading(files(path.format(root=tmp_path))), service)


@pytest.mark.parametrize(
    "url",
    ["sqlite:///{root}/elsewhere.db", "sqlite:///{root}/data/metadata.db", "sqlite:///{root}/x/../data/metadata.db"],
)
def test_tables_of_the_service_are_closed(service, tmp_path, url):
    sink = {"jdbc": {"url": url.format(root=tmp_path), "table": "api_token"}}
    refused(reading(files("/in"), sink), service, "CTL-131")


def test_where_sinks_write(service, tmp_path):
    refused(reading(files("/in"), {"files": {"path": f"{tmp_path}/data/artifacts"}}), service, "CTL-131")
    checked(reading(files("/in"), {"files": {"path": f"{os.getcwd()}/out"}}), service)
    checked(reading(files("/in"), {"jdbc": {"url": f"sqlite:///{tmp_path}/mine.db", "table": "t"}}), service)
    assert os.getcwd().startswith(str(tmp_path / "data")), "its own folder is below one that is closed"


RELATIVE = ["out/", "./out", "../../../../x", "~/out", "*.json", "file:out", "x/${param:day}"]


@pytest.mark.parametrize("path", RELATIVE)
@pytest.mark.parametrize("kind", ["declarative", "code"])
def test_a_path_that_each_attempt_would_resolve_elsewhere_is_refused(service, path, kind):
    params = {"params": {"day": "string"}}
    with pytest.raises(StepFailed) as problem:
        checked(reading(files(path), **params), service, kind=kind)
    assert (problem.value.code, problem.value.step, problem.value.found) == ("CTL-132", "s", path)
    assert "absolute" in problem.value.hint
    refused(reading(files("/in"), {"files": {"path": path}}, **params), service, "CTL-132", kind=kind)


def test_a_table_in_a_file_of_each_attempt_is_refused():
    refused(reading(files("/in"), {"jdbc": {"url": "sqlite:///mine.db", "table": "t"}}), Reach(), "CTL-132")


def test_a_parameter_may_be_an_absolute_path_until_it_has_a_value(service, tmp_path):
    document = reading(files("${param:place}/in"), params={"place": "string"})
    checked(document, service)
    checked(document, service, params={"place": str(tmp_path / "mine")})
    refused(document, service, "CTL-132", params={"place": "mine"})


def test_bad_records_have_an_absolute_path_too(service):
    document = reading(files("/in"))
    document["steps"][0]["on_error"] = {"dead_letter": {"files": {"path": "dead/"}}}
    refused(document, service, "CTL-132")
