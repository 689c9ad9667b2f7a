"""Which names may stand in an archive: those that mean the same file, inside the folder, on every system."""

from __future__ import annotations

import unicodedata

from millstream.control.artifacts.limits import ArtifactRefused

_LONGEST = 1024
_LONGEST_PART = 255
_DEEPEST = 64
_DEVICES = frozenset(
    {"con", "prn", "aux", "nul", "conin$", "conout$", "clock$"}
    | {f"{port}{number}" for port in ("com", "lpt") for number in "0123456789¹²³"}
)


def checked_parts(name: str) -> tuple[str, ...]:
    """The parts of a path below the folder; a folder's name may end in `/`.

    Raises:
        ArtifactRefused: (CTL-351) it leads elsewhere, or to different places on different systems.
    """
    if len(name.encode("utf-8", "surrogatepass")) > _LONGEST:
        raise _unsafe(name, f"it has more than {_LONGEST} bytes")
    parts = tuple(name.removesuffix("/").split("/"))
    if len(parts) > _DEEPEST:
        raise _unsafe(name, f"it has more than {_DEEPEST} folders")
    for part in parts:
        # Some systems and programs see the plain character in its look-alike.
        for form in {part, unicodedata.normalize("NFKC", part)}:
            problem = _problem(form)
            if problem is not None:
                raise _unsafe(name, problem)
    return parts


def _problem(part: str) -> str | None:
    if part == "":
        return "it begins with '/', or has nothing between two of them"
    if part in {".", ".."}:
        return f"it has the part {part!r}"
    if any(character in part for character in "/\\:"):
        return "it has a character that separates parts elsewhere: '\\', ':' or one that looks like '/'"
    if any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for character in part):
        return "it has a character that cannot be seen"
    if part[-1] in ". " or part[0] == " ":
        return "a part begins or ends with a space, or ends with a dot"
    if part.split(".", maxsplit=1)[0].rstrip(" ").casefold() in _DEVICES:
        return "it is the name of a device on some systems"
    return f"a part has more than {_LONGEST_PART} bytes" if len(part.encode()) > _LONGEST_PART else None


class NameTree:
    """The paths of an archive, in which no two are one where capitals or forms of a letter do not count."""

    def __init__(self) -> None:
        self._taken: dict[tuple[str, ...], tuple[tuple[str, ...], bool]] = {}

    def add(self, parts: tuple[str, ...], *, is_folder: bool) -> None:
        """Take a path and the folders above it.

        Raises:
            ArtifactRefused: (CTL-353) it is there already, by another spelling too, or as something else.
        """
        folded = tuple(_folded(part) for part in parts)
        for length in range(1, len(parts) + 1):
            path, is_above = parts[:length], length < len(parts)
            now = (path, is_folder or is_above)
            taken = self._taken.setdefault(folded[:length], now)
            # Only a folder may be named again, as the same one.
            if taken is not now and (taken != now or not now[1]):
                msg = "the archive is refused: two names in it are one file where capitals or forms of a letter do not count"
                found = f"{'/'.join(taken[0])!r} and {'/'.join(path)!r}"
                raise ArtifactRefused(msg, code="CTL-353", found=found[:600], hint="rename one of them")


def _folded(part: str) -> str:
    # Folding may leave letters that normalising joins, and the other way round.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", part).casefold()).casefold()


def _unsafe(name: str, problem: str) -> ArtifactRefused:
    msg = f"the archive is refused: a name in it is not safe: {problem}"
    hint = "make the archive from inside the folder with the code, with plain relative names"
    return ArtifactRefused(msg, code="CTL-351", found=repr(name)[:300], hint=hint)
