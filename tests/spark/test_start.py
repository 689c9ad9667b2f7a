"""Starting Spark: what a run leaves behind, and every way in which a start falls back. Each test starts a process of its own."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from millstream.plan.deployment import Deployment
from millstream.spark.start import caches
from millstream.spark.start.command import LAUNCHERS_OPTIONS, settings_of, spark_jars
from millstream.spark.start.confs import context_confs
from millstream.spark.start.training import train_now

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]
_RUN = """
import json, logging, os, sys
import millstream as ms
from millstream.spark.start import launch

logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="LOG %(name)s %(levelname)s %(message)s")
launched = {}

def tell(epoch):
    this = launch._OfThisProcess.launch
    if this is not None and not launched:
        launched.update(folder=str(this._folder.path), jvm=this._jvm.pid, zygote=this._zygote and this._zygote.pid,
                        has_archive=this._cached is not None)
        print("LAUNCHED", json.dumps(launched), flush=True)

BEFORE
job = ms.Job("ten", rows_per_epoch=ROWS)
rows = job.source("rows", ms.datagen(rows=COUNT, fields={"n": {"kind": "sequence"}}))
rows.with_columns(parity="n % 2").key_by("parity").aggregate(n=ms.count(), emit="end", id="counts").sink("out", ms.collect("out"))
from millstream.plan.deployment import Deployment
from millstream.driver.engine import ENGINE
from millstream.connectors.collect.sink import collected
ENGINE.run(job.compile(Deployment(master="local[2]", confs=CONFS)).deployment, listener=tell)
print("ROWS", json.dumps(sorted(collected("out"), key=str)))
"""
EXPECTED = [{"parity": 0, "n": 5}, {"parity": 1, "n": 5}]


@pytest.fixture(scope="module")
def settings():
    return settings_of(context_confs(Deployment(), debug=False))


@pytest.fixture(scope="module")
def archive(settings):
    """The entry of this Java and these options, made if it is not there."""
    entry = caches.entry_for(settings)
    if caches.prepared(entry) is None:
        assert train_now(entry, settings) is None
    return entry


@pytest.fixture
def folder():
    """Short: sockets lie below it."""
    with tempfile.TemporaryDirectory(prefix="ms-", dir="/tmp") as path:
        yield Path(path)


def script(*, before="", rows=1_000_000, count=10, confs=()):
    values = {"BEFORE": before, "ROWS": str(rows), "COUNT": str(count), "CONFS": repr(tuple(confs))}
    text = _RUN
    for name, value in values.items():
        text = text.replace(name, value, 1)
    return [sys.executable, "-c", text]


def environment(folder, **more):
    return {**os.environ, "TMPDIR": str(folder), **more}


def ran(folder, *, env=None, **options):
    done = subprocess.run(
        script(**options),
        env=environment(folder, **(env or {})),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def told(output):
    lines = [line.removeprefix("LAUNCHED ") for line in output.splitlines() if line.startswith("LAUNCHED ")]
    return json.loads(lines[0]) if lines else None


def rows_of(done):
    [line] = [line for line in done.stdout.splitlines() if line.startswith("ROWS ")]
    return json.loads(line.removeprefix("ROWS "))


def warnings_of(done):
    return [line for line in done.stdout.splitlines() if line.startswith("LOG millstream") and " WARNING " in line]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def holders(folder):
    """Processes whose environment names the folder: everything that a run started."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if (
                entry.name.isdigit()
                and str(folder).encode() in (entry / "environ").read_bytes()
                and is_alive(entry.name)
            ):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def wait_until(holds, seconds):
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_start_leaves_nothing_behind(folder, archive):
    done = ran(folder)
    launched = told(done.stdout)
    assert launched["has_archive"]
    assert launched["zygote"] is not None
    assert rows_of(done) == EXPECTED
    assert not Path(launched["folder"]).exists()
    wait_until(lambda: holders(folder) == [], 10)
    assert done.stderr == ""


def test_nothing_outlives_a_killed_process_and_the_next_start_tidies_up(folder, archive):
    process = subprocess.Popen(
        script(rows=1, count=100_000), env=environment(folder), cwd=folder, stdout=subprocess.PIPE, text=True
    )
    launched = next(found for line in process.stdout if (found := told(line)))
    assert is_alive(launched["jvm"])
    assert is_alive(launched["zygote"])
    assert len(holders(folder)) > 3
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    process.stdout.close()
    wait_until(lambda: holders(folder) == [], 10)
    assert Path(launched["folder"]).exists()
    assert rows_of(ran(folder)) == EXPECTED
    assert not Path(launched["folder"]).exists()


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ({"MILLSTREAM_FAST_START": "0"}, {}),
        ({"SPARK_HOME": str(spark_jars()[0].parent.parent)}, {}),
        (
            {"PYSPARK_PYTHON": sys.executable},
            {"before": "from pyspark.sql import SparkSession; SparkSession.builder.master('local[2]').getOrCreate()"},
        ),
    ],
    ids=["switched off", "a SPARK_HOME", "a running context"],
)
def test_pysparks_own_start_works_as_before(folder, env, options):
    done = ran(folder, env=env, **options)
    assert told(done.stdout) is None
    assert rows_of(done) == EXPECTED


def test_extra_jars_are_left_to_the_launcher(folder, tmp_path):
    jar = next(jar for jar in spark_jars() if jar.name.startswith("stream-"))
    copied = shutil.copy(jar, tmp_path / "extra.jar")
    done = ran(folder, confs=[("spark.jars", str(copied))])
    assert told(done.stdout) is None
    assert rows_of(done) == EXPECTED


def copied(archive, entry):
    """An entry of another cache with the content of ours."""
    caches.make_folder(entry)
    for name in (caches.ARCHIVE, caches.JAR, caches.ABOUT):
        shutil.copy(archive / name, entry / name)
    return entry


def test_an_archive_of_garbage_does_no_harm(folder, archive):
    entry = copied(archive, folder / "cache" / "spark" / archive.name)
    broken = entry / caches.ARCHIVE
    broken.chmod(0o600)
    with broken.open("r+b") as file:
        file.seek(1 << 16)
        file.write(os.urandom(1 << 20))
    done = ran(folder, env={"MILLSTREAM_CACHE": str(folder / "cache")})
    assert rows_of(done) == EXPECTED
    assert len(warnings_of(done)) <= 1


def test_a_jvm_that_dies_of_its_archive_is_started_without(folder, archive, settings, monkeypatch):
    home = folder / "java"
    java = java_home(
        home, f'case "$*" in *SharedArchiveFile*) exit 134;; esac\nexec {os.path.realpath(settings.java)} "$@"'
    )
    (home / "lib").mkdir()
    (home / "lib" / "modules").touch()
    (home / "release").write_text("dies of archives")
    monkeypatch.setenv("MILLSTREAM_CACHE", str(folder / "cache"))
    entry = copied(archive, caches.entry_for(dataclasses.replace(settings, java=str(java))))
    done = ran(folder, env={"JAVA_HOME": str(home)})
    assert rows_of(done) == EXPECTED
    [line] = warnings_of(done)
    assert "class archive" in line
    assert caches.prepared(entry) is None


def java_home(home, script):
    (home / "bin").mkdir(parents=True)
    java = home / "bin" / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return java


def test_without_a_zygote_python_processes_start_one_by_one(folder, archive):
    kill = "os.kill(launch._OfThisProcess.launch._zygote.pid, 9)"
    before = (
        f"from millstream.plan.deployment import Deployment\nlaunch.start_early(Deployment(master='local[2]')); {kill}"
    )
    done = ran(folder, before=before)
    assert rows_of(done) == EXPECTED


def test_a_cache_that_cannot_be_written_is_done_without(folder):
    done = ran(folder, env={"MILLSTREAM_CACHE": "/proc/nowhere"})
    assert rows_of(done) == EXPECTED
    assert not told(done.stdout)["has_archive"]
    assert [line for line in done.stdout.splitlines() if "cache cannot be written" in line]


def test_a_java_that_is_a_script_starts_without_archive(folder, settings):
    home = folder / "java"
    java_home(home, f'exec {os.path.realpath(settings.java)} "$@"')
    done = ran(folder, env={"JAVA_HOME": str(home)})
    assert rows_of(done) == EXPECTED
    assert not told(done.stdout)["has_archive"]


def test_a_java_that_does_not_start_is_left_to_the_launcher_to_report(folder):
    done = subprocess.run(
        script(),
        env=environment(folder, JAVA_HOME=str(folder)),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert len(warnings_of(done)) == 1
    assert "PySpark's launcher" in warnings_of(done)[0]


def test_two_starts_at_once_do_not_meet(folder, archive):
    processes = [
        subprocess.Popen(script(), env=environment(folder), cwd=folder, stdout=subprocess.PIPE, text=True) for _ in "ab"
    ]
    outputs = [process.communicate(timeout=300)[0] for process in processes]
    folders = {told(output)["folder"] for output in outputs}
    assert len(folders) == 2
    assert [process.returncode for process in processes] == [0, 0]


def test_the_options_are_those_of_the_launcher(settings):
    """What Spark's launcher prints on this machine, but for a module that only MLlib uses."""
    home = spark_jars()[0].parent.parent
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"}
    jars = f"{home}/jars/*"
    main = ["org.apache.spark.launcher.Main", "org.apache.spark.deploy.SparkSubmit", "pyspark-shell"]
    printed = subprocess.run([settings.java, "-cp", jars, *main], env=env, capture_output=True, check=True).stdout
    words = printed.decode().split("\0")
    options = {word for word in words if word.startswith(("--", "-D", "-XX:"))}
    assert options - {"--add-modules=jdk.incubator.vector"} == set(LAUNCHERS_OPTIONS)
