"""Json lines that are changes of a table, read by the `files` source."""

import json

import pytest
from tests.unit.connectors.formats.debezium_messages import change
from tests.unit.connectors.reading import everything, opened

import millstream as ms
from millstream.connectors.files import discovery
from millstream.contract.source import BadRecord
from millstream.errors import InvalidStep
from millstream.model.schema import schema_of

SCHEMA = schema_of("id long, kind string")


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))


def changes(numbers):
    return [json.dumps(change("u", before={"id": n}, after={"id": n + 1, "more": n})) for n in numbers]


def test_lines_are_changes_and_bad_ones_are_bad_records(tmp_path):
    write(tmp_path / "1.json", [*changes([1]), "", json.dumps(change("d", before={"id": 5})), "oops", *changes([7])])
    found = everything(*opened(tmp_path, SCHEMA, format="debezium", envelope={"kind": "op"}))
    kinds = [(row["id"], row["kind"]) for row in found if not isinstance(row, BadRecord)]
    assert kinds == [(2, "update"), (5, "delete"), (8, "update")]
    assert [(row.raw, "no Debezium envelope" in row.error) for row in found if isinstance(row, BadRecord)] == [
        ("oops", True)
    ]


def test_long_files_are_cut_into_units(tmp_path, monkeypatch):
    monkeypatch.setattr(discovery, "_BYTES_PER_UNIT", 4000)
    write(tmp_path / "1.json", changes(range(200)))
    enumerator, reader = opened(tmp_path, SCHEMA, format="debezium", envelope={"kind": "op"})
    assert enumerator.advance(enumerator.initial(), 10**6).position["unit"] > 5
    assert [row["id"] for row in everything(enumerator, reader, credit=30)] == list(range(1, 201))


def test_a_folder_names_a_column_beside_those_of_the_table(tmp_path):
    (tmp_path / "shop=north").mkdir()
    write(tmp_path / "shop=north/1.json", changes([1]))
    schema = schema_of("id long, shop string")
    assert everything(*opened(tmp_path, schema, format="debezium", recursive=True)) == [{"id": 2, "shop": "north"}]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"format": "json", "times": "us"}, "FORMAT-001.*'times' is for format='debezium' alone"),
        ({"envelope": {"kind": "op"}}, "FORMAT-001.*'envelope'"),
        ({"format": "debezium", "envelope": {"id": "op"}}, "FORMAT-006.*'id' cannot take 'op'"),
    ],
)
def test_options_that_do_not_fit_are_refused_where_the_step_is_built(tmp_path, options, said):
    with pytest.raises(InvalidStep, match=said):
        ms.Job("job").source("in", ms.files(tmp_path, **options), schema="id long, kind string")


def test_it_is_no_format_of_the_sink(tmp_path):
    stream = ms.Job("job").source("in", ms.memory([{"id": 1}]), schema="id long")
    with pytest.raises(InvalidStep, match="CONN-005"):
        stream.sink("out", ms.files(tmp_path, format="debezium"))
