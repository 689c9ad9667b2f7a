"""Commands against a real server process, as people and programs use them: what they print and how they end."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time

import httpx2
import pytest
import yaml
from tests.servers.postgres import free_port

QUICK = ("--warm-local", "0", "--warm-spark", "0", "--port", "0")


@contextlib.contextmanager
def server(folder, *options):
    """A server process; gives its address."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(folder / "config"), "HOME": str(folder)}
    command = [sys.executable, "-m", "millstream.cli.main", "server", "start", "--data", str(folder / "data"), *QUICK]
    process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        line = process.stdout.readline()
        yield re.search(r"http://\S+", line)[0]
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()
        for path in (folder / "data").glob("node/runs/*/driver.json"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(json.loads(path.read_text())["pid"], signal.SIGKILL)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    return tmp_path_factory.mktemp("service")


@pytest.fixture(scope="module")
def address(place):
    with server(place) as address:
        yield address


@pytest.fixture
def ask(cli, address, place, monkeypatch):
    """Run a command that speaks to the server, as an admin."""
    monkeypatch.setenv("MILLSTREAM_URL", address)
    monkeypatch.setenv("MILLSTREAM_TOKEN", (place / "data/admin.token").read_text().strip())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(place / "config"))
    return cli


def endless(place, name, **more):
    steps = [
        {"source": "s", "from": {"rate": {"rows_per_second": 200}}},
        {"with_columns": {"k": "value % 7"}},
        {"aggregate": {"n": "count()"}, "key_by": "k", "id": "n"},
        {"sink": "o", "to": {"files": {"path": str(place / f"out-{name}")}}},
    ]
    path = place / f"{name}.json"
    path.write_text(json.dumps({"job": name, "epoch_interval": "50ms", "steps": steps, **more}))
    return path


def until_it_runs(ask, name):
    end = time.monotonic() + 30
    while json.loads(ask("status", name, "-o", "json").stdout)["processed_records"] == 0:
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_job_from_its_submission_to_its_end(ask, place):
    made = ask("submit", endless(place, "ticks"), "-S", "engine=local", "--quiet")
    assert made.exit_code == 0, made.stderr
    run = made.stdout.strip()
    assert re.fullmatch("[0-9a-f]{32}", run)
    until_it_runs(ask, run[:8])
    assert ask("status", "ticks", "-q").stdout.strip() == "RUNNING"
    assert "ticks" in ask("list").stdout
    assert ask("list", "-q").stdout.split() == ["ticks"]
    assert ask("list", "--runs", "-q").stdout.split() == [run]
    assert json.loads(ask("list", "-o", "json").stdout)["name"] == "ticks"
    assert yaml.safe_load(ask("list", "-o", "yaml").stdout)[0]["name"] == "ticks"
    assert "the driver process has started" in ask("logs", "ticks").stdout + ask("status", "ticks").stdout
    saved = ask("savepoint", "create", "ticks", "--json")
    assert saved.exit_code == 0, saved.stderr
    assert os.path.isdir(json.loads(saved.stdout)["savepoint"])
    moved = ask("rescale", run[:8], 3)
    assert moved.exit_code == 0, moved.stderr
    until_it_runs(ask, "ticks")
    stopped = ask("stop", "ticks", "--suspend")
    assert (stopped.exit_code, "status SUSPENDED" in stopped.stdout) == (0, True), stopped.stderr
    numbers = ask("savepoint", "list", "ticks", "-q").stdout.split()
    assert len(numbers) == 3
    newest, *_, oldest = numbers
    assert json.loads(ask("savepoint", "list", "-o", "json").stdout.splitlines()[-1])["job_version"] == 1
    assert "ticks" in ask("savepoint", "inspect", newest).stdout
    assert "parallelism" in ask("savepoint", "diff", oldest, newest).stdout
    sound = ask("savepoint", "verify", newest, "--job", "ticks@1")
    assert (sound.exit_code, "can be restored" in sound.stdout) == (0, True), sound.output
    assert json.loads(ask("savepoint", "verify", newest, "--json").stdout)["files"] > 0
    gone = ask("savepoint", "dispose", oldest)
    assert (gone.exit_code, gone.stdout.startswith("disposed of /")) == (0, True), gone.stderr
    assert ask("savepoint", "dispose", oldest).exit_code == 5
    again = ask("start", "ticks", "-q")
    assert again.exit_code == 0, again.stderr
    assert ask("cancel", "ticks").exit_code == 0
    assert ask("delete", "ticks", "--yes").exit_code == 0


LISTS = [
    ("list",),
    ("list", "--runs"),
    ("node", "list"),
    ("token", "list"),
    ("secret", "ls"),
    ("artifact", "ls"),
    ("checkpoint", "ls"),
    ("schedule", "ls"),
    ("savepoint", "list"),
    ("context", "list"),
]


@pytest.mark.parametrize("command", LISTS, ids=" ".join)
def test_every_list_comes_in_every_form(ask, command):
    table, as_json, as_yaml, quiet = (ask(*command, *how) for how in ((), ("-o", "json"), ("-o", "yaml"), ("-q",)))
    for each in (table, as_json, as_yaml, quiet):
        assert each.exit_code == 0, each.stderr
    rows = [json.loads(line) for line in as_json.stdout.splitlines()]
    assert [{**each, "age": 0} for each in rows] == [{**each, "age": 0} for each in yaml.safe_load(as_yaml.stdout)]
    assert len(quiet.stdout.splitlines()) == len(rows)


class TestExitCodes:
    def test_0_and_1(self, ask, place):
        bounded = {"steps": [
            {"source": "s", "from": {"rate": {"rows_per_second": 1000, "rows": 10}}},
            {"sink": "o", "to": {"files": {"path": str(place / "out-bounded")}}},
        ]}  # fmt: skip
        good = ask("submit", endless(place, "good", **bounded), "-S", "engine=local", "--wait")
        assert good.exit_code == 0, good.stderr
        bounded["steps"][1]["to"]["files"]["path"] = "/proc/nothing/here"
        bad = endless(place, "bad", **bounded)
        failed = ask("submit", bad, "-S", "engine=local", "-S", "restart.strategy=none", "--wait")
        assert failed.exit_code == 1, failed.output
        assert "error [" in failed.stderr

    def test_2(self, ask):
        assert ask("stop", "good").exit_code == 2
        assert ask("list", "-o", "xml").exit_code == 2
        assert ask("submit", "nothing.txt").exit_code == 2

    def test_3(self, ask, place):
        path = endless(place, "wrong")
        path.write_text(path.read_text().replace("value % 7", "valeu % 7"))
        refused = ask("submit", path, "-S", "engine=local")
        assert (refused.exit_code, "fix:" in refused.stderr) == (3, True), refused.output
        assert ask("status", "nothing").exit_code == 3

    def test_4(self):
        environment = {**os.environ, "MILLSTREAM_URL": f"http://127.0.0.1:{free_port()}", "MILLSTREAM_TOKEN": "ms_x"}
        command = [sys.executable, "-m", "millstream.cli.main", "list"]
        away = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60)
        assert (away.returncode, "REST-060" in away.stderr) == (4, True), away.stderr

    def test_5(self, ask, place):
        started = ask("submit", endless(place, "busy"), "-S", "engine=local")
        assert started.exit_code == 0, started.stderr
        twice = ask("start", "busy")
        assert (twice.exit_code, "CTL-032" in twice.stderr) == (5, True), twice.output
        assert ask("delete", "busy", "--yes").exit_code == 5
        assert ask("cancel", "busy").exit_code == 0
        assert ask("stop", "busy", "--drain").exit_code == 5


def test_ids_by_their_beginning(ask):
    (node,) = ask("node", "list", "-q").stdout.split()
    assert ask("node", "cordon", node[:6]).stdout == f"node {node} is CORDONED\n"
    assert ask("node", "uncordon", node).exit_code == 0
    assert ask("node", "cordon", "zzz").exit_code == 3
    assert ask("token", "create", "short", "--role", "viewer").exit_code == 0
    tokens = [json.loads(line) for line in ask("token", "list", "-o", "json").stdout.splitlines()]
    (made,) = [each["id"] for each in tokens if each["name"] == "short"]
    assert ask("token", "revoke", made[:10]).stdout == f"token {made} is revoked\n"
    assert "more than one" in ask("token", "revoke", "").stderr or ask("token", "revoke", "").exit_code == 3


def completed(words, environment):
    told = {"_MILLSTREAM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    command = [
        sys.executable,
        "-c",
        "import sys; sys.argv = ['millstream']; from millstream.cli.main import main; main()",
    ]
    begun = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment, **told}, timeout=30)
    return ran.stdout.split(), ran.stderr, time.monotonic() - begun


def test_a_shell_completes_names_of_jobs(ask, place, address):
    assert ask("submit", endless(place, "complete-me"), "-S", "engine=local", "--no-start").exit_code == 0
    token = (place / "data/admin.token").read_text().strip()
    environment = {"MILLSTREAM_URL": address, "MILLSTREAM_TOKEN": token}
    assert completed("millstream status compl", environment)[:2] == (["complete-me"], "")
    environment["MILLSTREAM_URL"] = f"http://127.0.0.1:{free_port()}"
    offered, told, took = completed("millstream status compl", environment)
    assert (offered, told) == ([], "")
    assert took < 15  # of which the interpreter takes most


def test_settings_and_where_they_come_from(address, place, ask):
    shown = ask("server", "settings", "-o", "json")
    assert shown.exit_code == 0, shown.stderr
    told = {each["name"]: each for each in map(json.loads, shown.stdout.splitlines())}
    assert (told["port"]["value"], told["port"]["source"]) == (0, "command line")
    assert (told["host"]["value"], told["host"]["source"]) == ("127.0.0.1", "default")
    assert told["warm"]["source"] == "command line"
    assert told["database"]["value"].endswith("metadata.db")
    assert told["secrets.key_ids"]["source"] == "key file"
    text = (place / "data/keys.json").read_text()
    assert not any(each["key"] in shown.stdout for each in json.loads(text)["keys"])
    info = httpx2.get(f"{address}/v1/info", headers=bearer(place)).json()
    assert info["parts"] == ["channel", "keys", "artifacts", "checkpoints", "figures"]
    assert info["revision"]
    assert info["started"] < info["time"]


def bearer(place):
    return {"Authorization": f"Bearer {(place / 'data/admin.token').read_text().strip()}"}


def test_a_cursor_of_one_server_is_taken_by_another_and_after_a_restart(address, place, ask, tmp_path):
    for number in range(3):
        job = endless(place, f"page-{number}")
        assert ask("submit", job, "-S", "engine=local", "--no-start").exit_code == 0
    first = httpx2.get(f"{address}/v1/jobs?q=page&limit=1", headers=bearer(place)).json()
    database, keys = f"sqlite:///{place}/data/metadata.db", str(place / "data/keys.json")
    other = ("--no-node", "--database", database, "--keys", keys)

    def second(url):
        query = {"q": "page", "limit": 1, "cursor": first["next"]}
        answer = httpx2.get(f"{url}/v1/jobs", params=query, headers=bearer(place))
        assert answer.status_code == 200, answer.text
        return [each["name"] for each in answer.json()["items"]]

    for name in ("other", "restarted"):
        with server(tmp_path / name, *other) as url:
            assert second(url) == ["page-1"]
    assert second(address) == ["page-1"]
    assert ask("secret", "rekey", "--data", place / "data").exit_code == 0
    assert second(address) == ["page-1"]
