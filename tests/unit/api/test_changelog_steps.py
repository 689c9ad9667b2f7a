"""Streams of changes: which steps hand on what happened, which apply it, and how all others refuse it by name."""

import json

import pytest

import millstream as ms
from millstream.errors import InvalidStep, StepFailed
from millstream.model.changelog import Changelog
from millstream.testing import run_job

SCHEMA = "op string, id long, customer string, amount long, price double, at long"


def stream(*, images="both", rows=(), op="op"):
    job = ms.Job("changes")
    rows = job.source("in", ms.memory(list(rows)), schema=SCHEMA.replace("op ", f"{op} ", 1))
    return rows.as_changelog(keys=["id"], op=op, images=images)


GROUPED = "SELECT customer, count(*) AS n, sum(amount) + 1 AS total FROM stream WHERE id > 0 GROUP BY customer"
WHOLE = Changelog(op="op", keys=("id",), is_whole=True)
BY_KEY = Changelog(op="op", keys=("id",))


def told(row):
    return row


class Passing(ms.ProcessFunction):
    def process(self, row, ctx):
        yield row


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda s: s.filter("amount > 1"), WHOLE),
        (lambda s: s.filter(lambda row: row["amount"] > 1), WHOLE),
        (lambda s: s.select("op", "id", "amount"), WHOLE),
        (lambda s: s.select("op", "amount"), Changelog(op="op", is_whole=True)),
        (lambda s: s.select(kind="op", number="id"), Changelog(op="kind", keys=("number",), is_whole=True)),
        (lambda s: s.with_columns(twice="amount * 2"), WHOLE),
        (lambda s: s.with_columns({"id": "id + 1"}), Changelog(op="op", is_whole=True)),
        (lambda s: s.map(told, schema=SCHEMA), Changelog(op="op", is_whole=True)),
        (lambda s: s.flat_map(lambda row: [row], schema=SCHEMA), Changelog(op="op", is_whole=True)),
        (lambda s: s.map_batches(told, schema=SCHEMA), Changelog(op="op", is_whole=True)),
        (lambda s: s.event_time("at"), WHOLE),
        (lambda s: s.union(s), Changelog(op="op", is_whole=True)),
        (
            lambda s: s.lookup([{"id": 1, "name": "x"}], on={"id": "id"}, prefix="of_"),
            Changelog(op="op", is_whole=True),
        ),
        (lambda s: s.as_rows(), None),
        (lambda s: s.key_by("customer").aggregate(n=ms.count()), Changelog(op="op", keys=("customer",))),
        (lambda s: s.key_by("customer").aggregate(n=ms.count(), emit="end"), None),
        (lambda s: s.sql("SELECT * FROM stream WHERE amount > 1"), WHOLE),
        (lambda s: s.sql(GROUPED), Changelog(op="op", keys=("customer",))),
        (lambda s: s.sql(GROUPED, emit="end"), None),
    ],
)
def test_what_hands_on_whole_changes(step, expected):
    assert step(stream()).changelog == expected


@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (lambda s: s.filter("id > 1"), BY_KEY),
        (lambda s: s.select("op", "id"), BY_KEY),
        (lambda s: s.with_columns(twice="amount * 2"), BY_KEY),
        (lambda s: s.map(told, schema=SCHEMA), BY_KEY),
        (lambda s: s.map_batches(told, schema=SCHEMA), BY_KEY),
        (lambda s: s.normalize(), WHOLE),
        (lambda s: s.as_rows(), None),
    ],
)
def test_what_hands_on_changes_by_key(step, expected):
    assert step(stream(images="after")).changelog == expected


KEYED = {
    "reduce": lambda k: k.reduce(lambda a, b: b),
    "process": lambda k: k.process(Passing, schema=SCHEMA),
    "window": lambda k: k.window(ms.tumbling("1s")).aggregate(n=ms.count()),
    "join": lambda k: k.join(k, prefix="r_"),
    "temporal_join": lambda k: k.temporal_join(k, prefix="r_"),
    "deduplicate": lambda k: k.deduplicate(),
    "top_n": lambda k: k.top_n(3, by="amount"),
    "sample": lambda k: k.sample(0.5),
    "pattern": lambda k: k.pattern(ms.pattern.begin("a").where("amount > 1")).measures(n="count(a.id)"),
}


@pytest.mark.parametrize("images", ["after", "both"])
@pytest.mark.parametrize("kind", KEYED)
def test_what_would_take_changes_for_rows(kind, images):
    keyed = stream(images=images).event_time("at").key_by("customer")
    with pytest.raises(InvalidStep, match=rf"CHANGE-001.*{kind}.*as_rows"):
        KEYED[kind](keyed)
    assert KEYED[kind](stream(images=images).as_rows().event_time("at").key_by("customer")).changelog is None


def test_one_side_of_two_is_enough_to_refuse():
    changes = stream()
    rows = changes.as_rows()
    with pytest.raises(InvalidStep, match="CHANGE-001"):
        rows.key_by("id").join(changes.key_by("id"), prefix="r_")
    with pytest.raises(InvalidStep, match=r"CHANGE-006.*rows"):
        rows.union(changes)
    with pytest.raises(InvalidStep, match=r"CHANGE-001.*order"):
        changes.rebalance().filter("id > 1")
    with pytest.raises(InvalidStep, match=r"CHANGE-001.*async_map"):
        changes.async_map(_waiting, schema=SCHEMA)


async def _waiting(row):
    return row


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda s: s.select("id", "amount"), r"CHANGE-002.*select.*'op'"),
        (lambda s: s.with_columns(op="'insert'"), r"CHANGE-002.*with_columns.*'op'"),
        (lambda s: s.map(told, schema="id long"), r"CHANGE-002.*map.*'op'"),
        (lambda s: s.map_batches(told, schema="id long, op long"), r"CHANGE-002.*'op'"),
        (lambda s: s.filter("op <> 'delete'"), r"CHANGE-003.*filter.*'op'"),
        (lambda s: s.with_columns(gone="op = 'delete'"), r"CHANGE-003.*'op'"),
        (lambda s: s.key_by("op").aggregate(n=ms.count()), r"CHANGE-003.*keyed by 'op'"),
        (lambda s: s.key_by("id").aggregate(n=ms.count(where="op = 'delete'")), r"CHANGE-003"),
        (lambda s: s.key_by("id").aggregate(n=ms.max("amount")), r"CHANGE-005.*max"),
        (lambda s: s.key_by("id").aggregate(n=ms.count_distinct("amount")), r"CHANGE-005.*count_distinct"),
        (lambda s: s.key_by("id").aggregate(n=ms.last("amount")), r"CHANGE-005.*last"),
        (lambda s: s.key_by("id").aggregate(n=ms.sum("price")), r"CHANGE-005.*CAST\(price AS decimal"),
        (lambda s: s.key_by("id").aggregate(n=ms.count(), emit="row"), r"CHANGE-005.*emit='epoch'"),
        (lambda s: s.normalize(), r"CHANGE-007"),
        (lambda s: s.as_changelog(keys=["id"]), r"CHANGE-007.*another"),
        (lambda s: s.sink("out", ms.kafka("t", servers="localhost:1")), r"CHANGE-008.*mode='upsert'"),
        (lambda s: s.sink("out", ms.http("https://x.example", method="POST")), r"CHANGE-008.*http.*as_rows"),
        (lambda s: s.sql("SELECT id, amount FROM stream"), r"CHANGE-002.*'op'"),
        (lambda s: s.sql("SELECT DISTINCT id FROM stream"), r"CHANGE-00"),
        (lambda s: s.sql("SELECT customer, max(amount) AS n FROM stream GROUP BY customer"), r"CHANGE-005.*max"),
        (lambda s: s.sql("SELECT count(*) AS n FROM stream GROUP BY customer"), r"CHANGE-002.*'customer'"),
        (lambda s: s.sql(f"{GROUPED} HAVING count(*) > 1"), r"CHANGE-004.*filter"),
    ],
)
def test_what_would_lose_what_happened(step, said):
    with pytest.raises(InvalidStep, match=said):
        step(stream())


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda s: s.key_by("customer").aggregate(n=ms.count()), r"CHANGE-004.*normalize.*images='both'"),
        (lambda s: s.filter("amount > 1"), r"CHANGE-004.*filter"),
        (lambda s: s.filter(lambda row: True), r"CHANGE-004.*filter"),
        (lambda s: s.flat_map(lambda row: [row], schema=SCHEMA), r"CHANGE-004.*flat_map"),
        (lambda s: s.union(s), r"CHANGE-004.*union"),
        (lambda s: s.lookup([{"id": 1}], on={"id": "id"}, prefix="of_"), r"CHANGE-004.*lookup"),
        (lambda s: s.select("op", "amount"), r"CHANGE-002.*'id'"),
        (lambda s: s.with_columns({"id": "id + 1"}), r"CHANGE-002.*'id'"),
        (lambda s: s.map(told, schema="op string, customer string"), r"CHANGE-002.*'id'"),
        (lambda s: s.key_by("customer").aggregate(n=ms.count()).sink("o", ms.collect("o")), r"CHANGE-004"),
    ],
)
def test_what_a_change_by_key_does_not_tell(step, said):
    with pytest.raises(InvalidStep, match=said):
        step(stream(images="after"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"keys": ["x"]},
        {"keys": ["id"], "op": "x"},
        {"keys": ["id"], "op": "amount"},
        {"keys": ["op"]},
        {"images": "x"},
    ],
)
def test_what_is_no_changelog(options):
    rows = ms.Job("changes").source("in", ms.memory([]), schema=SCHEMA)
    with pytest.raises(InvalidStep, match="CHANGE-007"):
        rows.as_changelog(**options)


@pytest.mark.parametrize("method", ["as_rows", "normalize"])
def test_rows_are_no_changes(method):
    rows = ms.Job("changes").source("in", ms.memory([]), schema=SCHEMA)
    assert rows.changelog is None
    with pytest.raises(InvalidStep, match=r"CHANGE-007.*has rows"):
        getattr(rows, method)()


KEYED_BY_ID = {"key_fields": ["id"], "key_format": "json"}


def test_sources_say_that_they_give_changes():
    job = ms.Job("changes")
    url, options = "postgresql://me@host/db", {"table": "t", "keys": ["id"], "slot": "s"}
    by_key = job.source("a", ms.postgres_cdc(url, **options), schema="id long, op string")
    whole = job.source("b", ms.postgres_cdc(url, **options, images="both"), schema="id long, op string")
    kafka = ms.kafka("t", servers="h:1", start="earliest", format="debezium", envelope={"kind": "op"}, **KEYED_BY_ID)
    assert [by_key.changelog, whole.changelog] == [BY_KEY, WHOLE]
    assert job.source("c", kafka, schema="id long, kind string, n long").changelog == Changelog(op="kind", keys=("id",))
    files = ms.files("in/", format="debezium", envelope={"kind": "op"})
    unkeyed = job.source("d", files, schema="id long, kind string")
    assert unkeyed.changelog == Changelog(op="kind")
    assert unkeyed.as_changelog(op="kind", keys=["id"]).changelog == Changelog(op="kind", keys=("id",))
    with pytest.raises(InvalidStep, match=r"CHANGE-007.*as_changelog"):
        unkeyed.normalize()
    with pytest.raises(InvalidStep, match=r"FORMAT-008.*'op'"):
        job.source("e", ms.files("in/", format="debezium"), schema="id long, kind string")


def test_a_plan_tells_what_is_a_changelog():
    changes = stream()
    changes.key_by("customer").aggregate(n=ms.count(), id="counts").sink("out", ms.collect("out"))
    text = changes._job.explain("stream")
    assert "gives      changes in 'op' by id, rows come and go whole" in text
    assert "gives      changes in 'op' by customer, the newest row counts" in text
    again = ms.Job.from_json(changes._job.to_json())
    assert again.compile().partitioned.fingerprint == changes._job.compile().partitioned.fingerprint


def run(changes):
    changes.sink("out", ms.collect("out"))
    changes._job.run(local=True)


ROW = {"op": "insert", "id": 1, "customer": "a", "amount": 5, "price": 1.0, "at": 0}


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (lambda s: s.map(lambda row: {**row, "op": "insert"}, schema=SCHEMA), "CHANGE-011.*'op'.*insert.*delete"),
        (lambda s: s.flat_map(lambda row: [row, {**row, "op": "read"}], schema=SCHEMA), "CHANGE-011.*'op'"),
        (lambda s: s.map_batches(lambda batch: batch.take([0] * len(batch)), schema=SCHEMA), "CHANGE-011.*'op'"),
    ],
)
def test_a_function_that_changes_what_happened(step, said):
    with pytest.raises(StepFailed, match=said):
        run(step(stream(rows=[ROW, {**ROW, "op": "delete"}])))


def test_a_function_that_changes_a_key():
    with pytest.raises(StepFailed, match=r"CHANGE-011.*'id'"):
        run(stream(rows=[ROW], images="after").map(lambda row: {**row, "id": 7}, schema=SCHEMA))


@pytest.mark.parametrize(("op", "images"), [("update", "both"), ("upsert", "after"), (None, "after"), ("", "both")])
def test_a_change_of_another_kind(op, images):
    with pytest.raises(StepFailed, match=r"CHANGE-010"):
        run(stream(rows=[{**ROW, "op": op}], images=images))


@pytest.mark.parametrize("gone", [{}, {"amount": 4}, {"customer": "b"}])
def test_a_row_goes_that_never_came(gone):
    rows = [ROW, {**ROW, "op": "delete"} | gone, *([] if gone else [{**ROW, "op": "delete"}])]
    totals = stream(rows=rows).key_by("customer").aggregate(n=ms.count(), total=ms.sum("amount"))
    with pytest.raises(StepFailed, match=r"CHANGE-012.*start='snapshot'"):
        run(totals)


def test_a_statement_over_changes_counts_what_is_left():
    rows = [ROW, {**ROW, "id": 2, "amount": 7}, {**ROW, "op": "delete"}, {**ROW, "customer": "b"}]
    output = run_job(_grouped(rows))
    assert output.sinks["out"] == [
        {"customer": "a", "n": 1, "total": 8, "op": "insert"},
        {"customer": "b", "n": 1, "total": 6, "op": "insert"},
    ]


def _grouped(rows):
    changes = stream(rows=rows)
    changes.sql(GROUPED).sink("out", ms.collect("out"))
    return changes._job


def test_changelogs_in_job_files():
    job = ms.load_job(
        """
        job: changes
        steps:
          - source: in
            from: {memory: {rows: []}}
            schema: op string, id long, customer string, amount long
          - as_changelog: [id]
          - normalize:
            id: whole
          - aggregate: {n: count(), total: sum(amount)}
            key_by: customer
            id: totals
          - sink: out
            to: {collect: {name: out}}
          - as_rows:
            input: totals
          - sink: log
            to: {collect: {name: log}}
        """
    )
    told = {node.id: node.changelog for node in job.compile().stream.nodes}
    assert told["whole"] == WHOLE
    assert told["totals"] == Changelog(op="op", keys=("customer",))
    assert told["totals.as_rows"] is None


def test_debezium_envelopes_are_summed_by_customer(tmp_path):
    """An envelope holds the new row alone: the last row of each key is kept, so that it can be taken out."""
    envelopes = [
        {"op": "c", "before": None, "after": {"id": 1, "customer": "a", "amount": 5}},
        {"op": "r", "before": None, "after": {"id": 2, "customer": "a", "amount": 7}},
        {"op": "u", "before": None, "after": {"id": 1, "customer": "b", "amount": 6}},
        {"op": "c", "before": None, "after": {"id": 3, "customer": "c", "amount": 1}},
        {"op": "d", "before": {"id": 3, "customer": None, "amount": None}, "after": None},
    ]
    (tmp_path / "in.json").write_text("".join(json.dumps(each) + "\n" for each in envelopes))
    job = ms.Job("debezium")
    files = ms.files(str(tmp_path), format="debezium", envelope={"op": "op"})
    rows = job.source("in", files, schema="id long, customer string, amount long, op string")
    whole = rows.as_changelog(keys=["id"]).normalize(id="whole")
    totals = whole.key_by("customer").aggregate(total=ms.sum("amount"), emit="end", id="totals")
    totals.sink("out", ms.collect("out"))
    found = run_job(job).sinks["out"]
    assert sorted(found, key=lambda row: row["customer"]) == [
        {"customer": "a", "total": 7},
        {"customer": "b", "total": 6},
    ]
