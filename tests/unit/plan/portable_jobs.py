"""Jobs of many shapes whose functions can be imported by name."""

import millstream as ms

SCHEMA = "user string, amount double, at long, tags array<string>"


def same(row):
    return row


def twice(row):
    return [row, row]


def is_big(row):
    return row["amount"] > 10


def batches(batch):
    return batch


def add(held, row):
    return {**row, "amount": held["amount"] + row["amount"]}


def of_window(key, window, rows):
    yield {"user": key[0], "n": len(rows)}


class Counter(ms.ProcessFunction):
    seen = ms.ValueState(int, ttl="1h")
    names = ms.MapState(str, int)

    def process(self, row, ctx):
        yield {"user": row["user"], "n": 1}


def rows(job, name="orders", **options):
    return job.source(name, ms.memory([{"user": "a", "amount": 1.5, "at": 1}]), schema=SCHEMA, **options)


def expressions():
    job = ms.Job("expressions", guarantee="at_least_once", parallelism=3, epoch_interval="250ms", rows_per_epoch=10)
    stream = rows(job).filter("amount > 0 AND user <> '\"#<&`'").with_columns(name="upper(user)", amount="amount * 2")
    stream.select("name", total="amount + 1", id="chosen").sink("out", ms.print())
    return job


def python_steps():
    job = ms.Job("python-steps")
    stream = rows(job, on_error="skip").map(same, schema=SCHEMA, on_error=ms.dead_letter(ms.collect("dead")))
    stream.flat_map(twice, schema=SCHEMA).filter(is_big, on_error="skip").map_batches(batches).sink(
        "out", ms.collect("o")
    )
    return job


def windows():
    job = ms.Job("windows", max_parallelism=32, parallelism=5)
    stream = rows(job).event_time("at", max_delay="5s", idle_after="1m", id="timed")
    keyed = stream.key_by("user")
    for name, window in {
        "t": ms.tumbling("1m", offset="5s"),
        "s": ms.sliding("1m", "20s"),
        "g": ms.session("90s"),
    }.items():
        result = keyed.window(window, allowed_lateness="10s").aggregate(total=ms.sum("amount"), n=ms.count(), id=name)
        result.sink(f"{name}-out", ms.files(f"out/{name}", partition_by=["user"]))
        result.late.sink(f"{name}-late", ms.collect(name))
    keyed.window(ms.tumbling("1h")).reduce(add).sink("r", ms.collect("r"))
    keyed.window(ms.tumbling("1h")).process(of_window, schema="user string, n int").sink("p", ms.collect("p"))
    return job


def keyed():
    job = ms.Job("keyed")
    stream = rows(job)
    stream.key_by("user", "at").aggregate(
        n=ms.count("amount"), last=ms.last("at"), k=ms.count_distinct("at", where="(amount > 1)"), emit="row"
    ).sink("a", ms.collect("a"))
    stream.key_by("user").reduce(add, id="sum").sink("r", ms.collect("r"))
    process = stream.key_by("user").process(
        Counter,
        schema="user string, n int",
        outputs={"side": "x int"},
        on_error=ms.dead_letter(ms.collect("d")),
        id="count",
    )
    process.side_output("side").sink("side", ms.collect("s"))
    process.key_by("n").aggregate(k=ms.count(), emit="end", id="deep").sink("deep", ms.collect("k"))
    return job


def several_sources():
    job = ms.Job("several-sources")
    left = rows(job, "left")
    right = rows(job, "right").rebalance().filter("amount > 0")
    left.union(right, id="both").key_by("user").aggregate(n=ms.count(), id="n").sink("out", ms.collect("o"))
    job.source("ticks", ms.rate(10)).sink("ticks-out", ms.collect("t"))
    return job


JOBS = (expressions, python_steps, windows, keyed, several_sources)
