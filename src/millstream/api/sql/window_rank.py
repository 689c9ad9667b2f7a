"""Rankings over a window table: `ROW_NUMBER() OVER (PARTITION BY window_start, window_end, k ORDER BY v)`.

What stays in a window is final once the window has passed, so it is said once and may be grouped, joined and ranked again.
"""

from __future__ import annotations

import dataclasses

from millstream.api.sql.building import Building
from millstream.api.sql.refusal import WINDOW, Place
from millstream.api.sql.relation import WINDOW_COLUMNS, Relation, Visible
from millstream.api.sql.shapes import RankingShape
from millstream.api.sql.times import event_columns
from millstream.graph.operations.rank import TopN, WindowRank, order_of


def with_window_columns(relation: Relation) -> Relation:
    """The relation with the columns that its window gives, which `*` means too."""
    if relation.window is None:
        return relation
    table = relation.tables[0]
    added = tuple(Visible(table=table, name=name, column=name) for name in WINDOW_COLUMNS)
    return dataclasses.replace(relation, columns=(*relation.columns, *added))


def beside_window(keys: list[str], shape: RankingShape, place: Place) -> list[str]:
    """What rows are partitioned by beside their window."""
    if not {"window_start", "window_end"} <= set(keys):
        others = [key for key in keys if key not in WINDOW_COLUMNS]
        hint = f"write PARTITION BY {', '.join(['window_start', 'window_end', *others])}"
        problem = "rows of a window table are ranked within their window"
        raise place.refuse(WINDOW, problem, at=shape.over, found=", ".join(keys) or "no PARTITION BY", hint=hint)
    return [key for key in keys if key not in WINDOW_COLUMNS]


def window_ranking(building: Building, ranking: TopN, relation: Relation) -> WindowRank:
    """The step that ranks the rows of each window."""
    assert relation.window is not None, "rows of a window table have a window"
    spec = relation.window.spec
    if spec.kind == "session":
        hint = "group them first, or use .window(ms.session(...)).process(...)"
        raise building.place.refuse(WINDOW, "rows of sessions are not ranked", found=spec.describe(), hint=hint)
    return WindowRank(
        window=spec,
        n=ranking.n,
        by=ranking.by,
        rank=ranking.rank,
        ties=ranking.ties,
        newest_first=_is_last_in_time(ranking, relation),
        lateness=building.window_lateness(),
    )


def _is_last_in_time(ranking: TopN, relation: Relation) -> bool:
    """The last row in event time: of rows of one instant, the last to come."""
    times = event_columns(relation.stream._job._steps, relation.stream._as_input())
    order = order_of(ranking.by)
    return ranking.n == 1 and not ranking.ties and len(order) == 1 and order[0][0] in times and order[0][1]
