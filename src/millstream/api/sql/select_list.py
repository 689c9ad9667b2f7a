"""The SELECT list: stars written out, a name for each column."""

from __future__ import annotations

import dataclasses

from sqlglot import exp

from millstream.api.sql.refusal import COLUMN, Place
from millstream.api.sql.relation import Relation, resolved
from millstream.api.sql.writing import column, text_of


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SelectedColumn:
    """One column that a statement gives."""

    name: str
    node: exp.Expr
    """Over the columns of the stream that is read."""


def select_list(select: exp.Select, relation: Relation, place: Place) -> list[SelectedColumn]:
    """The columns that a SELECT gives, in their order."""
    items = [item for node in select.expressions for item in _items(node, relation, place)]
    names = [item.name for item in items]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        hint = "give one of them another name with AS, or write * EXCEPT (column)"
        raise place.refuse(COLUMN, "gives two columns of one name", found=", ".join(doubled), hint=hint)
    return items


def _items(node: exp.Expr, relation: Relation, place: Place) -> list[SelectedColumn]:
    star = node.this if isinstance(node, exp.Column) else node
    if isinstance(star, exp.Star):
        table = node.args["table"].name if isinstance(node, exp.Column) else None
        return _starred(star, table, relation, place)
    if isinstance(node, exp.Alias):
        return [SelectedColumn(name=node.alias, node=resolved(node.this, relation, place))]
    if isinstance(node, (exp.Column, exp.Dot)):
        return [SelectedColumn(name=node.name, node=resolved(node, relation, place))]
    text = node.sql("spark")
    raise place.refuse(COLUMN, "a computed column has no name", at=node, found=text, hint=f"write {text} AS name")


def _starred(star: exp.Star, table: str | None, relation: Relation, place: Place) -> list[SelectedColumn]:
    seen = [each for each in relation.columns if not (each.is_hidden and table is None)]
    if table is not None:
        known = [name for name in relation.tables if name.lower() == table.lower()]
        if not known:
            hint = "use one of the known tables"
            raise place.refuse(COLUMN, f"unknown table {table!r}", at=star.parent, known=relation.tables, hint=hint)
        seen = [each for each in seen if each.table == known[0]]
    left_out = {each.name.lower() for each in star.args.get("except_") or ()}
    unknown = left_out - {each.name.lower() for each in seen}
    if unknown:
        known_names = [each.name for each in seen]
        problem = f"EXCEPT names an unknown column {sorted(unknown)[0]!r}"
        raise place.refuse(COLUMN, problem, known=known_names, hint="use one of the known columns")
    return [
        SelectedColumn(name=each.name, node=column(each.column)) for each in seen if each.name.lower() not in left_out
    ]


def columns_of(items: list[SelectedColumn], place: Place) -> tuple[tuple[str, str], ...]:
    """Names with the text that computes them, as a select step takes them."""
    return tuple((item.name, text_of(item.node, place)) for item in items)
