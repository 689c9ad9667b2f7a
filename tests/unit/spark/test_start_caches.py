"""The cache of class archives: one entry for each Java and set of options, used only when whole and ours."""

import json
import os
import time

import pytest

from millstream.spark.start import caches
from millstream.spark.start.command import JvmSettings, settings_of, spark_jars


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv(caches.VARIABLE, str(tmp_path / "cache"))


def fake_java(folder, version):
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    (folder / "bin" / "java").touch()
    (folder / "lib" / "modules").write_text(version)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"')
    return str(folder / "bin" / "java")


def settings(java, memory="1024m", options=("-Xss16m",)):
    return JvmSettings(memory=memory, options=options, java=java)


def made(entry):
    caches.make_folder(entry)
    (entry / caches.ARCHIVE).write_bytes(b"a" * 100)
    (entry / caches.JAR).write_bytes(b"j" * 10)
    caches.finish(entry, "Java")
    return entry


def test_java_options_and_large_heaps_have_entries_of_their_own(tmp_path):
    old, new = fake_java(tmp_path / "17", "17.0.1"), fake_java(tmp_path / "21", "21.0.1")
    entries = [
        caches.entry_for(settings(old)),
        caches.entry_for(settings(new)),
        caches.entry_for(settings(old, options=("-Xss8m",))),
        caches.entry_for(settings(old, memory="64g")),
    ]
    assert len(set(entries)) == 4
    assert caches.entry_for(settings(old, memory="2048m")) == entries[0]


def test_a_java_that_does_not_say_what_it_is_has_no_entry(tmp_path):
    (tmp_path / "java").touch()
    assert caches.entry_for(settings(str(tmp_path / "java"))) is None


def test_a_whole_entry_is_used_and_listed(tmp_path):
    entry = caches.entry_for(settings(fake_java(tmp_path / "17", "17")))
    assert caches.is_wanted(entry)
    assert caches.prepared(entry) is None
    made(entry)
    assert caches.prepared(entry).archive == entry / caches.ARCHIVE
    assert not caches.is_wanted(entry)
    assert [each.bytes for each in caches.entries()] == [110]


@pytest.mark.parametrize("damage", ["cut", "no jar", "no word", "nonsense", "open to others"])
def test_a_damaged_entry_is_not_used(tmp_path, damage):
    entry = made(caches.entry_for(settings(fake_java(tmp_path / "17", "17"))))
    about = entry / caches.ABOUT
    harm = {
        "cut": lambda: (entry / caches.ARCHIVE).write_bytes(b"a" * 99),
        "no jar": lambda: (entry / caches.JAR).unlink(),
        "no word": about.unlink,
        "nonsense": lambda: about.write_text(json.dumps([1])),
        "open to others": lambda: entry.chmod(0o777),
    }
    harm[damage]()
    assert caches.prepared(entry) is None
    assert caches.entries() == []
    # What others can write would not be used when it is whole, so it is not made.
    assert caches.is_wanted(entry) == (damage != "open to others")


def test_what_failed_is_tried_again_a_day_later(tmp_path):
    entry = caches.entry_for(settings(fake_java(tmp_path / "17", "17")))
    caches.make_folder(entry)
    (entry / caches.FAILED).touch()
    assert not caches.is_wanted(entry)
    yesterday = time.time() - 25 * 3600
    os.utime(entry / caches.FAILED, (yesterday, yesterday))
    assert caches.is_wanted(entry)


def test_old_entries_go(tmp_path):
    entries = [caches.entry_for(settings(fake_java(tmp_path / str(n), str(n)))) for n in range(5)]
    for entry in entries:
        made(entry)
    assert [entry.exists() for entry in entries] == [False, False, True, True, True]
    caches.remove_all()
    assert caches.entries() == []


def test_used_jars_come_first_and_none_is_missing():
    jars = spark_jars()
    names = [jar.name for jar in jars]
    assert names[0].startswith("spark-catalyst_")
    assert names.index(next(n for n in names if n.startswith("rocksdbjni"))) < 80
    assert sorted(names) == sorted(jar.name for jar in jars[0].parent.glob("*.jar"))


def test_options_of_the_user_replace_ours():
    found = settings_of({"spark.driver.extraJavaOptions": "-Da='b c' -Xss1m", "spark.driver.memory": "2g"}, {})
    assert found.options == ("-Da=b c", "-Xss1m")
    assert "-Xmx2g" in found.command(())


@pytest.mark.parametrize(
    ("memory", "is_wide"), [("1024m", False), ("64g", True), ("2147483648", False), ("2gb", False), ("1T", True)]
)
def test_any_way_to_write_a_size_is_borne(memory, is_wide):
    assert settings("java", memory=memory).has_wide_references == is_wide
