"""`pad`: combines sequences of different lengths into one array, and returns their lengths."""

from __future__ import annotations

import numpy as np
import pytest

import opwright_nn as nn
from opwright.errors import AttributeTypeError, AttributeValueError, ShapeError


def test_sequences_are_padded_at_their_ends():
    padded, lengths = nn.datasets.pad([[4, 1, 7], [2], [5, 6]])
    np.testing.assert_array_equal(padded, [[4, 1, 7], [2, 0, 0], [5, 6, 0]])
    np.testing.assert_array_equal(lengths, [3, 1, 2])
    assert (padded.dtype, lengths.dtype) == (np.int64, np.int64)


def test_a_given_length_truncates_and_pads():
    for length in (2, 4):
        padded, lengths = nn.datasets.pad([[4, 1, 7], [2]], length=length, value=-1)
        assert padded.shape == (2, length)
        np.testing.assert_array_equal(lengths, [min(3, length), 1])
        np.testing.assert_array_equal(padded[1], [2] + [-1] * (length - 1))


def test_vectors_and_empty_sequences_are_accepted():
    rows = [np.ones((2, 3), np.float32), np.zeros((0, 3), np.float32)]
    padded, lengths = nn.datasets.pad(rows, value=0.5)
    np.testing.assert_array_equal(padded, [np.ones((2, 3)), np.full((2, 3), 0.5)])
    np.testing.assert_array_equal(lengths, [2, 0])
    np.testing.assert_array_equal(nn.datasets.pad([[], [7]])[0], [[0], [7]])


@pytest.mark.parametrize("value", [0.1, -1, 1 / 3, 2**24 + 1, np.nan, np.inf, -np.inf, 1e-50])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_are_padded_with_the_nearest_value_of_their_dtype(value, dtype):
    rows = [np.ones(2, dtype), np.ones(1, dtype)]
    if dtype == "float16" and value == 2**24 + 1:
        with pytest.raises(AttributeValueError, match="representable in float16, got 16777217"):
            nn.datasets.pad(rows, value=value)
        return
    padded, _ = nn.datasets.pad(rows, value=value)
    assert padded.dtype == dtype
    np.testing.assert_array_equal(padded[1, 1], np.array(value, dtype))


def test_integers_are_padded_with_any_value_of_their_dtype():
    for dtype in ("int8", "uint8", "int64", "uint64"):
        for value in (np.iinfo(dtype).min, np.iinfo(dtype).max, 7.0, True):
            padded, _ = nn.datasets.pad([np.ones(1, dtype), np.ones(0, dtype)], value=value)
            assert padded[1, 0] == value
            assert padded.dtype == dtype


def test_lists_of_floats_become_float32_and_arrays_keep_their_dtype():
    assert nn.datasets.pad([[0.5], [1.0, 2.0]])[0].dtype == np.float32
    assert nn.datasets.pad([np.ones(2), np.ones(1)])[0].dtype == np.float64


@pytest.mark.parametrize(
    ("sequences", "options", "error", "rule"),
    [
        ([[1], [0.5]], {}, ShapeError, "one dtype.*for sequence 1 float32"),
        ([[1], [[1, 2]]], {}, ShapeError, r"for sequence 1 int64\[1, 2\]"),
        (["ab"], {}, AttributeTypeError, "each sequence must be numbers.*'ab' for sequence 0"),
        ([3], {}, AttributeTypeError, "got 3 for sequence 0"),
        ("ab", {}, AttributeTypeError, "pad: sequences must be a list of sequences, got str"),
        ([], {}, AttributeValueError, "must hold at least one"),
        ([[1]], {"value": 0.5}, AttributeValueError, "must be representable in int64, got 0.5"),
        ([[1]], {"value": np.nan}, AttributeValueError, "must be representable in int64, got nan"),
        ([[1]], {"value": 10**30}, AttributeValueError, "must be representable in int64, got 10+;"),
        ([np.ones(1, "u1")], {"value": 256}, AttributeValueError, "in uint8, got 256"),
        ([np.ones(1, "u1")], {"value": -1}, AttributeValueError, "in uint8, got -1"),
        ([[True]], {"value": 2}, AttributeValueError, "representable in bool, got 2"),
        ([[0.5]], {"value": 1e39}, AttributeValueError, r"representable in float32, got 1e\+39"),
        ([[0.5]], {"value": 1j}, AttributeValueError, "representable in float32, got 1j"),
        ([[0.5]], {"value": "0"}, AttributeValueError, "representable in float32, got '0'"),
        ([[1e300]], {}, AttributeValueError, r"range of float32, got \[1e\+300\] for sequence 0"),
        ([[None]], {}, AttributeTypeError, r"got \[None\] for sequence 0"),
        ([[[1], [1, 2]]], {}, AttributeTypeError, "numbers with a time axis, got"),
        ([[1]], {"length": 0}, AttributeValueError, "pad: length must be"),
        ([[1]], {"length": 2**31}, AttributeValueError, "pad: length must be an int in"),
        ([[1]], {"maxlen": 2}, AttributeTypeError, "got 'maxlen'.*'length'"),
    ],
)
def test_invalid_sequences_and_options_of_pad_are_refused(sequences, options, error, rule):
    with pytest.raises(error, match=rule):
        nn.datasets.pad(sequences, **options)
