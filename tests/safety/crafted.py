"""Stored names that somebody made up: wherever one is read it is refused, and nothing outside is touched.

`python -O -m tests.safety.crafted` runs all cases without assert statements; it ends with 1 when one of them fails.
"""

import hashlib
import json
import os
import shutil
import sqlite3
import sys
import tempfile
import traceback
import zipfile
from pathlib import Path

import msgspec
from tests.safety.must import Broken, must, refused
from tests.unit.spark.spark_files import write_checked, write_checkpoint, write_recorded

import millstream as ms
from millstream.api.running.control import RequestBox
from millstream.checkpoint.head import HEAD, decode_head
from millstream.checkpoint.page_file import PageFile, PageReader
from millstream.checkpoint.savepoint import RECORD
from millstream.checkpoint.savepoint_files import verify_savepoint
from millstream.checkpoint.sealed import seal, unseal
from millstream.checkpoint.stores.memory import MemoryStore
from millstream.checkpoint.stores.open import open_store
from millstream.connectors.files.discovery_log import DiscoveryLog
from millstream.connectors.files.lists import FileList
from millstream.connectors.intake.files import LogPlace, entries_between
from millstream.connectors.intake.frames import framed
from millstream.connectors.intake.log import IntakeLog
from millstream.connectors.kafka.outgoing.staging import check_staged, read_staged
from millstream.connectors.staged_rows import remove_staged
from millstream.inspect.checkpoint import open_view
from millstream.inspect.savepoint import save_stopped
from millstream.jobmaster.past_runs import forget_runs
from millstream.spark.files.native import copy_spark_checkpoint

OUTSIDE = ("../x", "a/../../x", "/tmp/x", "..", ".", "", "a//b", "a/", "a\0b", "C:/x", "C:x", "..\\x", "a/./b")
PARTS = (*OUTSIDE, "a/b")
ROWS = [{"k": number % 3, "v": number} for number in range(12)]


def job_in(folder):
    """A job with a source that keeps a log, state, and a sink with lists."""
    (folder / "in").mkdir(exist_ok=True)
    (folder / "in" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    job = ms.Job("crafted", parallelism=2)
    rows = job.source("rows", ms.files(f"{folder}/in"), schema="k long, v long")
    rows.key_by("k").aggregate(n=ms.count(), id="n").sink("out", ms.files(f"{folder}/out"))
    return job


def run(folder, **options):
    return job_in(folder).run(local=True, checkpoint=folder / "checkpoint", **options)


def savepoint_in(folder, form):
    run(folder)
    view = open_view(folder / "checkpoint")
    save_stopped(view, folder / "savepoint", "s1", form)
    return folder / "savepoint"


def resealed(file, change):
    """Change a sealed object and seal it again: its checksum is right."""
    envelope = json.loads(file.read_bytes())
    content = unseal(file.read_bytes(), name=str(file), format=envelope["format"])
    change(content)
    file.write_bytes(seal(content, format=envelope["format"]))


def tree(folder):
    """Every file of a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


# Objects of stores.


def store_names(folder):
    stores = [MemoryStore(), open_store(folder / "local"), open_store(f"sqlite:///{folder}/store.db")]
    for store in stores:
        for name in (name for name in OUTSIDE if "\\" not in name and ":" not in name):
            for attempt in (store.read, store.delete, lambda n, s=store: s.create(n, b"x")):
                with refused("CKPT-061"):
                    attempt(name)
            for expected in (None, b"x"):
                with refused("CKPT-061"):
                    store.swap(name, expected, b"y")
        with refused("CKPT-061"):
            store.names("../")
        store.close()
    must(
        sorted(path.name for path in folder.iterdir() if path.suffix != ".db") == ["local"],
        "something was written outside",
    )


# Savepoints.


def _restore_refused(folder, savepoint, change, *codes):
    resealed(savepoint / RECORD, change)
    before = tree(folder)
    with refused(*codes):
        run(folder, from_savepoint=str(savepoint))
    left = {name: content for name, content in tree(folder).items() if not name.startswith("checkpoint/millstream/")}
    must(left.items() <= before.items(), f"a refused restore wrote {sorted(left.keys() - before.keys())}")


def savepoint_source_files(folder):
    savepoint = savepoint_in(folder, "canonical")
    for field in ("name", "path"):
        for name in OUTSIDE:
            kept = (savepoint / RECORD).read_bytes()
            _restore_refused(
                folder, savepoint, lambda c, f=field, n=name: c["sources"]["rows"][0].update({f: n}), "SAVE-020"
            )
            with refused("SAVE-020"):
                verify_savepoint(savepoint)
            (savepoint / RECORD).write_bytes(kept)
    verify_savepoint(savepoint)


def savepoint_page_files(folder):
    savepoint = savepoint_in(folder, "canonical")
    for name in OUTSIDE:
        kept = (savepoint / RECORD).read_bytes()
        _restore_refused(folder, savepoint, lambda c, n=name: c["state"]["n"][0].update(path=n), "SAVE-020")
        (savepoint / RECORD).write_bytes(kept)


def savepoint_lineages(folder):
    savepoint = savepoint_in(folder, "canonical")
    for name in PARTS:
        kept = (savepoint / RECORD).read_bytes()
        _restore_refused(folder, savepoint, lambda c, n=name: c.update(lineage=n), "SAVE-020")
        (savepoint / RECORD).write_bytes(kept)
        _restore_refused(folder, savepoint, lambda c, n=name: c.update(history=[[n, 3]]), "SAVE-020")
        (savepoint / RECORD).write_bytes(kept)


def native_savepoint_files(folder):
    savepoint = savepoint_in(folder, "native")
    for name in OUTSIDE:
        kept = (savepoint / RECORD).read_bytes()
        _restore_refused(folder, savepoint, lambda c, n=name: [file.update(name=n) for file in c["native"]], "SAVE-020")
        (savepoint / RECORD).write_bytes(kept)


def savepoint_links(folder):
    """A file of a savepoint that is a link out of it is not read, whatever its name."""
    savepoint = savepoint_in(folder, "canonical")
    file = next(path for path in (savepoint / "state").rglob("*") if path.is_file())
    shutil.move(file, folder / "elsewhere")
    file.symlink_to(folder / "elsewhere")
    with refused("SAVE-020"):
        verify_savepoint(savepoint)
    with refused("SAVE-020"):
        run(folder, from_savepoint=str(savepoint))
    record = json.loads((savepoint / RECORD).read_bytes())["content"]["state"]["n"]
    known = next(each for each in record if each["path"] == file.relative_to(savepoint).as_posix())
    with refused("SAVE-020"):
        PageReader(savepoint, msgspec.convert(known, PageFile))


def savepoint_link_itself(folder):
    """The savepoint as a whole may lie behind a link."""
    savepoint = savepoint_in(folder, "canonical")
    shutil.move(savepoint, folder / "moved")
    savepoint.symlink_to(folder / "moved")
    verify_savepoint(savepoint)


# Manifests and the head.


def manifest_names(folder):
    run(folder)
    view = open_view(folder / "checkpoint")
    manifest = folder / "checkpoint" / "millstream" / view.head().manifest
    changes = [lambda c, n=name: c["segments"][0].update(path=n) for name in OUTSIDE]
    changes += [lambda c, n=name: c.update(lineage=n) for name in PARTS]
    changes += [lambda c, n=name: c.update(engine=n) for name in PARTS]
    changes += [lambda c, n=name: c["sources"].update({n: c["sources"]["rows"]}) for name in PARTS]
    kept = manifest.read_bytes()
    for change in changes:
        resealed(manifest, change)
        with refused("CKPT-061"):
            run(folder)
        with refused("CKPT-061"):
            view.manifest()
        manifest.write_bytes(kept)
    run(folder)


def manifest_state_link(folder):
    run(folder)
    state = max((folder / "checkpoint" / "local").rglob("state-*"))
    shutil.move(state, folder / "elsewhere")
    state.symlink_to(folder / "elsewhere")
    with refused("CKPT-061"):
        ms.read_state(folder / "checkpoint", "n")


def head_names(folder):
    run(folder)
    head = folder / "checkpoint" / "millstream" / HEAD
    kept = head.read_bytes()
    changes = [lambda c, n=name: c.update(lineage=n) for name in PARTS]
    changes += [lambda c, n=name: c.update(manifest=n) for name in OUTSIDE if name]
    changes += [lambda c, n=name: c["origin"].update(history=[[n, 1]]) for name in PARTS]
    changes += [lambda c, n=name: c["origin"].update(replaced=[n]) for name in PARTS]
    for change in changes:
        resealed(head, change)
        with refused("CKPT-061"):
            run(folder)
        head.write_bytes(kept)
    must(decode_head(kept).epoch is not None, "the head was changed")


def lineages_that_are_patterns(folder):
    """What earlier runs left is removed by the names of their lineages, and by nothing like them."""
    mine = [folder / "staging" / "out" / "one", folder / "carried" / "one-state", folder / "sources" / "one"]
    for place in mine:
        place.mkdir(parents=True)
    for name in ("*", "?ne", "[o]ne", "on*", "**"):
        forget_runs(MemoryStore(), folder, [name])
    must(all(place.is_dir() for place in mine), "what another lineage keeps was removed")
    forget_runs(MemoryStore(), folder, ["one"])
    must(not any(place.exists() for place in mine), "what the lineage kept is still there")


def intake_files_in_a_circle(folder):
    """Files of an intake log name the one before them: one that names itself or a later one is no way back."""
    for name, before in (
        ("intake-000001-000000", "intake-000001-000001"),
        ("intake-000001-000001", "intake-000001-000000"),
    ):
        head = framed({"follows": [before, len(framed({"follows": [before, 99]}, b""))]}, b"")
        (folder / name).write_bytes(head + framed({"rows": 1, "note": None}, b""))
    start, end = LogPlace("intake-000001-000007", 0), LogPlace("intake-000001-000001", len(head))
    with refused("INTAKE-002"):
        entries_between(folder, start, end)
    must(len(IntakeLog(folder, 2).adopt(end, rest=True)) == 1, "an entry came more than once")


def foreign_object_among_manifests(folder):
    run(folder)
    view = open_view(folder / "checkpoint")
    stray = (folder / "checkpoint" / "millstream" / view.head().manifest).with_name("notes.json")
    stray.write_bytes(b"{}")
    with refused("CKPT-062"):
        run(folder)


# Requests.


def request_ids(folder):
    """A run answers a request that it cannot serve, and goes on to its end."""
    store = open_store(folder / "checkpoint" / "millstream")
    contents = {"one": "../x", "two": "/tmp/x", "three": "", "four": "other", "five": "a\0b", "six": "."}
    for name, identifier in contents.items():
        store.create(f"requests/{name}.json", json.dumps({"id": identifier, "action": "savepoint"}).encode())
    store.create("requests/seven.json", json.dumps({"id": "seven", "action": "savepoint", "to": "\0"}).encode())
    store.create("requests/eight.json", b"{")
    result = run(folder)
    must(result.ended == "finished", f"the run ended {result.ended}")
    for name in (*contents, "seven", "eight"):
        answer = RequestBox(store).answer(name)
        must(answer is not None and not answer.done, f"request {name} was answered with {answer}")
        must(answer.error["code"] == "STEP-094", f"request {name}: {answer.error}")
    must(not list(folder.rglob("savepoint*.json")), "a savepoint was taken")


def damaged_answer(folder):
    store = open_store(folder / "checkpoint" / "millstream")
    store.create("requests/one.json", json.dumps({"id": "one", "action": "savepoint"}).encode())
    store.create("answers/one.json", b"{")
    must(run(folder).ended == "finished", "a damaged answer ended the run")
    with refused("CKPT-003"):
        RequestBox(store).answer("one")


# Connectors.


def published_lists(folder):
    run(folder)
    listings = (folder / "out" / "_millstream").rglob("0*.json")
    listing, kept = next((path, found) for path in listings if (found := json.loads(path.read_bytes()))["files"])
    for name in OUTSIDE:
        changed = {**kept, "files": [{**file, "path": name} for file in kept["files"]]}
        with refused("CKPT-061"):
            FileList.from_json(changed)
        with refused("CKPT-061"):
            _rewritten(listing, changed)
            ms.read_files(folder / "out")


def _rewritten(listing, content):
    text = json.dumps(content["files"], sort_keys=True, separators=(",", ":"))
    listing.write_text(json.dumps({**content, "digest": hashlib.sha256(text.encode()).hexdigest()}))


def staged_files_of_a_manifest(folder):
    """The newest epoch is published again at every start: what its manifest names must be below the sink."""
    run(folder)
    view = open_view(folder / "checkpoint")
    manifest = folder / "checkpoint" / "millstream" / view.head().manifest
    (folder / "x").write_text("not ours")
    file = {"path": "../x", "rows": 1, "bytes": 8, "crc32": 0, "partition": {}}
    resealed(manifest, lambda c: c["participants"]["out"]["handle"].update(files=[file], rows=1))
    with refused("CKPT-061"):
        run(folder)
    must((folder / "x").read_text() == "not ours", "a file outside was changed")


def staged_messages_of_a_manifest(folder):
    """Those of a topic wait in files too: one that a manifest names elsewhere is neither read nor removed."""
    staging = folder / "a" / "staging"
    staging.mkdir(parents=True)
    (folder / "x").write_text("not ours")
    (staging / "link").symlink_to(folder / "x")
    for name in (*OUTSIDE, str(folder / "x"), "../../x", "link"):
        message = {"file": name, "rows": 1, "bytes": 8, "digest": ""}
        with refused("CKPT-061"):
            check_staged(str(staging), [message], epoch=0, step="out")
        with refused("CKPT-061"):
            list(read_staged(str(staging), message))
        with refused("CKPT-061"):
            remove_staged(str(staging), [name])
    must((folder / "x").read_text() == "not ours", "a file outside was changed")


def discovery_logs(folder):
    for number, name in enumerate(name for name in OUTSIDE if name and "\\" not in name and ":" not in name):
        place = folder / str(number)
        place.mkdir()
        line = {"path": name, "size": 1, "mtime_ns": 1, "format": "json", "units": [[0, 0, 1]]}
        (place / "files-000001.jsonl").write_text(json.dumps(line) + "\n")
        with refused("CKPT-061"):
            DiscoveryLog(place, 2)


def waiting_tables(folder):
    """A manifest or the bookkeeping of a database may name any table: only those of sinks are read or emptied."""
    database = folder / "sink.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
        connection.execute("INSERT INTO users VALUES ('ann')")
    connection.close()
    job = ms.Job("crafted")
    rows = job.source("rows", ms.memory(ROWS), schema="k long, v long")
    rows.sink("out", ms.jdbc(f"sqlite:///{database}", table="out"))
    job.run(local=True, checkpoint=folder / "checkpoint")
    connection = sqlite3.connect(database)
    connection.execute(
        "INSERT INTO millstream_part SELECT 1, job, lineage, step, 99, 't', 'a', 'users', 1, FALSE FROM millstream_marker LIMIT 1"
    )
    connection.commit()
    with refused("JDBC-020"):
        job.run(local=True, checkpoint=folder / "checkpoint")
    must(connection.execute("SELECT * FROM users").fetchall() == [("ann",)], "a table of the user was changed")
    connection.close()


# Spark's own files.


def spark_versions(folder):
    """A commit of Spark that names state elsewhere is damage, and no copy follows it."""
    for number, name in enumerate(("../../../x", "a/b", "", "..")):
        source = write_checkpoint(folder / str(number), committed=5, begun=True)
        commit = source / "commits" / "4"
        version, content = commit.read_text().strip().split("\n")
        record = json.loads(content)
        for partitions in record["stateUniqueIds"].values():
            partitions[0][0] = name
        write_checked(commit, f"{version}\n{json.dumps(record)}".encode())
        with refused("CKPT-059"):
            copy_spark_checkpoint(source, folder / f"copy-{number}", 4)
        must(not (folder / f"copy-{number}").exists(), "a copy was begun")


def spark_snapshots(folder):
    """A snapshot lists its files by name: a copy writes none of them outside."""
    source = write_checkpoint(folder / "spark", committed=5, begun=True)
    (folder / "x.sst").write_bytes(b"not Spark's")
    snapshot = next(source.rglob("1_*.zip"))
    listed = [{"localFileName": "8.sst", "dfsSstFileName": "../../../../../x.sst", "sizeBytes": 11}]
    with zipfile.ZipFile(snapshot, "w") as archive:
        archive.writestr("metadata", f"v1\n{json.dumps({'sstFiles': listed})}")
    write_recorded(snapshot, snapshot.read_bytes())
    with refused("CKPT-059"):
        copy_spark_checkpoint(source, folder / "deep" / "copy", 4)
    must(not (folder / "deep").exists(), "a copy was begun")


def spark_links(folder):
    source = write_checkpoint(folder / "spark", committed=5, begun=True)
    commit = source / "commits" / "4"
    shutil.move(commit, folder / "elsewhere")
    commit.symlink_to(folder / "elsewhere")
    with refused("CKPT-059"):
        copy_spark_checkpoint(source, folder / "copy", 4)


CASES = (
    store_names, savepoint_source_files, savepoint_page_files, savepoint_lineages, native_savepoint_files, savepoint_links,
    savepoint_link_itself, manifest_names, manifest_state_link, head_names, lineages_that_are_patterns,
    intake_files_in_a_circle, foreign_object_among_manifests, request_ids,
    damaged_answer, published_lists, staged_files_of_a_manifest, staged_messages_of_a_manifest, discovery_logs, waiting_tables,
    spark_versions, spark_snapshots, spark_links,
)  # fmt: skip


def _planted(folder):
    raise Broken("planted, to show that this would be noticed")


def main(arguments):
    """Run all cases in folders of their own; how many failed decides the exit code."""
    failed, cases = 0, [_planted] if "--plant" in arguments else CASES
    for case in cases:
        folder = Path(tempfile.mkdtemp(prefix="ms-crafted-"))
        try:
            case(folder)
        except Exception:
            failed += 1
            print(f"FAILED {case.__name__}\n{traceback.format_exc()}")
        finally:
            shutil.rmtree(folder)
    print(f"{len(cases)} cases, {failed} failed, asserts {'on' if __debug__ else 'off'}")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.pop("PYTHONOPTIMIZE", None)
    sys.exit(main(sys.argv[1:]))
