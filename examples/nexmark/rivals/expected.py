"""The right figures of each query: known ones, or computed once by the oracle over the files and kept beside them."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
from examples.nexmark.data import KINDS
from examples.nexmark.golden import SIZES, Values
from examples.nexmark.oracle import Oracle
from examples.nexmark.rivals.process import CHECK, NAME, ORACLE_SQL
from examples.nexmark.running import CHECKS

ALL_CHECKS = {**CHECKS, NAME: CHECK}


def expected_values(query: str, events: int, data: Path) -> Values:
    """Rows and sums that a query must give."""
    if events in SIZES and query in CHECKS:
        return CHECKS[query].expected(events)
    kept = data / "expected.json"
    known: dict[str, list[str]] = json.loads(kept.read_text()) if kept.exists() else {}
    if query not in known:
        known[query] = [str(value) for value in _computed(query, data)]
        kept.write_text(json.dumps(known))
    return tuple(map(Decimal, known[query]))


def _computed(query: str, data: Path) -> Values:
    tables = {kind: pq.read_table([*sorted((data / kind).glob("part-*.parquet"))]) for kind in KINDS}
    with Oracle(tables) as oracle:
        answer = oracle.answer_of(ORACLE_SQL) if query == NAME else oracle.answer(query)
        return ALL_CHECKS[query].found(answer)
