"""Random schemas with random rows: values of every type that a column may have."""

import datetime as dt
import decimal

from hypothesis import strategies as st

from millstream.model.schema import Field, Schema
from millstream.model.types import parse_type
from millstream.records.codecs import rows_to_batch

times = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30))
_SCALARS = {
    "boolean": st.booleans(),
    "byte": st.integers(-(2**7), 2**7 - 1),
    "short": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32),
    "double": st.floats(),
    "string": st.text(st.characters(codec="utf-8"), max_size=8),
    "binary": st.binary(max_size=8),
    "date": st.dates(dt.date(1, 1, 2)),
    "timestamp": times.map(lambda time: time.replace(tzinfo=dt.UTC)),
    "timestamp_ntz": times,
    "decimal(9,2)": st.decimals(-9999999, 9999999, places=2),
    "decimal(38,18)": st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: decimal.Decimal(n).scaleb(-18, CONTEXT)),
}
CONTEXT = decimal.Context(prec=60)
_KEYS = ["boolean", "int", "long", "double", "string", "binary", "date", "timestamp", "timestamp_ntz", "decimal(9,2)"]


@st.composite
def kinds(draw, depth=2, keys=tuple(_KEYS)):
    """The name of a type, with a strategy for its values."""
    shapes = ["scalar"] * 3 + ["array", "map", "struct"] * (depth > 0)
    match draw(st.sampled_from(shapes)):
        case "array":
            name, values = draw(kinds(depth - 1, keys))
            return f"array<{name}>", st.lists(st.none() | values, max_size=3)
        case "map":
            key = draw(st.sampled_from(keys))
            name, values = draw(kinds(depth - 1, keys))
            return f"map<{key},{name}>", st.dictionaries(
                _SCALARS[key].filter(lambda each: each == each), st.none() | values, max_size=3
            )
        case "struct":
            parts = draw(st.lists(kinds(depth - 1, keys), min_size=1, max_size=3))
            fields = {f"f{place}": st.none() | values for place, (_, values) in enumerate(parts)}
            name = ",".join(f"f{place}:{part}" for place, (part, _) in enumerate(parts))
            return f"struct<{name}>", st.fixed_dictionaries(fields)
    name = draw(st.sampled_from(sorted(_SCALARS)))
    return name, _SCALARS[name]


@st.composite
def batches(draw, keys=tuple(_KEYS), min_rows=0, depth=2):
    """A schema, and a batch of rows."""
    columns = draw(st.lists(st.tuples(kinds(depth, keys), st.booleans()), min_size=1, max_size=4))
    schema = Schema(
        tuple(Field(f"c{place}", parse_type(name), nullable) for place, ((name, _), nullable) in enumerate(columns))
    )
    row = {
        f"c{place}": (st.none() | values) if nullable else values
        for place, ((_, values), nullable) in enumerate(columns)
    }
    rows = draw(st.lists(st.fixed_dictionaries(row), min_size=min_rows, max_size=5))
    return schema, rows_to_batch(rows, schema)
