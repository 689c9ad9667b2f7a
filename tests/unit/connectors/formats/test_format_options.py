"""What is refused when a step is built: options of another format, and columns that a format cannot hold."""

import subprocess
import sys

import pytest

from millstream.connectors.formats.decode import decoder
from millstream.connectors.formats.encode import encoder
from millstream.connectors.formats.options import DECODE, DECODE_OPTIONS, ENCODE, ENCODE_OPTIONS, FORMATS, check_format
from millstream.errors import InvalidSchema, InvalidStep
from millstream.model.connector import checked_options
from millstream.model.schema import schema_of
from millstream.records.codecs import rows_to_batch


def refused(schema, *, writes=False, **options):
    kind = options.pop("format")
    given = checked_options(ENCODE if writes else DECODE, options, step="orders", name="kafka")
    with pytest.raises(InvalidStep) as caught:
        check_format({**given, "format": kind}, schema_of(schema), "orders", writes=writes)
    assert caught.value.step == "orders"
    assert caught.value.hint
    return str(caught.value)


def accepted(schema, *, writes=False, **options):
    kind = options.pop("format")
    given = checked_options(ENCODE if writes else DECODE, options, step="orders", name="kafka")
    check_format({**given, "format": kind}, schema_of(schema), "orders", writes=writes)


def test_every_format_has_its_options():
    assert set(FORMATS) == DECODE_OPTIONS.keys() == ENCODE_OPTIONS.keys()


@pytest.mark.parametrize("schema", ["a binary, b binary", "a long", "a array<string>"])
@pytest.mark.parametrize("writes", [False, True])
def test_raw_takes_one_column_of_bytes_or_text(schema, writes):
    message = refused(schema, format="raw", writes=writes)
    assert "FORMAT-002" in message
    assert "one column" in message


@pytest.mark.parametrize("schema", ["a binary", "a string not null"])
def test_raw_with_such_a_column(schema):
    accepted(schema, format="raw")


def test_an_option_of_another_format_is_refused():
    message = refused("a string", format="raw", ignore_extra=False)
    assert "[FORMAT-001] step 'orders': format 'raw' has no option 'ignore_extra'" in message


RECORD = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]}


@pytest.mark.parametrize(
    ("writes", "options", "said"),
    [
        (False, {}, "needs a schema or a registry"),
        (False, {"avro_schema": RECORD, "registry": "http://registry"}, "needs a schema or a registry, and not both"),
        (False, {"avro_schema": RECORD}, "column 'a' is string in the messages, which does not become long"),
        (False, {"avro_schema": "oops"}, "unknown Avro type 'oops'"),
        (False, {"avro_schema": {**RECORD, "fields": [{"name": "a", "type": [None, "long"]}]}}, "'null', in quotes"),
        (False, {"avro_schema": {**RECORD, "fields": RECORD["fields"] * 2}}, "two fields of one name: a, a"),
        (True, {"registry": "http://registry"}, "needs a subject"),
        (True, {"subject": "orders-value"}, "needs a schema registry"),
        (True, {"avro_schema": RECORD}, "column 'a' is long, which is not written as string"),
    ],
)
def test_avro_needs_a_schema_that_fits(writes, options, said):
    message = refused("a long", format="avro", writes=writes, **options)
    assert "FORMAT-004" in message or "FORMAT-005" in message
    assert said in message


@pytest.mark.parametrize(
    ("writes", "options"),
    [
        (False, {"avro_schema": RECORD}),
        (False, {"registry": "https://user:${secret:PASSWORD}@registry:8081/path"}),
        (True, {}),
        (True, {"avro_schema": RECORD, "registry": "http://registry", "subject": "s", "register": False}),
    ],
)
def test_avro_that_fits(writes, options):
    accepted("a string not null", format="avro", writes=writes, **options)


@pytest.mark.parametrize("url", ["registry:8081", "file:///etc/passwd", "http://", ""])
def test_a_registry_is_a_url(url):
    with pytest.raises(InvalidStep, match="a url such as"):
        checked_options(DECODE, {"registry": url}, step="orders", name="kafka")


def test_nested_columns_are_not_csv():
    assert "FORMAT-003" in refused("a string, b array<int>", format="csv")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"envelope": {"kind": "op"}}, "column 'kind' cannot take 'op' of the envelope; found no such column"),
        ({"envelope": {"n": "op"}}, "column 'n' cannot take 'op' of the envelope; found long; known: string"),
        ({"envelope": {"a": "before"}}, "known: struct<...>"),
        ({"envelope": {"a": "ts"}}, "known: timestamp or long"),
        ({"envelope": {"a": "op", "n": "lsn"}}, "none is of the table"),
        ({"times": {"b": "ms"}}, "'times' names 'b', which is no column of the table"),
        ({"times": {"n": "ms"}, "envelope": {"n": "ts"}}, "'times' names 'n', which is no column of the table"),
    ],
)
def test_columns_take_what_they_can_hold_of_an_envelope(options, said):
    message = refused("a string, n long", format="debezium", **options)
    assert "FORMAT-006" in message
    assert said in message


@pytest.mark.parametrize(
    ("option", "value"), [("times", "s"), ("times", {"a": "s"}), ("envelope", {"a": "table"}), ("decimals", "double")]
)
def test_values_that_mean_nothing_in_debezium(option, value):
    with pytest.raises(InvalidStep, match="CONN-005"):
        checked_options(DECODE, {option: value}, step="orders", name="kafka")


def test_debezium_that_fits():
    accepted("a string, n long, t timestamp", format="debezium", envelope={"n": "ts"}, times={"t": "us"})
    accepted("a string, k string", format="debezium", writes=True, envelope={"k": "op"})


@pytest.mark.parametrize("kind", ["json", "csv", "raw", "debezium"])
def test_options_that_are_left_out_have_their_defaults(kind):
    """So does the key of a message, whose format takes none of the options of the value."""
    schema = schema_of("key string")
    check_format({"format": kind}, schema, "orders")
    batch = rows_to_batch([{"key": "a"}], schema)
    (part,) = decoder(kind, schema, {}).decode(encoder(kind, schema, {})(batch).to_pylist())
    assert part.rows == batch


def test_checking_imports_nothing_heavy():
    heavy = ["polars", "fastavro", "urllib.request", "pyarrow.json"]
    code = f"import sys; import millstream.connectors.formats.options; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("delimiter", ['"', "\n", "\r", "\0", "", ";;", "ä"])
def test_what_csv_cannot_be_separated_by(delimiter):
    with pytest.raises(InvalidStep, match=r"CONN-005.*one ASCII character, and no quote"):
        checked_options(DECODE, {"delimiter": delimiter}, step="orders", name="kafka")


def test_rows_that_do_not_fit_are_told_of_their_step():
    schema = schema_of("a string")
    encode = encoder("avro", schema, {"avro_schema": RECORD}, step="orders")
    with pytest.raises(InvalidSchema, match=r"\[FORMAT-005\] step 'orders': rows do not fit"):
        encode(rows_to_batch([{"a": None}], schema))
