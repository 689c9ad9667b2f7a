"""Decimals as bytes, compared with Python's own whole numbers."""

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from millstream.connectors.formats.big_endian import decimals, digits, wide_digits

LARGEST = 10**38 - 1
EXACT = decimal.Context(prec=60)
numbers = st.integers(-LARGEST, LARGEST) | st.integers(-70000, 70000) | st.sampled_from([-(2**k) for k in range(126)])


def scaled(number):
    return decimal.Decimal(number).scaleb(-2, EXACT)


def shortest(number):
    size = next(size for size in range(1, 18) if -(1 << 8 * size - 1) <= number < 1 << 8 * size - 1)
    return number.to_bytes(size, "big", signed=True)


@given(st.lists(st.none() | st.tuples(numbers, st.integers(0, 5)), max_size=5), st.integers(0, 2))
def test_bytes_become_the_number_they_stand_for(rows, cut):
    written = [None if row is None else (b"\xff" if row[0] < 0 else b"\0") * row[1] + shortest(row[0]) for row in rows]
    column = pa.array([b"other", *written], pa.binary()).slice(1).slice(cut)
    kind = pa.decimal128(38, 2)
    assert decimals(column, 2, kind).to_pylist() == [None if row is None else scaled(row[0]) for row in rows][cut:]


@given(st.lists(numbers, max_size=5), st.integers(0, 2))
def test_numbers_become_the_fewest_bytes(rows, cut):
    column = pa.array([scaled(row) for row in rows], pa.decimal128(38, 2)).slice(cut)
    data, lengths = digits(column)
    ends = np.cumsum(lengths)
    assert [bytes(data[end - length : end]) for end, length in zip(ends, lengths, strict=True)] == list(
        map(shortest, rows[cut:])
    )
    assert [bytes(row) for row in wide_digits(column, 20)] == [
        row.to_bytes(20, "big", signed=True) for row in rows[cut:]
    ]


@pytest.mark.parametrize("number", [LARGEST + 1, -LARGEST - 1, 2**127, 2**128 + 5, -(2**127) - 1])
def test_more_digits_than_a_decimal_has_are_refused(number):
    column = pa.array([b"\1", number.to_bytes(20, "big", signed=True)], pa.binary())
    with pytest.raises((ValueError, pa.ArrowInvalid)):
        decimals(column, 0, pa.decimal128(38, 0))


def test_more_digits_than_the_column_has_are_refused():
    with pytest.raises(pa.ArrowInvalid):
        decimals(pa.array([b"\x03\xe8"], pa.binary()), 0, pa.decimal128(3, 0))
    assert decimals(pa.array([b"\x03\xe7"], pa.binary()), 0, pa.decimal128(3, 0)).to_pylist() == [999]


def test_bytes_that_do_not_suffice_are_refused():
    column = pa.array([decimal.Decimal(127), decimal.Decimal(128)], pa.decimal128(38, 0))
    assert bytes(wide_digits(column.slice(0, 1), 1)[0]) == b"\x7f"
    with pytest.raises(ValueError, match="does not fit 1 bytes"):
        wide_digits(column, 1)
