"""The one form of a floating-point key, where it is made and what it costs other keys: nothing."""

import math

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from tests.unit.runtime.epochs import Epochs

import millstream as ms
from millstream.records.canonical_keys import are_canonical, canonical, canonical_value, with_canonical
from millstream.records.key_groups import stable_hash
from millstream.runtime.program import LevelProgram

DOUBLES = pa.array(
    np.array([0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF8 << 48) + 1, 0x7FF0 << 48], np.uint64).view(np.float64),
    mask=np.array([False] * 5 + [True]),
)
FLOATS = pa.array(np.array([0, 1 << 31, 0x7FC0 << 16, 0xFFC0 << 16, 0x7FC00001, 0], np.uint32).view(np.float32))


def bits(values):
    return values.view(pa.int32() if values.type == pa.float32() else pa.int64()).to_pylist()


@pytest.mark.parametrize("values", [DOUBLES, FLOATS], ids=["double", "float"])
def test_equal_values_have_equal_bits(values):
    found = canonical(values)
    assert found.type == values.type
    assert found.null_count == values.null_count
    assert len(set(bits(found)[:2])) == len(set(bits(found)[2:5])) == 1
    assert math.copysign(1, found[1].as_py()) == 1
    assert bits(pa.array([canonical_value(value) for value in values.to_pylist()], values.type)) == bits(found)
    assert len(set(stable_hash([values])[:2])) == len(set(stable_hash([values])[2:5])) == 1


def test_only_the_named_columns_are_changed():
    rows = pa.record_batch({"k": DOUBLES, "v": DOUBLES})
    made = with_canonical(rows, ("k",))
    assert made.schema == rows.schema
    assert bits(made.column("v")) == bits(rows.column("v"))
    assert not are_canonical(rows, ("k",))
    assert are_canonical(made, ("k",))
    assert are_canonical(rows, ())


def keyed_by(kind):
    job = ms.Job("keys", max_parallelism=8)
    rows = job.source("in", ms.memory([]), schema=f"k {kind}, n long")
    rows.key_by("k").aggregate(n=ms.count(), id="a").sink("out", ms.collect("out"))
    return job


@pytest.mark.parametrize(("kind", "floats"), [("double", ("k",)), ("float", ("k",)), ("string", ()), ("long", ())])
def test_which_keys_have_several_forms_is_known_when_a_level_is_compiled(kind, floats):
    program = LevelProgram(keyed_by(kind).compile().deployment, 0)
    assert list(program.float_keys.values()) == [floats]


@pytest.mark.parametrize(("kind", "key", "length"), [("double", -0.0, 3), ("string", "x", 2)])
def test_only_steps_with_such_keys_say_so_in_their_directory(kind, key, length):
    run = Epochs(keyed_by(kind))
    run.run([{"k": key, "n": 1}])
    directory = msgspec.msgpack.decode(run.stores[1, 0].get("a/directory"))
    assert len(directory) == length
