"""Secrets are planted wherever a service takes one, and a run fails with them in its error: nothing that can be read has them."""

import io
import re
import zipfile

import pytest
from tests.unit.control.conftest import new_database
from tests.unit.server.canary_service import RealService, held
from tests.unit.server.world import definition

SECRETS = {
    "NAMED": "canary-named/7d3f+a b",
    "OWN": "canary-own/91c2+a b",
    "HOOK": "canary-hook/44e8+a b",
    "URL": "canary-url-62ab9d",
}
CODE = """
import base64, logging, os, sys, time, urllib.parse
import millstream as ms
from millstream.model.secret import secret


class Fails(ms.ProcessFunction):
    def process(self, row, ctx):
        found = [secret(name) for name in ("NAMED", "OWN")]
        forms = [*found, *[urllib.parse.quote(each) for each in found], *[each.encode().hex() for each in found]]
        forms += [base64.b64encode(each.encode()).decode() for each in found]
        print(forms)
        logging.getLogger("millstream.user").warning("told %s", forms)
        while not os.path.exists(GO):
            time.sleep(0.05)
        raise ValueError(f"cannot use {forms}")
        yield


URL = URLS
job = ms.Job("leaky", rows_per_epoch=2)
rows = job.source("r", ms.rate(100)).map(lambda row: {"k": 0, "v": row["value"]}, schema="k long, v long")
failed = rows.key_by("k").process(Fails, schema="k long")
failed.sink("out", ms.files(OUT))
failed.sink("table", ms.jdbc(URL, table="t", password_env="NAMED"))
failed.sink("other", ms.jdbc(URL.replace("@", ":${secret:OWN}@"), table="o"))
"""


def packed(text):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("leaky.py", text)
    return made.getvalue()


@pytest.fixture(params=["sqlite", "postgresql"])
def real(request, tmp_path):
    url = (
        f"sqlite:///{tmp_path}/metadata.db"
        if request.param == "sqlite"
        else new_database(request.getfixturevalue("postgres"))
    )
    made = RealService(tmp_path, url)
    yield made
    made.close()


def plant(service, folder, url):
    """A named secret, a setting of a job, the secret of a webhook, a password in an address; the run that knows them."""
    for name in ("NAMED", "HOOK"):
        service.asked("PUT", f"/secrets/{name}", 204, json={"value": SECRETS[name]})
    text = (
        CODE.replace("URLS", repr(url))
        .replace("GO", repr(str(folder / "go")))
        .replace("OUT", repr(str(folder / "out")))
    )
    kept = service.client.post(
        "/artifacts?name=leaky.zip", content=packed(text), headers={"Content-Type": "application/octet-stream"}
    )
    assert kept.status_code == 201, kept.text
    job = {"dag_definition": {"kind": "code", "entry": "leaky.py:job"}, "artifact": kept.json()["sha256"]}
    job["settings"] = {"engine": "local", "restart": {"strategy": "none"}}
    job["config"] = {"OWN": {"value": SECRETS["OWN"], "sensitive": True}}
    service.asked("POST", "/jobs", 201, json=job)
    wanted = {"type": "event", "event": {"webhook": "arrived", "secret": "HOOK"}}
    service.asked("PUT", "/jobs/leaky/schedule", 200, json=wanted)
    return service.asked("POST", "/jobs/leaky/runs", 202, json={}).json()["id"]


def walked(service, run, sha256):
    """Every answer of every GET route; the values of its path are those of what was planted."""
    values = {"name": "leaky", "number": "1", "run": run, "node": service.node, "sha256": sha256, "artifact": sha256}
    document = service.asked("GET", "/openapi.json", 200).json()
    answers = {}
    for path, methods in document["paths"].items():
        if "get" not in methods or path == "/v1/events":
            continue
        place = re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], "1"), path)
        query = "?a=1&b=1&layer=stream&stream=driver.log" if "{" in path else ""
        answers[path] = service.client.get(f"{service.url}{place}{query}" if path.startswith("/") else place)
    return answers


def streamed(service, run):
    """What the stream of events says of all that happened."""
    heard = b""
    headers = {"Last-Event-ID": "0"}
    with service.client.stream("GET", f"/events?topics=jobs,nodes,run:{run}", headers=headers) as answer:
        for part in answer.iter_bytes():
            heard += part
            if b"FAILED" in heard or b"DEAD" in heard:
                return heard
    return heard


def test_a_canary_is_found_nowhere(real, postgres, tmp_path):
    service = real
    run = plant(service, tmp_path, new_database(postgres))
    sha256 = service.asked("GET", "/artifacts", 200).json()["items"][0]["sha256"]
    service.until(lambda: "told" in logs(service, run), lambda: logs(service, run))
    processes = service.family()
    assert len(processes) >= 3, "the server, the node and the driver"
    assert {pid: held(SECRETS, content) for pid, content in processes.items() if held(SECRETS, content)} == {}
    dump = service.asked("POST", f"/runs/{run}/dump", 200).text
    (tmp_path / "go").touch()
    shown = service.until(lambda: ended(service, run), lambda: service.client.get(f"/runs/{run}").text)
    assert "***" in shown, "it failed with the secret in its error"
    answers = walked(service, run, sha256)
    good = [path for path, answer in answers.items() if answer.status_code == 200]
    assert len(good) >= 25, {path: answer.status_code for path, answer in answers.items()}
    assert {
        path: held(SECRETS, answer.content) for path, answer in answers.items() if held(SECRETS, answer.content)
    } == {}
    assert held(SECRETS, streamed(service, run) + dump.encode()) == []
    tables = service.dumped()
    assert {"secret", "audit", "pipeline_job_config"} <= {name for name, rows in tables.items() if rows}
    assert {
        name: held(SECRETS, repr(rows).encode()) for name, rows in tables.items() if held(SECRETS, repr(rows).encode())
    } == {}
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"server.out", "node.out", "driver.log", "run.json"} <= {path.name for path in files}
    assert [(str(path), held(SECRETS, path.read_bytes())) for path in files if held(SECRETS, path.read_bytes())] == []


def logs(service, run):
    answer = service.client.get(f"/runs/{run}/logs?stream=driver")
    return answer.text if answer.status_code == 200 else ""


def ended(service, run):
    told = service.client.get(f"/runs/{run}").json()
    return str(told) if told["status"] in ("FAILED", "DEAD") else None


@pytest.mark.parametrize(
    ("url", "is_taken"),
    [
        (f"postgresql://ada:{SECRETS['URL']}@h/x", False),
        (f"postgresql://ada@h/x?password={SECRETS['URL']}", False),
        (f"mysql://ada:{SECRETS['URL']}@h/x", False),
        ("postgresql://ada:${secret:PG}@h/x", True),
        ("postgresql://ada@h/x", True),
    ],
)
def test_a_password_in_an_address_is_not_taken(admin, url, is_taken):
    """The definition is stored, and shown to whoever may see the job: a password is named in it."""
    document = definition("addressed")
    document["steps"][1]["to"] = {"jdbc": {"url": url, "table": "t"}}
    if url.startswith("mysql"):
        document = {"job": "addressed", "source": url}
    answer = admin.post("/v1/jobs", json={"dag_definition": document, "settings": {"engine": "local"}})
    assert (answer.status_code == 201) == is_taken, answer.text
    assert is_taken or answer.json()["code"] == "CTL-316"
    for path in (
        "/jobs",
        "/jobs/addressed",
        "/jobs/addressed/versions/1",
        "/jobs/addressed/plan?layer=stream",
        "/audit",
    ):
        assert held(SECRETS, answer.content + admin.get(f"/v1{path}").content) == [], path


def test_an_address_that_only_looks_like_it_is_taken(admin):
    refused = {"dag_definition": definition(), "settings": {"confs": {"spark.x.password": "hunter2"}}}
    assert admin.post("/v1/jobs", json=refused).json()["code"] == "CTL-316"
    document = definition()
    document["steps"][0]["from"] = {"http": {"url": "http://api.example.com:8080/@scope/x", "records": "data"}}
    assert admin.post("/v1/jobs", json={"dag_definition": document}).status_code == 201
