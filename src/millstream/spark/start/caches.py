"""What is made once and kept in the user's cache: an archive of the classes that our queries load, and a jar.

Loaded classes are code, so a cache that others can write is not used. What is there fits one Java, one set of jars and one
set of options; the JVM checks that again, and without a word goes on without an archive that does not fit.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from millstream.spark.start.command import JvmSettings, spark_jars

VARIABLE = "MILLSTREAM_CACHE"
"""Environment variable: another place for the cache."""
ARCHIVE, JAR, ABOUT, FAILED, LOCK = "classes.jsa", "local-files.jar", "about.json", "failed", "making"
_FORMAT = 1
_KEPT = 3
_TRY_AGAIN_SECONDS = 24 * 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """One entry of the cache."""

    folder: Path
    java: str
    bytes: int
    made: float

    @property
    def archive(self) -> Path:
        """The archive of classes."""
        return self.folder / ARCHIVE

    @property
    def jar(self) -> Path:
        """Our file system, compiled."""
        return self.folder / JAR


def cache_root(environ: Mapping[str, str] = os.environ) -> Path:
    """Where caches lie."""
    named = environ.get(VARIABLE)
    if named:
        return Path(named)
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "millstream"


def entry_for(settings: JvmSettings) -> Path | None:
    """The folder of the entry for these settings; `None` when it cannot be told which Java this is."""
    java = _java_build(settings.java)
    if java is None:
        return None
    jars = [(jar.name, jar.stat().st_size) for jar in spark_jars()]
    folder = str(spark_jars()[0].parent)
    content = json.dumps([_FORMAT, java, folder, jars, settings.options, settings.has_wide_references])
    return cache_root() / "spark" / hashlib.sha256(content.encode()).hexdigest()[:16]


def prepared(entry: Path) -> Prepared | None:
    """What an entry holds, if it is whole and nobody else could have written it."""
    try:
        if not all(_is_ours(path) for path in (entry.parent.parent, entry.parent, entry)):
            return None
        about = json.loads((entry / ABOUT).read_text())
        made = Prepared(folder=entry, java=about["java"], bytes=about["bytes"], made=about["made"])
        is_whole = made.archive.stat().st_size == about["archive"] and made.jar.stat().st_size == about["jar"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return made if is_whole else None


def entries() -> list[Prepared]:
    """All whole entries, newest first."""
    root = cache_root() / "spark"
    held = [prepared(folder) for folder in root.iterdir()] if root.is_dir() else []
    return sorted((each for each in held if each is not None), key=lambda each: -each.made)


def is_wanted(entry: Path) -> bool:
    """Whether an entry should be made: it is not there, could be used, and was not tried in vain lately."""
    if any(path.exists() and not _is_ours(path) for path in (entry.parent.parent, entry.parent, entry)):
        return False
    try:
        tried = (entry / FAILED).stat().st_mtime
    except OSError:
        tried = 0.0
    return prepared(entry) is None and time.time() - tried > _TRY_AGAIN_SECONDS


def make_folder(entry: Path) -> None:
    """Make the folders of an entry, for this user alone."""
    for folder in (entry.parent.parent, entry.parent, entry):
        folder.mkdir(mode=0o700, parents=folder is entry.parent.parent, exist_ok=True)


def finish(entry: Path, java: str) -> None:
    """Say what was made; an entry without this is not used. Older entries go."""
    sizes = {"archive": (entry / ARCHIVE).stat().st_size, "jar": (entry / JAR).stat().st_size}
    about = {"java": java, "made": time.time(), "bytes": sum(sizes.values()), **sizes}
    fresh = entry / f"{ABOUT}.new"
    fresh.write_text(json.dumps(about))
    fresh.replace(entry / ABOUT)
    (entry / FAILED).unlink(missing_ok=True)
    for old in entries()[_KEPT:]:
        remove(old.folder)


def remove(entry: Path) -> None:
    """Remove an entry, as far as it can be removed; a JVM that uses it keeps what it has mapped."""
    # First what makes it count.
    with contextlib.suppress(OSError):
        (entry / ABOUT).unlink(missing_ok=True)
    shutil.rmtree(entry, ignore_errors=True)


def remove_all() -> None:
    """Remove every entry, also those that were never finished."""
    root = cache_root() / "spark"
    for folder in list(root.iterdir()) if root.is_dir() else []:
        remove(folder)


def _is_ours(path: Path) -> bool:
    about = path.stat()
    return about.st_uid == os.getuid() and not about.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _java_build(java: str) -> str | None:
    """What the Java says of itself; read from its folder, as asking it takes as long as starting it."""
    home = Path(os.path.realpath(java)).parent.parent
    try:
        modules = (home / "lib" / "modules").stat()
        return f"{(home / 'release').read_text()}{modules.st_size} {modules.st_mtime_ns}"
    except OSError:
        return None
