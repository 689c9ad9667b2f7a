"""Reading messages in tests: what each became, to be compared with what it becomes alone."""

from millstream.connectors.formats.decode import BadMessage, decoder
from millstream.connectors.formats.encode import encoder
from millstream.connectors.formats.options import DECODE, ENCODE
from millstream.model.connector import checked_options
from millstream.records.codecs import shown_rows


def opened(kind, schema, **options):
    return decoder(kind, schema, checked_options(DECODE, options, step=None, name="test"))


def writing(kind, schema, **options):
    return encoder(kind, schema, checked_options(ENCODE, options, step=None, name="test"))


def outcomes(messages, values):
    """By the index of its message: the row as text, in which NaN and negative zero can be compared, or `bad`."""
    found = {}
    last = -1
    for part in messages.decode(values):
        if isinstance(part, BadMessage):
            assert part.error
            assert part.raw == (values[part.index] or b"")
            assert part.index > last
            last = part.index
            found[part.index] = "bad"
            continue
        assert part.rows.num_rows == len(part.taken) > 0
        part.rows.validate(full=True)
        for index, row in zip(part.taken, shown_rows(part.rows), strict=True):
            assert index > last
            last = int(index)
            found[last] = repr(row)
    return found


def outcome(messages, value):
    """What becomes of one message, or `None` when nothing does."""
    return outcomes(messages, [value]).get(0)


def check_neighbours(messages, values):
    """Every message means the same next to the others and alone; returns what each became."""
    together = outcomes(messages, values)
    alone = {index: outcome(messages, value) for index, value in enumerate(values)}
    assert together == {index: what for index, what in alone.items() if what is not None}
    return together
