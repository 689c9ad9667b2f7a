"""The decoder of the log on captured messages: kinds of messages, blocks cut anywhere, transactions, and what is broken."""

import numpy as np
import pytest
from tests.unit.connectors.postgres_cdc.captured import LONG, MESSAGES

from millstream.connectors.postgres_cdc.messages import block_of
from millstream.connectors.postgres_cdc.pgoutput import GAP, NULL, TEXT, PgOutputDecoder, TableChanges, TableTruncation
from millstream.errors import StepFailed

ORDERS, OTHER = 0x4000, 0x4008
XIDS = [0x2F4, 0x2F5, 0x2F6, 0x2F7, 0x2FB, 0x2FC, 0x2FD]


def everything(transactions):
    return np.ones(len(transactions.xid), np.bool_)


def decoder(oid=ORDERS, wanted=everything):
    return PgOutputDecoder(oid, wanted, step="orders")


def decoded(messages=MESSAGES, *, size=1000, made=None):
    made = made or decoder()
    rows = [lsn.to_bytes(8) + message for lsn, message in messages]
    return [
        part
        for first in range(0, len(rows), size)
        for part in made.decode(block_of(rows[first : first + size], head=8, lsn_at=0))
    ]


def values(tuples, change):
    def value(column):
        mark = tuples.marks[column, change]
        return "unchanged" if mark == GAP else tuples.column(column, np.array([change]))[0].as_py()

    assert set(np.unique(tuples.marks)) <= {TEXT, NULL, GAP}
    return [value(column) for column in range(len(tuples.marks))]


def told(parts):
    """Every change in words, whatever blocks they came in."""
    found = []
    for part in parts:
        if isinstance(part, TableTruncation):
            found.append(("T", part.relation.table))
            continue
        for place, letter in enumerate(part.letters.tobytes().decode()):
            old = values(part.old, place) if part.has_old[place] else None
            new = None if letter == "D" else values(part.new, place)
            found.append((letter, old, bool(part.is_old_whole[place]), new))
    return found


EXPECTED = [
    ("I", None, False, [b"1", b"ada", b"4.50", None]),
    ("I", None, False, [b"2", b"", None, LONG]),
    ("U", None, False, [b"2", b"", b"5.00", "unchanged"]),
    ("U", [b"1", None, None, None], False, [b"3", b"ada", b"4.50", None]),
    ("D", [b"3", None, None, None], False, None),
    ("U", [b"2", b"", b"5.00", LONG, None], True, [b"2", b"", b"5.00", "unchanged", b"1"]),
    ("D", [b"2", b"", b"5.00", LONG, b"1"], True, None),
    ("T", "orders"),
]


def test_what_a_server_sends():
    assert told(decoded()) == EXPECTED


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11])
def test_blocks_may_end_anywhere(size):
    assert told(decoded(size=size)) == EXPECTED


def test_a_table_is_described_before_its_changes_and_again_when_it_was_altered():
    first, *_, last = [part for part in decoded() if isinstance(part, TableChanges)]
    relation = first.relation
    assert (relation.oid, relation.schema, relation.table, relation.identity) == (ORDERS, "public", "orders", "d")
    assert [tuple(column) for column in relation.columns] == [
        ("id", 20, True),
        ("customer", 25, False),
        ("amount", 1700, False),
        ("note", 25, False),
    ]
    assert last.relation.identity == "f"
    assert [column.name for column in last.relation.columns][-1] == "extra"


def test_changes_know_their_transaction_and_their_place():
    changes = [part for part in decoded() if isinstance(part, TableChanges)]
    xids = [xid for part in changes for xid in part.transactions.xid.tolist()]
    assert xids == [XIDS[0], *XIDS[:6]]
    assert [lsn for part in changes for lsn in part.lsns.tolist()][:2] == [24264208, 24267832]
    commits = np.concatenate([part.transactions.commit_lsn for part in changes])
    assert (np.diff(commits) >= 0).all(), "in the order of commits"
    # 2026-11-18 in microseconds, as the server has written it into the first message.
    assert changes[0].transactions.commit_time[0] == int.from_bytes(MESSAGES[0][1][9:17]) + 946_684_800_000_000


@pytest.mark.parametrize("size", [1, 4, 1000])
def test_transactions_that_are_not_wanted_are_passed_over(size):
    made = decoder(wanted=lambda transactions: np.isin(transactions.xid, [XIDS[2], XIDS[6]]))
    assert told(decoded(size=size, made=made)) == [EXPECTED[3], EXPECTED[7]]


def test_another_table_is_named_and_not_decoded():
    made = decoder()
    decoded(made=made)
    assert made.strangers == {OTHER}
    assert made.relation(OTHER).table == "other"
    assert [change[0] for change in told(decoded(made=decoder(OTHER)))] == ["I"]


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (2, b"X" + MESSAGES[2][1][1:]),  # an unknown letter
        (2, MESSAGES[2][1][:-5]),  # cut
        (2, MESSAGES[2][1] + b"n"),  # too long
        (2, MESSAGES[2][1][:6] + b"\x00\x05" + MESSAGES[2][1][8:]),  # another number of columns
        (2, MESSAGES[2][1][:8] + b"b" + MESSAGES[2][1][9:]),  # a value in binary form
        (2, MESSAGES[2][1][:9] + b"\x7f\xff\xff\xff" + MESSAGES[2][1][13:]),  # a length beyond the end
        (14, MESSAGES[14][1][:5] + b"N" + MESSAGES[14][1][6:]),  # a delete with a new row
        (1, b""),
        (1, MESSAGES[1][1][:20]),
    ],
)
def test_what_is_not_of_the_protocol_is_refused(place, message):
    broken = [*MESSAGES]
    broken[place] = (broken[place][0], message)
    with pytest.raises(StepFailed) as refused:
        decoded(broken)
    assert refused.value.code == "CDC-012"


def test_a_change_of_a_table_that_was_never_described():
    with pytest.raises(StepFailed) as refused:
        decoded([MESSAGES[0], *MESSAGES[2:4]])
    assert refused.value.code == "CDC-012"


def test_messages_of_other_kinds_lead_nowhere():
    extra = [(0, b"O" + bytes(9)), (0, b"Y" + bytes(8)), (0, b"M" + bytes(30))]
    assert told(decoded([MESSAGES[0], *extra, *MESSAGES[1:]])) == EXPECTED
