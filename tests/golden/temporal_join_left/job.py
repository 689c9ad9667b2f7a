"""Orders meet the rate that was valid when they happened, left join; rates come out of order, some at one instant."""

from tests.golden.join_oracle import disordered

import millstream as ms


def inputs():
    orders = disordered(11, 80, keys=["x", "y", "z", None], value="a", time="at")
    rates = disordered(12, 60, keys=["x", "y", None], value="b", time="at", step=400)
    rates[20]["at"] = rates[19]["at"] = 8000
    rates[20]["k"] = rates[19]["k"] = "x"
    return {"orders": orders, "rates": rates}


def expected():
    rows, out = inputs(), []
    for order in rows["orders"]:
        valid = [r for r in rows["rates"] if r["k"] == order["k"] is not None and r["at"] <= order["at"]]
        newest = max(r["at"] for r in valid) if valid else None
        rate = [r for r in valid if r["at"] == newest][-1] if valid else None
        if rate is not None or "left" == "left":
            found = {f"r_{name}": rate and rate[name] for name in ("k", "at")}
            out.append(order | {"b": rate and rate["b"]} | found)
    return {"out": out}


def job():
    job = ms.Job("temporal-join-left")
    orders = job.source("orders", ms.memory([]), schema="k string, a long, at long").event_time("at", max_delay="4s")
    rates = job.source("rates", ms.memory([]), schema="k string, b long, at long").event_time("at", max_delay="10s")
    made = orders.key_by("k").temporal_join(rates.key_by("k"), how="left", prefix="r_", id="rated")
    made.sink("out", ms.collect("out"))
    return job
