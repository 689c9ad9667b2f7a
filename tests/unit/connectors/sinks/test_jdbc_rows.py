"""Rows on their way into a table: keys, characters a database refuses, markers that are pruned."""

import pytest
from tests.unit.connectors.sinks.databases import PostgresUnderTest, SqliteUnderTest
from tests.unit.connectors.sinks.under_test import SCHEMA, Owner, context, rows, seen

from millstream.connectors.jdbc import committer as committing
from millstream.connectors.jdbc.cells import HASHES, checksum_of, rows_of
from millstream.errors import Fenced, InvalidStep, StepFailed
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch


def row(number, name, amount=1.0):
    return {"id": number, "name": name, "amount": amount}


def test_the_last_row_of_a_key_counts(open_sink):
    sink = open_sink(mode="upsert")
    owner = Owner(sink)
    owner.run(0, [row(1, "a"), row(2, "b"), row(1, "c")], [row(3, "d"), row(2, "e")])
    assert seen(sink) == [row(1, "c"), row(2, "e"), row(3, "d")]
    owner.run(1, [row(2, None), row(4, "f")])
    assert seen(sink) == [row(1, "c"), row(2, None), row(3, "d"), row(4, "f")]


def test_a_replayed_old_epoch_does_not_bring_old_values_back(open_sink):
    sink = open_sink(mode="upsert")
    owner = Owner(sink)
    first = owner.run(0, [row(1, "old")])
    owner.run(1, [row(1, "new")])
    owner.publish(0, first)
    owner.run(0, [row(1, "old")], attempt="b")
    assert seen(sink) == [row(1, "new")]


def test_all_columns_may_be_keys(open_sink):
    sink = open_sink(mode="upsert")
    schema = schema_of("id long")
    owner = Owner(sink, schema=schema)
    owner.run(0, [{"id": 1}, {"id": 1}, {"id": 2}])
    owner.run(1, [{"id": 2}, {"id": 3}])
    assert seen(sink, schema) == [{"id": 1}, {"id": 2}, {"id": 3}]


def test_a_null_key_is_refused_with_its_row(open_sink):
    owner = Owner(open_sink(mode="upsert"))
    with pytest.raises(StepFailed) as failed:
        owner.stage(0, [*rows(0, 4), row(None, "x")])
    assert failed.value.code == "JDBC-012"
    assert failed.value.message == "key column 'id' of row 4 is null"


@pytest.mark.parametrize(
    ("kind", "value"), [("string", "a\0b"), ("array<string>", ["x", "a\0b"]), ("map<string,string>", {"k\0": "v"})]
)
def test_a_nul_character_is_refused_with_its_row(postgres_url, kind, value):
    owner = Owner(PostgresUnderTest(postgres_url), schema=schema_of(f"id long, note {kind}"))
    with pytest.raises(StepFailed) as failed:
        owner.stage(0, [{"id": 1, "note": None}, {"id": 2, "note": value}])
    assert failed.value.code == "JDBC-011"
    assert failed.value.step == "out"
    assert "'note' of row 1 " in failed.value.message
    owner.close()


def test_text_that_looks_like_a_nul_escape_is_taken(open_sink):
    sink = open_sink()
    schema = schema_of("id long, note array<string>")
    content = [{"id": 1, "note": ["\\u0000", "\\\\u0000"]}]
    Owner(sink, schema=schema).run(0, content)
    assert seen(sink, schema) == content


def test_sqlite_keeps_nul_characters(tmp_path):
    sink = SqliteUnderTest(f"sqlite:///{tmp_path}/target.db")
    Owner(sink).run(0, [row(1, "a\0b")])
    assert seen(sink) == [row(1, "a\0b")]
    sink.close()


def test_nested_numbers_that_json_lacks_are_text(open_sink):
    sink = open_sink()
    schema = schema_of("id long, values array<double>")
    Owner(sink, schema=schema).run(0, [{"id": 1, "values": [float("nan"), float("-inf"), 0.5]}])
    assert str(seen(sink, schema)) == "[{'id': 1, 'values': [nan, -inf, 0.5]}]"


def test_a_row_that_the_table_refuses_is_a_failed_step(open_sink):
    sink = open_sink()
    sink.execute("CREATE TABLE target (id bigint PRIMARY KEY, name text, amount double precision)")
    owner = Owner(sink)
    owner.run(0, rows(0))
    with pytest.raises(StepFailed) as failed:
        owner.run(1, rows(5))
    assert failed.value.code == "JDBC-013"
    assert seen(sink) == rows(0)


def test_a_changed_staged_row_is_refused(open_sink):
    sink = open_sink()
    owner = Owner(sink)
    transaction = owner.prepare(0, rows(0))
    ((place,),) = sink.execute("SELECT place FROM millstream_part")
    sink.execute(f'UPDATE "{place}" SET ms_hash = ms_hash + 1 WHERE ms_seq = 0')
    with pytest.raises(Exception, match="another checksum") as refused:
        owner.publish(0, transaction)
    assert refused.value.code == "JDBC-010"
    assert seen(sink) == []


def test_many_rows_are_sent_in_pieces(open_sink, statements):
    sink = open_sink(batch_rows=7)
    transaction = Owner(sink).run(0, rows(0, 50), rows(50, 5))
    assert [part["rows"] for part in transaction["parts"]] == [50, 5]
    assert seen(sink) == rows(0, 55)
    assert statements == [7, 7, 7, 7, 7, 7, 7, 1, 5]


@pytest.mark.parametrize("batch_rows", [0, -1, "7", True])
def test_a_piece_has_rows(open_sink, batch_rows):
    with pytest.raises(InvalidStep, match=r"CONN-005.*batch_rows"):
        open_sink(batch_rows=batch_rows)


def test_old_markers_are_pruned_and_old_epochs_stay_published(open_sink, monkeypatch):
    monkeypatch.setattr(committing, "KEPT_MARKERS", 5)
    monkeypatch.setattr(committing, "_PRUNE_EVERY", 4)
    sink = open_sink()
    owner = Owner(sink)
    published = [owner.run(epoch, rows(epoch * 10)) for epoch in range(13)]
    kept = [epoch for (epoch,) in sink.execute("SELECT epoch FROM millstream_marker ORDER BY epoch")]
    assert kept == [8, 9, 10, 11, 12]
    assert sink.execute("SELECT low_water FROM millstream_fence") == [(7,)]
    for epoch in (0, 7, 8, 12):
        owner.publish(epoch, published[epoch])
    owner.run(3, rows(30), attempt="b")
    owner.committer.recover(12)
    assert sink.staged() == 0
    assert seen(sink) == rows(0, 130)


@pytest.mark.parametrize("mode", ["insert", "upsert", "outbox"])
def test_an_epoch_staged_by_a_job_with_other_columns_is_published(open_sink, mode):
    sink = open_sink(mode=mode)
    transaction = Owner(sink).prepare(0, rows(0))
    if mode == "outbox":
        sink.execute("ALTER TABLE target ADD COLUMN note text")
    else:
        sink.execute("ALTER TABLE target ADD COLUMN note text DEFAULT 'none'")
    changed = Owner(sink, token=2, schema=schema_of("id long, note string"))
    changed.publish(0, transaction)
    changed.committer.recover(0)
    changed.run(1, [{"id": 100, "note": "new"}])
    assert seen(sink, schema_of("id long"))[9:] == [{"id": 9}, {"id": 100}]
    assert sink.staged() == 0


def test_a_deleted_fence_is_refused(open_sink):
    sink = open_sink()
    owner = Owner(sink)
    transaction = owner.prepare(0, rows(0))
    sink.execute("DELETE FROM millstream_fence")
    with pytest.raises(Exception, match="SINK-005"):
        owner.publish(0, transaction)
    assert seen(sink) == []


def test_a_lineage_that_never_wrote_is_closed_too(open_sink):
    sink = open_sink()
    fresh = Owner(sink, lineage="two", token=2)
    fresh.committer.succeed([("one", 3)], "refuse")
    with pytest.raises(Fenced):
        sink.committer(context(lineage="one", token=9)).fence()


def test_staging_of_a_closed_lineage_is_removed(open_sink):
    sink = open_sink()
    Owner(sink).prepare(4, rows(0))
    Owner(sink, lineage="two", token=2).committer.succeed([("one", 3)], "refuse")
    assert sink.staged() == 0


def test_the_hash_of_a_row_depends_on_every_column():
    variants = [row(1, "a"), row(2, "a"), row(1, "b"), row(1, "a", 2.0), row(1, None), row(1, "\\N"), row(1, "")]
    found = hashes_of(variants)
    assert len(set(found.to_pylist())) == len(variants)
    halves = [checksum_of(hashes_of(part)) for part in (variants[:3], variants[3:])]
    assert sum(halves) % HASHES == checksum_of(found)
    assert checksum_of(hashes_of(variants[::-1])) == checksum_of(found)


def hashes_of(content):
    return rows_of([rows_to_batch(content, SCHEMA)], SCHEMA).hashes()
