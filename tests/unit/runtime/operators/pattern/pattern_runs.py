"""Runs a pattern over rows written as words, with partial matches saved and loaded between any two rows."""

import itertools

import msgspec
import pyarrow as pa

import millstream as ms
from millstream.model.schema import schema_of
from millstream.runtime.operators.pattern.buffer import HeldEvent
from millstream.runtime.operators.pattern.compile import Program
from millstream.runtime.operators.pattern.linear import is_linear
from millstream.runtime.operators.pattern.matching import LinearMatcher
from millstream.runtime.operators.pattern.nfa import Matcher
from millstream.testing import run_job

ROWS = schema_of("word string, price long, at long")


def starts(letter):
    """A condition: the word starts with a letter."""
    return f"substr(word, 1, 1) = '{letter}'"


def rows_of(text, *, step=1000):
    """`a b2 c` as rows a second apart; `a@500` comes at 500."""
    rows = []
    for place, word in enumerate(text.split()):
        word, _, at = word.partition("@")
        digits = "".join(c for c in word if c.isdigit())
        rows.append({"word": word, "price": int(digits or 0), "at": int(at) if at else place * step})
    return rows


def match(pattern, text, *, cuts=(), until=None, schema=ROWS):
    """Matches and timed-out partial matches as words; `cuts` are places at which everything is saved and loaded."""
    program = Program(pattern.spec, schema, step="p")
    found, expired = [], []

    def words(into):
        def add(node, time):
            names = []
            while node is not None:
                names.append(node.event.row[0])
                node = node.before
            into.append(" ".join(reversed(names)))

        return add

    def matcher():
        return Matcher(program, words(found), words(expired))

    rows = [tuple(row.values()) for row in rows_of(text)] if isinstance(text, str) else text
    bits, cells = examined(program, rows, schema)
    current = matcher()
    for place, (row, known, values) in enumerate(zip(rows, bits, cells, strict=True)):
        current.feed(HeldEvent(place, row[-1], row, known, values))
        if place in cuts:
            saved = current.save()
            current = matcher()
            if saved is not None:
                current.load(msgspec.msgpack.decode(msgspec.msgpack.encode(saved)))
    if until is not None:
        current.expire(until)
        assert current.save() is None, "nothing is left when time has run out"
    return found, expired


def examined(program, rows, schema=ROWS):
    """The bits and cells of rows given as tuples."""
    columns = list(zip(*rows, strict=True)) or [[] for _ in schema]
    arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
    bits, cells = program.conditions.examine(pa.RecordBatch.from_arrays(arrays, names=list(schema.names)))
    return bits.tolist(), cells


def every_cut(pattern, text, **more):
    """The same whether partial matches are kept in memory or saved after every row, and by the pattern's own source."""
    plain = match(pattern, text, **more)
    assert match(pattern, text, cuts=range(100), **more) == plain
    if is_linear(Program(pattern.spec, more.get("schema", ROWS), step="p")):
        assert linearly(pattern, text, **more) == plain
    return plain


def linearly(pattern, text, *, until=None, schema=ROWS):
    """As `match`, row by row through the source that is made for the pattern."""
    program = Program(pattern.spec, schema, step="p")
    matcher = LinearMatcher(program, schema, step="p", keeps_expired=True)
    rows = [tuple(row.values()) for row in rows_of(text)] if isinstance(text, str) else text
    found, expired, saved = [], [], None
    for row, *known in zip(rows, *examined(program, rows, schema), strict=True):
        made = matcher.match(saved, [(0, row[-1], row, *known)], row[-1])
        saved = made.saved
        for into, chains in ((found, made.found), (expired, made.expired)):
            into += [said_by(chain) for chain, _ in chains]
    if until is not None:
        made = matcher.match(saved, [], until)
        found += [said_by(chain) for chain, _ in made.found]
        expired += [said_by(chain) for chain, _ in made.expired]
        assert made.saved is None, "nothing is left when time has run out"
    return found, expired


def said_by(chain):
    words = []
    while chain is not None:
        words.append(chain[1][2][0])
        chain = chain[2]
    return " ".join(reversed(words))


def matches(pattern, text, **more):
    return every_cut(pattern, text, **more)[0]


def run(pattern, rows, *, schema="k string, word string, price long, at long", measures=None, **options):
    """The rows a job with a pattern gives."""
    job = ms.Job("patterns", max_parallelism=8)
    stream = job.source("in", ms.memory([]), schema=schema)
    stream = stream.event_time("at", max_delay=options.pop("max_delay", "1m")) if options.pop("timed", True) else stream
    found = stream.key_by("k").pattern(pattern, order_by=options.pop("order_by", ()))
    made = (
        found.measures(id="p", **measures) if measures else found.select(said, schema="k string, words string", id="p")
    )
    made.sink("out", ms.collect("out"))
    return run_job(job, {"in": rows}, **options)


def said(match):
    taken = list(itertools.chain.from_iterable(match.values()))
    return {"k": taken[0]["k"], "words": " ".join(row["word"] for row in taken)}
