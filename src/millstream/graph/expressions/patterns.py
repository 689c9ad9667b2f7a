r"""Patterns that mean the same in Java and in RE2: a checked subset of regular expressions, and LIKE.

Java and RE2 differ in `.` and `$` (line terminators), `\s` (vertical tab), case folding, word boundaries, look-around,
back references and empty matches. The first two and `\s` are translated, the others refused.
"""

from __future__ import annotations

import re
import warnings

from millstream.graph.expressions.refusal import LITERAL, Site
from millstream.graph.expressions.term import quoted

_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_TOKEN = re.compile(
    r"(?P<escape>\\.)|(?P<special>\(\?(?!:))|(?P<open>\((?:\?:)?)|(?P<close>\))|(?P<class>\[\^?\]?(?:\\.|[^\]\\])*\])"
    r"|(?P<count>(?:[*+?]|\{\d{1,3}(?:,\d{0,3})?\})(?P<mode>[?+]?))|(?P<any>\.)|(?P<end>\$)|(?P<other>[^\[\]{}\\])",
    re.DOTALL,
)
_ESCAPES = {
    **{letter: "\\" + letter for letter in "dDwWtnrfzA"},
    "s": r"[ \t\n\x{0b}\f\r]",
    "S": r"[^ \t\n\x{0b}\f\r]",
}
_CLASS_ESCAPES = {**_ESCAPES, "s": r" \t\n\x{0b}\f\r"}
_PUNCTUATION = set(r"\.[]{}()*+?^$|/-!#%&,:;<=>@_`~'\"" + " ")
_HINT = "use literals, . [] () | * + ? {n,m} ^ and \\d \\w \\s; or a Python step"


def regex(pattern: str, site: Site, *, may_end: bool = True, may_be_empty: bool = True) -> str:
    """The RE2 form of a Java pattern, or a refusal that shows what has no equal.

    Args:
        pattern: the text as the user wrote it.
        site: where it stands.
        may_end: whether `$`, which in Java also matches before a last line end, can be expressed by the caller.
        may_be_empty: whether the caller copes with a pattern that matches nothing.
    """
    pieces, position = [], 0
    while position < len(pattern):
        match = _TOKEN.match(pattern, position)
        if match is None or match.lastgroup == "special" or match.group("mode") == "+":
            raise _unsupported(site, pattern[position : position + 8])
        if match.lastgroup == "end" and not (may_end and match.end() == len(pattern)):
            raise _unsupported(site, "$", hint=r"write \z for the end of the text")
        pieces.append(_translated(match, site))
        position = match.end()
    if not may_be_empty and _least_width(pattern, site) == 0:
        raise _unsupported(site, pattern, hint="this function needs a pattern that matches at least one character")
    _least_width(pattern, site)
    return "".join(pieces)


def _translated(match: re.Match[str], site: Site) -> str:
    text = match.group()
    if match.group("escape"):
        return _escape(text, _ESCAPES, site)
    if match.group("class"):
        return _class(text, site)
    if match.group("any"):
        return f"[^{_LINE_ENDS}]"
    if match.group("end"):
        return rf"(?:\r\n|[{_LINE_ENDS}])?\z"
    return text


def _class(text: str, site: Site) -> str:
    body = text[2:-1] if text[1] == "^" else text[1:-1]
    if "[" in re.sub(r"\\.", "", body) or "&&" in body or body.startswith("]"):
        raise _unsupported(site, text)
    if r"\S" in body or r"\A" in body or r"\z" in body:
        raise _unsupported(site, text)
    translated = re.sub(r"\\.", lambda match: _escape(match.group(), _CLASS_ESCAPES, site), body, flags=re.DOTALL)
    return ("[^" if text[1] == "^" else "[") + translated + "]"


def _escape(text: str, known: dict[str, str], site: Site) -> str:
    letter = text[1]
    if letter in known:
        return known[letter]
    if letter in _PUNCTUATION:
        return "\\" + letter if letter not in " '\"`_" else letter
    raise _unsupported(site, text)


def _least_width(pattern: str, site: Site) -> int:
    """The fewest characters a pattern matches; Python's own parser finds unbalanced and dangling parts."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            compiled = re.compile(pattern.replace(r"\z", r"\Z"))
    except (re.error, Warning, OverflowError) as problem:
        raise _unsupported(site, f"{pattern}: {problem}") from None
    # Without look-around and \b, whatever can match nothing matches the empty text
    return 0 if compiled.match("") else 1


def group_count(pattern: str) -> int:
    """How many groups a pattern has that `regex` accepted."""
    return re.compile(pattern.replace(r"\z", r"\Z")).groups


def replacement(text: str, groups: int, site: Site) -> str:
    """A Java replacement as RE2 writes it: `$1` becomes a back reference, other characters stand for themselves."""
    pieces, position = [], 0
    while position < len(text):
        char, following = text[position], text[position + 1 : position + 2]
        if char == "$":
            beyond = text[position + 2 : position + 3]
            if not following.isdigit() or int(following) > groups or beyond.isdigit():
                raise _unsupported(
                    site, text[position : position + 3], hint="write $1 for a group, \\$ for the character"
                )
            pieces.append("\\" + following)
            position += 2
            continue
        if char == "\\":
            if not following:
                raise _unsupported(site, text, hint=r"write \\ for the character")
            char, position = following, position + 1
        pieces.append("\\\\" if char == "\\" else char)
        position += 1
    return "".join(pieces)


def like(pattern: str, escape: str, site: Site) -> str:
    """SQL of a LIKE pattern with its escape clause; Spark refuses an escape before any other character."""
    if len(escape) != 1:
        raise _unsupported(site, escape, hint="ESCAPE takes one character")
    for match in re.finditer(re.escape(escape) + "(.?)", pattern, re.DOTALL):
        if match.group(1) not in {"%", "_", escape}:
            raise _unsupported(site, match.group(), hint=f"after {escape!r} only %, _ or {escape!r} may stand")
    return f"{quoted(pattern)} ESCAPE {quoted(escape)}"


def _unsupported(site: Site, part: str, *, hint: str = _HINT) -> Exception:
    return site.refuse(LITERAL, "pattern is not supported", found=repr(part), hint=hint)
