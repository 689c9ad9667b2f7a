"""Aggregates over rows that come and go whole: results are those of the rows that are left, and empty groups are gone."""

import decimal
import random

import millstream as ms

LAST_BY = {"totals": ["customer"], "kinds": ["kind"]}
IGNORED = {"totals": ["op"], "kinds": ["op"]}
"""Whether a result is new depends on where epochs are cut; so does whether a group is told of that is gone at the end."""
SCHEMA = "op string, id long, customer string, amount decimal(10,2), points int, vip boolean"
AGGREGATES = {
    "n": ms.count(),
    "known": ms.count("points"),
    "vips": ms.count(where="vip"),
    "total": ms.sum("amount"),
    "points": ms.sum("points"),
    "mean": ms.avg("points"),
    "mean_amount": ms.avg("amount"),
    "of_vips": ms.sum("points", where="vip"),
    "doubled": ms.sum("points * 2"),
}


def job():
    job = ms.Job("changelog-aggregate")
    rows = job.source("in", ms.memory([]), schema=SCHEMA).as_changelog(images="both")
    staying = rows.filter("customer IS NULL OR customer <> 'c'")
    staying.key_by("customer").aggregate(**AGGREGATES, id="by-customer").sink("totals", ms.collect("totals"))
    rows.key_by("customer").aggregate(**AGGREGATES, emit="end", id="at-the-end").sink("final", ms.collect("final"))
    kinds = rows.filter("customer = 'a'").with_columns(kind="id % 3").select("op", "kind", "points")
    kinds.map(doubled, schema=kinds.schema).key_by("kind").aggregate(points=ms.sum("points"), id="by-kind").sink(
        "kinds", ms.collect("kinds")
    )
    return job


def doubled(row):
    return {**row, "points": None if row["points"] is None else row["points"] * 2}


def inputs():
    return {"in": [change for change, _ in story()]}


def story():
    """Changes, and behind each the rows that are left."""
    chosen, table = random.Random(12), {}
    for _ in range(400):
        id = chosen.randrange(25)
        if id in table and chosen.random() < 0.4:
            yield {"op": "delete", **table.pop(id)}, table
            continue
        if id in table:
            yield {"op": "delete", **table.pop(id)}, table
        table[id] = {
            "id": id,
            "customer": chosen.choice(["a", "b", "c", None]),
            "amount": decimal.Decimal(chosen.randrange(-500, 900)) / 100,
            "points": chosen.choice([None, 0, 2, 3, -7]),
            "vip": chosen.choice([None, True, False]),
        }
        yield {"op": chosen.choice(["insert", "read"]), **table[id]}, table
    for id in [id for id, row in table.items() if row["customer"] == "c"]:
        yield {"op": "delete", **table.pop(id)}, table


def expected():
    *_, (_, table) = story()
    rows = list(table.values())
    final = [{"customer": each, **results([r for r in rows if r["customer"] == each])} for each in ("a", "b", None)]
    kinds = []
    for kind in range(3):
        points = [
            r["points"] * 2 for r in rows if r["customer"] == "a" and r["id"] % 3 == kind and r["points"] is not None
        ]
        kinds.append({"kind": kind, "points": sum(points) if points else None})
    return {"totals": final, "final": final, "kinds": kinds}


def results(rows):
    points = [row["points"] for row in rows if row["points"] is not None]
    of_vips = [row["points"] for row in rows if row["points"] is not None and row["vip"]]
    total = sum((row["amount"] for row in rows), decimal.Decimal(0)) if rows else None
    return {
        "n": len(rows),
        "known": len(points),
        "vips": sum(row["vip"] is True for row in rows),
        "total": total,
        "points": sum(points) if points else None,
        "mean": sum(points) / len(points) if points else None,
        "mean_amount": None if total is None else rounded(total / len(rows)),
        "of_vips": sum(of_vips) if of_vips else None,
        "doubled": sum(points) * 2 if points else None,
    }


def rounded(mean):
    return mean.quantize(decimal.Decimal("0.000001"), rounding=decimal.ROUND_HALF_UP)
