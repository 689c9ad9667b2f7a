"""Joins written as plain loops: what the golden cases of joins are compared with."""

import random


def paired(left, right, *, how="inner", holds, columns):
    """Every pair for which `holds(l, r)`; then the rows of outer sides without a partner. `columns` names both sides' columns."""
    out, met_left, met_right = [], set(), set()
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            if holds(one, other):
                met_left.add(i)
                met_right.add(j)
                out.append(joined(one, other, columns))
    if how in {"left", "full"}:
        out += [joined(one, None, columns) for i, one in enumerate(left) if i not in met_left]
    if how in {"right", "full"}:
        out += [joined(None, other, columns) for j, other in enumerate(right) if j not in met_right]
    return out


def joined(one, other, columns):
    row = {name: None if one is None else one[name] for name in columns[0]}
    return row | {name: None if other is None else other[name.removeprefix("r_")] for name in columns[1]}


def disordered(seed, count, *, keys, value, time, step=300, spread=4000):
    """Rows about `step` apart in time, out of order by less than `spread` milliseconds."""
    rng = random.Random(seed)
    return [
        {"k": rng.choice(keys), value: number, time: number * step + rng.randint(0, spread - 1)}
        for number in range(count)
    ]
