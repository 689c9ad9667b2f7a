"""A tree of remembered values: objects with names below them, and values at their ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from millstream.agents.events.codec import decode, encode

Path = str | Sequence[str]
Segments = tuple[str, ...]
MISSING = object()
_BRANCH = "."
_VALUES = "None, bool, int, float, str, bytes, and lists and dicts of them"


class Branch(dict[str, Any]):
    """An object of the tree: what stands below it, by name. A plain dict is a value."""

    __slots__ = ()


def segments(path: Path) -> Segments:
    """The names on a way: `a.b` has two; a sequence is taken as it is.

    Raises:
        ValueError: a name is empty.
    """
    names = tuple(path.split(".")) if isinstance(path, str) else tuple(path)
    if not names or not all(isinstance(name, str) and name for name in names):
        msg = f"{path!r} is no path of memory; write 'a.b', or ['a', 'b']"
        raise ValueError(msg)
    return names


def value_copy(value: Any, path: Segments, place: str = "") -> Any:
    """A copy of a value that memory may hold.

    Raises:
        TypeError: it may not hold it.
    """
    kind = type(value)
    if value is None or kind in {bool, int, float, str, bytes}:
        return value
    if kind is list:
        return [value_copy(each, path, f"{place}[{number}]") for number, each in enumerate(value)]
    if kind is dict and all(type(name) is str for name in value):
        return {name: value_copy(each, path, f"{place}[{name!r}]") for name, each in value.items()}
    found = "a dict with keys that are no text" if kind is dict else f"a {kind.__qualname__}"
    hint = "; use new_object to remember an object" if kind.__name__ == "MemoryObject" else ""
    msg = f"value at memory path {'.'.join(path)!r}{place} is {found}; memory holds {_VALUES}{hint}"
    raise TypeError(msg)


class MemoryTree:
    """What is remembered, with the operations that change it. It checks what is asked, and hands values out as they are."""

    __slots__ = ("_before", "_is_kept", "root", "version")

    def __init__(self, root: Branch | None = None) -> None:
        self.root = Branch() if root is None else root
        self.version = 0
        """Counts the changes."""
        self._before: Branch | None = None
        self._is_kept = False

    def keep(self) -> None:
        """From now on `undo` goes back to here."""
        self._is_kept, self._before = True, None

    def undo(self) -> None:
        """As it was when `keep` was called."""
        if self._before is not None:
            self.root, self._before = self._before, None

    def _change(self) -> None:
        self.version += 1
        if self._is_kept and self._before is None:
            self._before = _copy(self.root)

    def find(self, path: Segments) -> Any:
        """What stands at a place: a value, a `Branch`, or `MISSING`."""
        found: Any = self.root
        for name in path:
            if type(found) is not Branch or name not in found:
                return MISSING
            found = found[name]
        return found

    def set(self, path: Segments, value: Any) -> None:
        """Put a value; objects on the way are made."""
        self._change()
        above = self._above(path)
        if type(above.get(path[-1])) is Branch:
            msg = f"memory path {'.'.join(path)!r} is an object; delete it before a value takes its place"
            raise ValueError(msg)
        above[path[-1]] = value

    def new_object(self, path: Segments, *, overwrite: bool) -> None:
        """Make an object; one that is there stays, or is emptied."""
        self._change()
        above = self._above(path)
        found = above.get(path[-1], MISSING)
        if not overwrite and found is not MISSING and type(found) is not Branch:
            msg = f"memory path {'.'.join(path)!r} holds a value; say overwrite=True to put an object in its place"
            raise ValueError(msg)
        if overwrite or found is MISSING:
            above[path[-1]] = Branch()

    def delete(self, path: Segments) -> bool:
        """Remove what stands there; whether there was something."""
        above = self.find(path[:-1])
        if type(above) is not Branch or path[-1] not in above:
            return False
        self._change()
        del self.find(path[:-1])[path[-1]]
        return True

    def clear(self, path: Segments) -> None:
        """Empty an object."""
        found = self.find(path)
        if type(found) is Branch:
            self._change()
            self.find(path).clear()

    def append(self, path: Segments, values: list[Any]) -> None:
        """Put values at the end of a list, which is made if there is none."""
        found = self.find(path)
        if found is MISSING:
            self.set(path, list(values))
        elif type(found) is list:
            self._change()
            self.find(path).extend(values)
        else:
            msg = f"memory path {'.'.join(path)!r} holds no list to append to"
            raise ValueError(msg)

    def increment(self, path: Segments, by: float) -> int | float:
        """Add to a number, which is 0 if there is none."""
        found = self.find(path)
        before = 0 if found is MISSING else found
        if type(before) not in {int, float}:
            msg = f"memory path {'.'.join(path)!r} holds no number to add to"
            raise ValueError(msg)
        after: int | float = before + by
        self.set(path, after)
        return after

    def _above(self, path: Segments) -> Branch:
        """The object that holds the last name of a path."""
        above = self.root
        for place, name in enumerate(path[:-1], start=1):
            below = above.setdefault(name, Branch())
            if type(below) is not Branch:
                msg = f"memory path {'.'.join(path[:place])!r} holds a value; nothing can stand below it"
                raise ValueError(msg)
            above = below
        return above

    def copied(self) -> MemoryTree:
        """A copy that changes apart from this one."""
        return MemoryTree(_copy(self.root))

    def encoded(self) -> bytes | None:
        """Its written form; nothing if it is empty."""
        return encode(_written(self.root)) if self.root else None


def tree_of(content: bytes | None) -> MemoryTree:
    """What was written."""
    return MemoryTree() if content is None else MemoryTree(_read(decode(content)))


def _copy(branch: Branch) -> Branch:
    return Branch({name: _copy(each) if type(each) is Branch else _copied(each) for name, each in branch.items()})


def _copied(value: Any) -> Any:
    if type(value) is list:
        return [_copied(each) for each in value]
    return {name: _copied(each) for name, each in value.items()} if type(value) is dict else value


def _written(branch: Branch) -> dict[str, Any]:
    """Objects and values apart: a dict below an object may be either."""
    return {name: [_BRANCH, _written(each)] if type(each) is Branch else [each] for name, each in branch.items()}


def _read(written: dict[str, Any]) -> Branch:
    return Branch({name: _read(each[1]) if len(each) > 1 else each[0] for name, each in written.items()})
