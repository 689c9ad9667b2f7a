"""The lists that readers see below a directory: those of epochs, and of sinks that replace those of the result that counts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from millstream.connectors.files.lists import FileList, list_folders, list_name, read_list
from millstream.connectors.files.results import ShownResult, shown_results
from millstream.connectors.files.store import HELD_BACK, LISTS
from millstream.errors import CheckpointRefused


class PublishedLists:
    """The lists below a directory; remembers which were taken, since a list never changes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._taken: set[str] = set()
        self._given: set[str] = set()

    def taken(self) -> None:
        """What `new` gave last is safe with the caller and need not be given again."""
        self._taken |= self._given

    def new(self) -> list[FileList]:
        """Lists that were not taken yet, oldest first and each sink's in order of its epochs."""
        placed = [each for entries in _visible(self._root) for each in _in_order(entries) if each[1] not in self._taken]
        self._given = {path for _, path in placed}
        return [each for _, path in sorted(placed) if (each := _read_present(Path(path))) is not None]


def every_list(root: Path) -> list[FileList]:
    """All lists that lie there, whether readers see them or not."""
    folders = [*_folders(root / LISTS), *_folders(root / LISTS / HELD_BACK)]
    paths = [Path(entry.path) for folder in folders for entry in _entries(folder)]
    return [each for path in paths if (each := _read_present(path)) is not None]


def _visible(root: Path) -> list[list[os.DirEntry[str]]]:
    """The lists that count, folder by folder; of one and the same moment, however many results are shown meanwhile."""
    while True:
        results = shown_results(root)
        hidden = {folder for result in results for folder in _replaced_folders(root, result)}
        found = [_entries(folder) for folder in _folders(root / LISTS) if folder not in hidden]
        of_results = [(result, _entries_of(root, result)) for result in results]
        if shown_results(root) == results:
            break
    for result, folders in of_results:
        _check_whole(result, folders)
    return [*found, *(entries for _, folders in of_results for entries in folders)]


def _replaced_folders(root: Path, result: ShownResult) -> Iterator[Path]:
    """Folders whose lists do not count by themselves: what was replaced, and what counts as a part of the result."""
    for lineage in result.known:
        yield from list_folders(root, job=result.job, lineage=lineage, step=result.step)


def _entries_of(root: Path, result: ShownResult) -> list[list[os.DirEntry[str]]]:
    """Per lineage of a result the lists that belong to it."""
    entries: list[list[os.DirEntry[str]]] = []
    for lineage, last in result.lineages:
        folders = list_folders(root, job=result.job, lineage=lineage, step=result.step)
        inside = [entry for folder in folders if folder.is_dir() for entry in _entries(folder)]
        entries.append([entry for entry in inside if entry.name <= list_name(last)])
    return entries


def _check_whole(result: ShownResult, folders: Sequence[Sequence[os.DirEntry[str]]]) -> None:
    """A result is shown with all lists of all its epochs, or not at all."""
    for (lineage, last), entries in zip(result.lineages, folders, strict=True):
        if len({entry.name for entry in entries}) != last + 1:
            msg = f"lists of lineage {lineage!r} are missing, which belong to the result of a run"
            found, known = f"{len(entries)} lists", f"{last + 1} lists"
            raise CheckpointRefused(
                msg, code="FILES-012", step=result.step, found=found, known=known, hint="restore the lists"
            )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    with contextlib.suppress(FileNotFoundError), os.scandir(folder) as entries:
        return [each for each in entries if _is_list(each.name)]
    return []


def _read_present(path: Path) -> FileList | None:
    try:
        return read_list(path)
    except FileNotFoundError:  # withdrawn since the folder was listed
        return None


def _folders(lists: Path) -> list[Path]:
    return [folder for folder in lists.iterdir() if folder.is_dir()] if lists.exists() else []


def _is_list(name: str) -> bool:
    return name.endswith(".json") and not name.startswith(".")


def _in_order(entries: Sequence[os.DirEntry[str]]) -> list[tuple[int, str]]:
    """Times of lists, never lower than the time of an earlier epoch, so a clock that steps back cannot swap epochs."""
    latest, placed = 0, []
    for entry in sorted(entries, key=lambda each: each.name):
        with contextlib.suppress(FileNotFoundError):  # withdrawn since the folder was listed
            latest = max(latest, entry.stat().st_mtime_ns)
            placed.append((latest, entry.path))
    return placed
