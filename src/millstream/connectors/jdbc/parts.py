"""Parts: the rows that one attempt of one task left behind, and which of them nobody will ever publish."""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterable

from millstream.connectors.jdbc.cells import HASHES
from millstream.connectors.jdbc.database import Cursor
from millstream.connectors.jdbc.layout import Layout
from millstream.model.ids import Epoch

_AT_ONCE = 500


def part_number(sink: tuple[str, str, str], epoch: int, task: str, attempt: str) -> int:
    """The number by which rows name their part; 63 bits of a hash of its identity."""
    identity = "/".join((*sink, str(epoch), task, attempt))
    digest = hashlib.blake2b(identity.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % HASHES


def delete_parts(cursor: Cursor, layout: Layout, place: str, parts: Iterable[int]) -> None:
    """Delete parts with their rows, which lie in the table `place`."""
    remaining = iter(parts)
    while some := list(itertools.islice(remaining, _AT_ONCE)):
        listed = f"({layout.marks(len(some))})"
        cursor.execute(f"DELETE FROM {place} WHERE ms_part IN {listed}", some)
        cursor.execute(f"DELETE FROM {layout.part} WHERE part IN {listed}", some)


def parts_beyond(
    cursor: Cursor, layout: Layout, sink: tuple[str, str, str], durable: Epoch | None
) -> dict[str, list[int]]:
    """The parts of a sink that no manifest needs, by the table in which their rows lie.

    A part of a durable epoch without a marker is kept: it waits to be published.
    """
    mark = layout.mark
    cursor.execute(
        f"SELECT p.place, p.part FROM {layout.part} p "
        f"WHERE p.job = {mark}1 AND p.lineage = {mark}2 AND p.step = {mark}3 AND NOT p.is_published "
        f"AND (p.epoch > {mark}4 "
        f"OR p.epoch <= (SELECT f.low_water FROM {layout.fence} f WHERE {layout.same_sink()}) "
        f"OR EXISTS (SELECT 1 FROM {layout.marker} m WHERE m.job = p.job AND m.step = p.step "
        "AND m.lineage = p.lineage AND m.epoch = p.epoch))",
        (*sink, -1 if durable is None else durable),
    )
    by_place: dict[str, list[int]] = defaultdict(list)
    for place, part in cursor.fetchall():
        by_place[place].append(part)
    return dict(by_place)
