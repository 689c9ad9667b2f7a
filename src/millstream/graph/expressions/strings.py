"""String functions. Positions and lengths count code points, as in Spark."""

from __future__ import annotations

from millstream.graph.expressions import patterns
from millstream.graph.expressions import term as t
from millstream.graph.expressions.function import UNLIMITED, Arguments, Function
from millstream.graph.expressions.refusal import LITERAL
from millstream.graph.expressions.term import Term, quoted

MAX_REPEAT = 10_000


def _cased(function: str) -> Function:
    def build(a: Arguments) -> Term:
        return a.result(f"ms_{function}({a.string(0)})", t.STRING)

    return Function(usage=f"{function}(s)", doc=f"{function} case, by the full Unicode rules", build=build)


def _trimmed(function: str, side: str) -> Function:
    def build(a: Arguments) -> Term:
        return a.result(f"{function}({a.string(0)}, ' ')", t.STRING)

    return Function(usage=f"{function}(s)", doc=f"without spaces at {side}", build=build)


def _length(a: Arguments) -> Term:
    return a.result(f"CAST(length({a.string(0)}) AS INTEGER)", t.INT)


def _substring(a: Arguments) -> Term:
    text, start = a.string(0), a.integer(1)
    count = a.integer(2) if len(a) == 3 else "2147483647"
    first = a.terms[1]
    if first.is_literal and isinstance(first.value, int) and first.value >= 0:
        sql = f"substring({text}, {max(first.value, 1)}, greatest({count}, 0))"
    else:
        length = f"CAST(length({text}) AS BIGINT)"
        before = f"CASE WHEN {start} > 0 THEN {start} - 1 WHEN {start} < 0 THEN {length} + {start} ELSE 0 END"
        taken = f"greatest({before} + {count}, 0) - greatest({before}, 0)"
        sql = f"substring({text}, greatest({before}, 0) + 1, greatest({taken}, 0))"
    # greatest skips nulls
    return a.result(f"CASE WHEN {start} IS NULL OR {count} IS NULL THEN NULL ELSE {sql} END", t.STRING)


def _concat(a: Arguments) -> Term:
    joined = " || ".join(a.string(index) for index in range(len(a)))
    return a.result(f"({joined})", t.STRING)


def _concat_ws(a: Arguments) -> Term:
    joined = ", ".join(a.string(index) for index in range(len(a)))
    return a.result(f"concat_ws({joined})", t.STRING)


def _replace(a: Arguments) -> Term:
    by = a.string(2) if len(a) == 3 else "''"
    return a.result(f"replace({a.string(0)}, {a.string(1)}, {by})", t.STRING)


def _test(function: str, name: str, doc: str) -> Function:
    def build(a: Arguments) -> Term:
        return a.result(f"{function}({a.string(0)}, {a.string(1)})", t.BOOLEAN)

    return Function(usage=f"{name}(s, part)", doc=doc, build=build, least=2, most=2)


def _padded(function: str, side: str) -> Function:
    def build(a: Arguments) -> Term:
        pad = a.literal(2, str, "a non-empty string") if len(a) == 3 else " "
        if not pad:
            raise a.site.refuse(LITERAL, f"{function} cannot fill with an empty string", hint="write a character")
        return a.result(f"{function}({a.string(0)}, {a.integer(1)}, {quoted(pad)})", t.STRING)

    doc = f"filled on the {side} with `pad` (a literal; space by default), or cut, to `n` characters"
    return Function(usage=f"{function}(s, n[, pad])", doc=doc, build=build, least=2, most=3)


def _repeat(a: Arguments) -> Term:
    count = a.literal(1, int, "a count")
    if count > MAX_REPEAT:
        raise a.site.refuse(LITERAL, f"repeat count is above {MAX_REPEAT}", found=count, hint="use a smaller count")
    return a.result(f"repeat({a.string(0)}, {max(count, 0)})", t.STRING)


def _reverse(a: Arguments) -> Term:
    return a.result(f"ms_reverse({a.string(0)})", t.STRING)


def _instr(a: Arguments) -> Term:
    return a.result(f"CAST(instr({a.string(0)}, {a.string(1)}) AS INTEGER)", t.INT)


def _locate(a: Arguments) -> Term:
    return a.result(f"CAST(instr({a.string(1)}, {a.string(0)}) AS INTEGER)", t.INT)


def _regexp_extract(a: Arguments) -> Term:
    pattern = a.literal(1, str, "a pattern")
    group = a.literal(2, int, "a group number") if len(a) == 3 else 1
    translated = patterns.regex(pattern, a.site, may_end=group > 0)
    if not 0 <= group <= patterns.group_count(pattern):
        raise a.site.refuse(
            LITERAL, "pattern has no such group", found=group, hint="put the part in ( ), or ask for group 0"
        )
    return a.result(f"regexp_extract({a.string(0)}, {quoted(translated)}, {group})", t.STRING)


def _regexp_replace(a: Arguments) -> Term:
    pattern = a.literal(1, str, "a pattern")
    translated = patterns.regex(pattern, a.site, may_end=False, may_be_empty=False)
    by = patterns.replacement(a.literal(2, str, "a replacement"), patterns.group_count(pattern), a.site)
    return a.result(f"regexp_replace({a.string(0)}, {quoted(translated)}, {quoted(by)}, 'g')", t.STRING)


_SUBSTRING = Function(
    usage="substring(s, start[, n])",
    doc="`n` characters from `start`; 1 is the first, negative counts from the end",
    build=_substring,
    least=2,
    most=3,
)

FUNCTIONS: dict[str, Function] = {
    "concat": Function(usage="concat(s, ...)", doc="joined; null when any part is null", build=_concat, most=UNLIMITED),
    "concat_ws": Function(
        usage="concat_ws(sep, s, ...)",
        doc="joined with a separator; nulls are left out",
        build=_concat_ws,
        least=2,
        most=UNLIMITED,
    ),
    "contains": _test("contains", "contains", "whether `part` occurs"),
    "endswith": _test("ends_with", "endswith", "whether the string ends with `part`"),
    "instr": Function(
        usage="instr(s, part)",
        doc="position of the first occurrence, from 1; 0 when there is none",
        build=_instr,
        least=2,
        most=2,
    ),
    "length": Function(usage="length(s)", doc="number of characters", build=_length),
    "locate": Function(
        usage="locate(part, s)", doc="like `instr`, with the part first", build=_locate, least=2, most=2
    ),
    "lower": _cased("lower"),
    "lpad": _padded("lpad", "left"),
    "ltrim": _trimmed("ltrim", "the start"),
    "regexp_extract": Function(
        usage="regexp_extract(s, 'pattern'[, group])",
        doc="the group (1 by default) of the first match; empty when there is none",
        build=_regexp_extract,
        least=2,
        most=3,
    ),
    "regexp_replace": Function(
        usage="regexp_replace(s, 'pattern', 'by')",
        doc="every match replaced; `$1` is a group",
        build=_regexp_replace,
        least=3,
        most=3,
    ),
    "repeat": Function(
        usage="repeat(s, 3)", doc="the string several times; the count is a literal", build=_repeat, least=2, most=2
    ),
    "replace": Function(
        usage="replace(s, part[, by])", doc="every occurrence of `part` replaced", build=_replace, least=2, most=3
    ),
    "reverse": Function(usage="reverse(s)", doc="characters in reverse order", build=_reverse),
    "rpad": _padded("rpad", "right"),
    "rtrim": _trimmed("rtrim", "the end"),
    "startswith": _test("starts_with", "startswith", "whether the string starts with `part`"),
    "substr": _SUBSTRING,
    "substring": _SUBSTRING,
    "trim": _trimmed("trim", "both ends"),
    "upper": _cased("upper"),
}
