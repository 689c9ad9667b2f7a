"""What must hold when a round is over, each invariant as a function that gives its violations as text."""

import traceback
from collections import Counter, defaultdict

from tests.chaos.oracle import expected, final_state
from tests.chaos.outputs import DEAD, content_of

import millstream as ms

_SHOWN = 3
_SAMPLED_EPOCHS = 4


def check_all(round_):
    """Every violation of a drained round. A check that cannot be made is one, and does not hide what others found."""
    found, problems = round_found(round_), []
    checks = (rows_equal, markers_fit, state_equals, tokens_rise, nothing_left, rows_balance, *round_.checks)
    for check in checks:
        try:
            problems += check(round_, found)
        except Exception:  # whatever it is, nothing was shown
            problems.append(f"{check.__name__} could not be checked:\n{traceback.format_exc()}")
    return problems


def round_found(round_):
    """What all checks read: markers, lineages and manifests."""
    head = round_.head()
    lineages = {**dict(head.origin.history), head.lineage: head.epoch}
    return {"markers": round_.outputs.markers(), "lineages": lineages, "manifests": _manifests(round_, lineages)}


def _manifests(round_, lineages):
    """Durable manifests by (lineage, epoch), as far as they are retained."""
    found = {}
    for checkpoint in round_.checkpoints:
        view = round_.view(checkpoint)
        for lineage, last in lineages.items():
            for name in view.store.names(f"manifests/{lineage}/"):
                manifest = view.read_manifest(name)
                if round_.bases.get(lineage, 0) <= manifest.epoch <= last:
                    # Of two the one with the higher token came later, and only one of them was ever named by the head.
                    known = found.get((lineage, manifest.epoch))
                    if known is None or known.token < manifest.token:
                        found[(lineage, manifest.epoch)] = manifest
    return found


# I1.


def rows_equal(round_, _):
    """I1: output and oracle are equal multisets, for Python and for SQL."""
    wanted = expected(round_.workload.lines)
    problems = []
    for stream, kind in round_.config["streams"].items():
        problems += _difference(stream, round_.outputs.rows(stream), wanted[stream])
        if kind not in ("files", "sqlite", "kafka"):
            sides = round_.outputs.differences(stream, wanted[stream])
            if sides != (0, 0):
                problems.append(f"I1 {stream}: EXCEPT ALL finds {sides} rows")
    return problems + _difference("dead", round_.outputs.dead(), wanted["dead"])


def _difference(stream, found, wanted):
    lost, more = wanted - found, found - wanted
    doubled = Counter({row: times for row, times in more.items() if row in wanted})
    foreign = more - doubled
    return [
        f"I1 {stream}: {sum(rows.values())} rows {name}, such as {list(rows)[:_SHOWN]}"
        for name, rows in (("lost", lost), ("doubled", doubled), ("foreign", foreign))
        if rows
    ]


# I2.


def markers_fit(round_, found):
    """I2: one marker per sink, lineage and epoch, without gaps, with the manifest's digest; tokens never fall."""
    problems, by_sink = [], defaultdict(list)
    for marker in found["markers"]:
        by_sink[(marker.sink, marker.lineage)].append(marker)
    sinks = {*round_.config["streams"], *DEAD}
    for lineage, last in found["lineages"].items():
        for sink in sorted(sinks):
            markers = sorted(by_sink.pop((sink, lineage), []), key=lambda each: each.epoch)
            epochs = [each.epoch for each in markers]
            if epochs != list(range(round_.bases.get(lineage, 0), last + 1)):
                problems.append(f"I2 {sink} {lineage}: markers {_gaps(epochs, last)}")
            tokens = [each.token for each in markers]
            if tokens != sorted(tokens):
                problems.append(f"I2 {sink} {lineage}: tokens fall")
            problems += [text for marker in markers for text in _digest_problem(marker, found["manifests"])]
    return problems + [f"I2: markers of an unknown lineage {key}" for key in by_sink]


def _gaps(epochs, last):
    missing = sorted(set(range(last + 1)) - set(epochs))
    doubled = [epoch for epoch, times in Counter(epochs).items() if times > 1]
    beyond = [epoch for epoch in epochs if epoch > last]
    return f"missing {missing[:5]}, doubled {doubled[:5]}, beyond {beyond[:5]} of {last}"


def _digest_problem(marker, manifests):
    manifest = manifests.get((marker.lineage, marker.epoch))
    if manifest is None:
        return
    handle = manifest.participants[manifest.uids.get(marker.sink, marker.sink)].handle
    digest = handle["digest"] if "digest" in handle else content_of(handle["files"])
    if (marker.digest, marker.rows) != (digest, handle["rows"]):
        yield f"I2 {marker.sink}: epoch {marker.epoch} is published with other rows than its manifest has"


# I3.


def state_equals(round_, found):
    """I3: state equals the oracle's fold; at earlier epochs it has seen exactly the rows that had come in."""
    checkpoint, problems = round_.config["checkpoint"], []
    manifests = round_.manifests(checkpoint)
    # Spark does not keep the state of the terminal epoch, in which nothing is read.
    newest = None if round_.engine == "local" else round_.head().epoch - 1
    table = ms.read_state(checkpoint, "counted", newest, manifests=manifests).to_pylist()
    held = {(row["source"], row["key"]): (row["seen"], row["total"]) for row in table}
    if held != final_state(round_.workload.lines):
        problems.append("I3: the state in the end is not the oracle's")
    if round_.engine != "local":
        return problems
    passed = _passed_until(round_, found)
    epochs = sorted(passed)
    for epoch in round_.random.sample(epochs, min(_SAMPLED_EPOCHS, len(epochs))):
        table = ms.read_state(checkpoint, "counted", epoch, manifests=manifests).to_pylist()
        seen = sum(row["seen"] or 0 for row in table)
        if seen != passed[epoch]:
            problems.append(f"I3: at epoch {epoch} state has seen {seen} rows, {passed[epoch]} had come in")
    return problems


def _passed_until(round_, found):
    """Per epoch of the last lineage how many rows had passed; nothing where manifests before it are gone."""
    total, sums, newest = 0, {}, round_.head().lineage
    for lineage, last in found["lineages"].items():
        for epoch in range(round_.bases.get(lineage, 0), last + 1):
            manifest = found["manifests"].get((lineage, epoch))
            if manifest is None:
                return {}
            total += manifest.counts.get("checked", {}).get("passed", 0)
            if lineage == newest:
                sums[epoch] = total
    return sums


# I4, I5, I6.


def tokens_rise(round_, found):
    """I4: no write was accepted with a token below one seen before."""
    for where, tokens in round_.outputs.audit().items():
        if tokens != sorted(tokens):
            yield f"I4 {where}: accepted tokens {tokens}"


def nothing_left(round_, _):
    """I5: no staged rows, no unlisted files, no prepared transactions."""
    if leftovers := round_.outputs.leftovers():
        yield f"I5: left behind {leftovers}"
    if prepared := round_.outputs.prepared_transactions():
        yield f"I5: {prepared} prepared transactions"
    if "orphans seen" in round_.sometimes:
        round_.sometimes.add("orphan clean-up")


def rows_balance(round_, found):
    """I6: input = output + dead letters + filtered, per epoch by its manifest and in all by the input."""
    totals = defaultdict(Counter)
    for (_, epoch), manifest in found["manifests"].items():
        for step, counts in manifest.counts.items():
            totals[step].update(counts)
            out = sum(counts.get(name, 0) for name in ("passed", "filtered", "late", "skipped", "failed"))
            if counts["rows_in"] != out:
                yield f"I6 {step}: epoch {epoch} does not balance: {counts}"
    if not round_.is_whole(found):
        return
    for source, lines in round_.workload.lines.items():
        if totals[source]["rows_in"] != len(lines):
            yield f"I6 {source}: {len(lines)} lines written, {totals[source]['rows_in']} counted"
    passed = sum(totals[source]["passed"] for source in round_.workload.lines)
    if totals["checked"]["rows_in"] != passed:
        yield f"I6: {passed} rows passed the sources, {totals['checked']['rows_in']} came in behind them"
    if totals["checked"]["passed"] != totals["thirds"]["rows_in"]:
        yield "I6: rows are missing between two steps"


def sometimes_hit(found):
    """What the markers tell about recovery: epochs that a later owner published, wholly or in part."""
    hits, tokens = set(), defaultdict(set)
    for marker in found["markers"]:
        tokens[(marker.lineage, marker.epoch)].add(marker.token)
    for key, seen in tokens.items():
        manifest = found["manifests"].get(key)
        if manifest is not None and max(seen) > manifest.token:
            hits.add("published by a later owner")
            if manifest.token in seen:
                hits.add("publication found done")
    return hits
