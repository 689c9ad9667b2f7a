"""Parts of values: fields of structs, items of arrays and maps."""

from __future__ import annotations

from millstream.graph.expressions import term as t
from millstream.graph.expressions.function import Arguments
from millstream.graph.expressions.refusal import COLUMN, TYPE, Site, nearest_first
from millstream.graph.expressions.term import Term, named, quoted


def field_of(term: Term, name: str, site: Site) -> Term:
    """A field of a struct."""
    if not t.is_struct(term.type):
        raise site.refuse(TYPE, f"cannot take field {name!r}", found=named(term.type), hint="only structs have fields")
    names = [field.name for field in term.type]
    matches = [known for known in names if known.lower() == name.lower()]
    if len(matches) != 1:
        known = nearest_first(name, names)
        raise site.refuse(COLUMN, f"unknown field {name!r}", known=known, hint="use one of the known fields")
    kind = term.type.field(names.index(matches[0])).type
    return Term(sql=f"struct_extract({term.sql}, {quoted(matches[0])})", type=kind, may_raise=term.may_raise)


def item_of(base: Term, key: Term, site: Site) -> Term:
    """An item of an array by its place from 0 on, or the value of a map under its key."""
    raises = base.may_raise or key.may_raise
    if t.is_list(base.type):
        index = Arguments("[ ]", [key], site).integer(0)
        outside = f"{index} < 0 OR {index} >= len({base.sql})"
        sql = f"CASE WHEN {outside} THEN error('array index out of range') ELSE {base.sql}[{index} + 1] END"
        return Term(sql=sql, type=base.type.value_type, may_raise=True)
    if t.is_map(base.type) and key.type == base.type.key_type:
        return Term(sql=f"{base.sql}[{key.sql}]", type=base.type.item_type, may_raise=raises)
    given = f"{named(base.type)} with {named(key.type)}"
    raise site.refuse(TYPE, "[ ] needs an array and an int, or a map and its key", found=given)
