"""Random jobs of unions, windows, joins, patterns and timers, and what they give in plain Python: rows as (k, n, event time)."""

import dataclasses
import itertools
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import strategies as st

import millstream as ms

GRAIN = 10
"""Windows and bounds are multiples of it, rows lie there or just before: watermarks meet rows and the ends of windows. The gap of
sessions is no such distance: whether a row at the very end of one belongs to it depends on which of both comes first."""
DELAY, GAP, WAIT = 2 * GRAIN, 15, 3 * GRAIN
SOURCES = ("one", "other")
SCHEMA = "k long, n long, at long"


class Timed(NamedTuple):
    """A row with its event time."""

    k: int
    n: int
    at: int


Rows = list[Timed]


@dataclasses.dataclass(frozen=True)
class Kind:
    """A step: how a job does it, and how plain Python does."""

    inputs: int
    build: Callable[..., ms.DataStream]
    oracle: Callable[..., Rows]
    options: st.SearchStrategy[dict[str, Any]]


def _by_key(rows: Rows) -> dict[int, Rows]:
    groups = defaultdict(list)
    for row in rows:
        groups[row.k].append(row)
    return groups


def _plain(made: ms.DataStream, step: str) -> ms.DataStream:
    return made.select("k", id=f"{step}-plain", n="n % 1000")


# Windows.


def _opened(stream, window, **options):
    kind = {"tumbling": ms.tumbling, "sliding": ms.sliding, "session": ms.session}[window[0]]
    return stream.key_by("k").window(kind(*(each / 1000 for each in window[1:])), **options)


def _windows(stream, step, *, window):
    return _plain(_opened(stream, window).aggregate(n=ms.sum("n"), id=step), step)


def _row_windows(stream, step, *, window):
    return _plain(_opened(stream, window).process(_summed, schema="k long, n long", id=step), step)


def _summed(key, window, rows):
    yield {"k": key["k"], "n": sum(row["n"] for row in rows)}


def _reduced_windows(stream, step, *, window):
    made = _opened(stream, window).reduce(lambda one, other: {**other, "n": one["n"] + other["n"]}, id=step)
    return _plain(made, step)


def _triggered_windows(stream, step, *, window):
    return _plain(_opened(stream, window, trigger=ms.trigger.event_time()).aggregate(n=ms.sum("n"), id=step), step)


def _bounds(kind: str, sizes: tuple[int, ...], times: list[int]) -> list[tuple[int, int]]:
    """The windows of one key."""
    if kind == "session":
        found: list[tuple[int, int]] = []
        for at in sorted(times):
            joins = found and at <= found[-1][1]
            found[-1:] = [(found[-1][0], at + sizes[0])] if joins else [*found[-1:], (at, at + sizes[0])]
        return found
    size, slide = sizes[0], sizes[-1]
    starts = {at // slide * slide - back * slide for at in times for back in range(size // slide)}
    return [(start, start + size) for start in starts]


def _windowed(rows: Rows, *, window) -> Rows:
    made = []
    for k, mine in _by_key(rows).items():
        for start, end in _bounds(window[0], window[1:], [row.at for row in mine]):
            inside = [row.n for row in mine if start <= row.at < end]
            made.append(Timed(k, sum(inside) % 1000, end - 1))
    return made


_WINDOWS = st.sampled_from([("tumbling", 20), ("tumbling", 50), ("sliding", 40, 10), ("session", GAP)])


# Joins.

_BOTH = {"k": "coalesce(k, r_k)", "n": "(coalesce(n, 0) * 3 + coalesce(r_n, 0) * 7) % 1000"}


def _met(one: Timed | None, other: Timed | None, at: int) -> Timed:
    k = one.k if one is not None else other.k
    return Timed(k, ((one.n if one else 0) * 3 + (other.n if other else 0) * 7) % 1000, at)


def _near(left, right, step, *, how, within):
    bounds = tuple(each / 1000 for each in within)
    made = left.key_by("k").join(right.key_by("k"), how=how, within=bounds, prefix="r_", id=step)
    return made.select(id=f"{step}-plain", **_BOTH)


def _near_rows(left: Rows, right: Rows, *, how, within) -> Rows:
    def holds(one, other):
        return one.k == other.k and within[0] <= other.at - one.at <= within[1]

    made = [_met(one, other, max(one.at, other.at)) for one in left for other in right if holds(one, other)]
    if how in {"left", "full"}:
        alone = [one for one in left if not any(holds(one, other) for other in right)]
        made += [_met(one, None, max(one.at, one.at + within[1])) for one in alone]
    if how in {"right", "full"}:
        alone = [other for other in right if not any(holds(one, other) for one in left)]
        made += [_met(None, other, max(other.at, other.at - within[0])) for other in alone]
    return made


def _same_window(left, right, step, *, how, size):
    windows = left.key_by("k").window(ms.tumbling(size / 1000))
    made = windows.join(right.key_by("k"), how=how, prefix="r_", id=step)
    return made.select(id=f"{step}-plain", **_BOTH)


def _same_window_rows(left: Rows, right: Rows, *, how, size) -> Rows:
    made = []
    for start in {row.at // size * size for row in left + right}:
        mine, theirs = ([row for row in rows if row.at // size * size == start] for rows in (left, right))
        last = start + size - 1
        inside = _near_rows(mine, theirs, how=how, within=(-size, size))
        made += [row._replace(at=last) for row in inside]
    return made


def _as_of(left, right, step, *, how):
    # Sums of windows: there is one version of a key at an instant, whatever order rows come in.
    versions = _windows(right, f"{step}-versions", window=("tumbling", GRAIN))
    made = left.key_by("k").temporal_join(versions.key_by("k"), how=how, prefix="r_", id=step)
    return made.select(id=f"{step}-plain", **_BOTH)


def _as_of_rows(left: Rows, right: Rows, *, how) -> Rows:
    versions, made = _windowed(right, window=("tumbling", GRAIN)), []
    for one in left:
        valid = [other for other in versions if other.k == one.k and other.at <= one.at]
        found = max(valid, key=lambda other: other.at, default=None)
        made += [_met(one, found, one.at)] if found is not None or how == "left" else []
    return made


# Others.


def _union(one, other, step):
    return one.union(other, id=step)


class Later(ms.ProcessFunction):
    """A timer behind every row; those of a key at one instant are one."""

    def process(self, row, ctx):
        ctx.event_timer(ctx.timestamp + WAIT)

    def on_timer(self, at, ctx):
        yield {"k": ctx.key[0], "n": at % 1000}


def _timers(stream, step):
    return stream.key_by("k").process(Later(), schema="k long, n long", id=step)


def _timer_rows(rows: Rows) -> Rows:
    return [Timed(k, at % 1000, at) for k, at in {(row.k, row.at + WAIT) for row in rows}]


def _pairs(stream, step):
    found = stream.key_by("k").pattern(ms.pattern.begin("one").next("two"), order_by="n")
    made = found.measures(n="one.n * 3 + two.n * 7", id=step)
    return _plain(made, step)


def _pair_rows(rows: Rows) -> Rows:
    made = []
    for mine in _by_key(rows).values():
        ordered = sorted(mine, key=lambda row: (row.at, row.n))
        made += [_met(one, two, two.at) for one, two in itertools.pairwise(ordered)]
    return made


_HOWS = st.sampled_from(["inner", "left", "right", "full"])
KINDS = {
    "union": Kind(2, _union, lambda one, other: one + other, st.just({})),
    "windows": Kind(1, _windows, _windowed, st.fixed_dictionaries({"window": _WINDOWS})),
    "row windows": Kind(1, _row_windows, _windowed, st.fixed_dictionaries({"window": _WINDOWS})),
    "reduced windows": Kind(1, _reduced_windows, _windowed, st.fixed_dictionaries({"window": _WINDOWS})),
    "triggered windows": Kind(1, _triggered_windows, _windowed, st.fixed_dictionaries({"window": _WINDOWS})),
    "pairs": Kind(1, _pairs, _pair_rows, st.just({})),
    "near": Kind(
        2,
        _near,
        _near_rows,
        st.fixed_dictionaries(
            {"how": _HOWS, "within": st.sampled_from([(-20, 30), (0, 0), (10, 40), (-40, -10), (0, 20)])}
        ),
    ),
    "same window": Kind(
        2, _same_window, _same_window_rows, st.fixed_dictionaries({"how": _HOWS, "size": st.sampled_from([20, 50])})
    ),
    "as of": Kind(2, _as_of, _as_of_rows, st.fixed_dictionaries({"how": st.sampled_from(["inner", "left"])})),
    "timers": Kind(1, _timers, _timer_rows, st.just({})),
}


_LIKELY = ("union", "near", "as of", "same window")
"""Where streams come together, watermarks do too."""


class Drawn(NamedTuple):
    """A step of a random job: its kind, which streams it takes (counted back from the newest), and its options."""

    kind: str
    inputs: tuple[int, ...]
    options: dict[str, Any]


@st.composite
def steps(draw, most=4):
    """Steps, each with streams before it as inputs, and windows over the last: they show the times of rows."""
    made: list[Drawn] = []
    is_behind_session = [False] * len(SOURCES)
    for number in range(draw(st.integers(1, most))):
        kind = draw(st.sampled_from([*KINDS, *_LIKELY]))
        backs = draw(st.permutations(range(3))) if number else (0, 1, 1)
        inputs = tuple(min(back, len(SOURCES) + number - 1) for back in backs[: KINDS[kind].inputs])
        options = draw(KINDS[kind].options)
        is_session = options.get("window", ("",))[0] == "session"
        is_behind = any(is_behind_session[-1 - back] for back in inputs)
        if is_session and is_behind:
            # The ends of sessions lie anywhere: others might end at one of them.
            is_session, options = False, {"window": ("tumbling", 50)}
        is_behind_session.append(is_session or is_behind)
        made.append(Drawn(kind, inputs, options))
    return [*made, Drawn("windows", (0,), {"window": ("tumbling", 20)})]


@st.composite
def scripts(draw):
    """Rows of a source, none more than the delay behind one before it, though some exactly that.

    They come from a seed: drawn one by one they would be few, and seldom near each other.
    """
    rng = random.Random(draw(st.integers(0, 1 << 32)))
    count = draw(st.sampled_from([1, 5, 18, 18, 0]))
    rows = [
        (rng.randint(0, 1), rng.randint(0, 99), rng.randint(0, 12) * GRAIN - rng.randint(0, 1)) for _ in range(count)
    ]
    jitter = [rng.choice([0, GRAIN, DELAY]) for _ in rows]
    order = sorted(range(count), key=lambda place: (rows[place][2] + jitter[place], -rows[place][2]))
    return [dict(zip(("k", "n", "at"), rows[place], strict=True)) for place in order]


def job_of(drawn: list[Drawn]) -> ms.Job:
    """The job; every step has a sink."""
    job = ms.Job("times")
    made = [
        job.source(name, ms.memory([]), schema=SCHEMA)
        .event_time("at", max_delay=DELAY / 1000)
        .select("k", "n", id=f"{name}-rows")
        for name in SOURCES
    ]
    for number, (kind, inputs, options) in enumerate(drawn):
        made.append(KINDS[kind].build(*(made[-1 - back] for back in inputs), f"step-{number}", **options))
        made[-1].sink(f"out-{number}", ms.collect("x"))
    return job


def expected(drawn: list[Drawn], given: dict[str, list[dict[str, int]]]) -> dict[str, list[tuple[int, int]]]:
    """What every sink of the job gets, sorted."""
    made = [[Timed(**row) for row in given[name]] for name in SOURCES]
    for kind, inputs, options in drawn:
        made.append(KINDS[kind].oracle(*(made[-1 - back] for back in inputs), **options))
    outputs = made[len(SOURCES) :]
    return {f"out-{number}": sorted((row.k, row.n) for row in rows) for number, rows in enumerate(outputs)}
