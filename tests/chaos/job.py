"""The job under test, run as a process of its own: `python job.py FOLDER`.

`FOLDER/config.json` says where it reads and writes. Two sources are united; a stateless branch, a process function with state
and timers, and event-time windows write to sinks of several kinds, which one manifest moves together.
How it ended stands on the last line of stderr, as JSON.
"""

import json
import sys
from pathlib import Path

from tests.chaos.bounded import job as bounded

import millstream as ms

SCHEMA = "source string, seq long, key string, amount long, at long"
BELL_MS = 5_000
EXIT = {"Fenced": 10, "CheckpointRefused": 11, "ExternalFailure": 12, "StepFailed": 13}
OTHER_EXIT = 14


def checked(row):
    if row["amount"] == 13:
        raise ValueError("thirteen")
    return row


class Running(ms.ProcessFunction):
    """Numbers the rows of a key and adds them up; a bell rings once per key and period."""

    seen = ms.ValueState(int)
    total = ms.ValueState(int)

    def process(self, row, ctx):
        n, total = (self.seen.value() or 0) + 1, (self.total.value() or 0) + row["amount"]
        self.seen.update(n)
        self.total.update(total)
        ctx.event_timer((row["at"] // BELL_MS + 1) * BELL_MS)
        yield {"source": row["source"], "key": row["key"], "seq": row["seq"], "n": n, "total": total}

    def on_timer(self, timestamp, ctx):
        ctx.output("bells", {"source": ctx.key[0], "key": ctx.key[1], "rang": timestamp})


def connector(config, stream):
    """The sink of a stream: one of the kinds that are asked for, files otherwise."""
    kind = config["streams"][stream]
    if kind == "kafka":
        return topic(config, stream)
    if kind == "sqlite":
        return ms.jdbc(f"sqlite:///{config['folder']}/sink.db", table=stream)
    if kind in ("postgres", "outbox", "upsert"):
        mode = {"postgres": "insert"}.get(kind, kind)
        keys = ["source", "key"] if kind == "upsert" else []
        return ms.jdbc(config["postgres"], table=stream, mode=mode, keys=keys, schema=config["schema"])
    return ms.files(f"{config['folder']}/out/{stream}", format="json")


def topic(config, stream):
    """A topic as sink; an owner that stands still in a transaction finds it ended after the time-out."""
    broker = config["broker"]
    settings = {"servers": broker["servers"], "transaction_timeout": broker["transaction_timeout"]}
    return ms.kafka(broker["topics"][stream], **settings)


def origin(config, source):
    """Where the rows of a source come from: files, or a topic that is looked at often, because it may be another one."""
    if "broker" not in config:
        return ms.files(f"{config['folder']}/in/{source}", format="json", watch=True)
    broker = config["broker"]
    settings = {"servers": broker["servers"], "on_data_loss": broker["on_data_loss"]}
    return ms.kafka(broker["topics"][source], start="earliest", discover="500ms", **settings)


def letters(config, source):
    """Where the broken lines of a source go."""
    if source in config.get("broker", {}).get("letters", ()):
        return ms.dead_letter(topic(config, f"{source}.dead"))
    return ms.dead_letter(ms.files(f"{config['folder']}/out/{source}.dead", format="json"))


def build(config):
    folder = config["folder"]
    name = config.get("job", "chaos")
    job = ms.Job(name, rows_per_epoch=config["rows_per_epoch"], parallelism=config["parallelism"])
    read = [
        job.source(name, origin(config, name), schema=SCHEMA, on_error=letters(config, name)) for name in ("a", "b")
    ]
    refused = ms.dead_letter(ms.files(f"{folder}/out/checked.dead", format="json"))
    rows = read[0].union(read[1]).map(checked, schema=SCHEMA, on_error=refused, id="checked")
    rows.filter("amount % 3 = 0", id="thirds").sink("plain", connector(config, "plain"))
    timed = rows.event_time("at", max_delay="1s").key_by("source", "key")
    running = timed.process(
        Running,
        schema="source string, key string, seq long, n long, total long",
        outputs={"bells": "source string, key string, rang long"},
        id="counted",
    )
    running.sink("running", connector(config, "running"))
    running.side_output("bells").sink("bells", connector(config, "bells"))
    if "latest" in config["streams"]:
        running.select("source", "key", "n", "total", id="newest").sink("latest", connector(config, "latest"))
    windows = timed.window(ms.tumbling("10s")).aggregate(n=ms.count(), total=ms.sum("amount"), id="tens")
    windows.sink("windows", connector(config, "windows"))
    return job


def run(config):
    job = bounded.build(config) if "bounded" in config else build(config)
    options = {} if config["engine"] == "local" else {"master": "local[2]"}
    return job.run(
        local=config["engine"] == "local",
        checkpoint=config["checkpoint"],
        manifests=config.get("manifests"),
        from_savepoint=config.get("savepoint"),
        epochs=ms.EpochPolicy(lease_term=config["lease_term"], retained=config["retained"], timeout=60_000),
        **options,
    )


def main(folder):
    config = json.loads((Path(folder) / "config.json").read_text())
    try:
        result = run(config)
    except ms.MillstreamError as problem:
        kind = type(problem).__name__
        print(json.dumps({"kind": kind, **problem.fields()}), file=sys.stderr, flush=True)
        return EXIT.get(kind, OTHER_EXIT)
    except OSError as problem:
        print(json.dumps({"kind": "OSError", "code": str(problem.errno), "message": str(problem)}), file=sys.stderr)
        return OTHER_EXIT
    print(json.dumps({"kind": "ended", "code": str(result.ended)}), file=sys.stderr, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
