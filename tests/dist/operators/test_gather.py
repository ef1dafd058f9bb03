"""gather returns bytes, numbers and arrays unchanged, or raises an error if their types differ."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import opwright_dist as dist
from opwright.errors import AttributeTypeError, DtypeError
from opwright_dist.groups.gathering import pack, unpack


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"bytes\nwith lines\n",
        0,
        -(2**70),
        True,
        0.1,
        float("-inf"),
        -0.0,
    ],
)
def test_bytes_and_numbers_keep_their_types(value: Any) -> None:
    (result,) = dist.gather(value)
    assert type(result) is type(value)
    assert repr(result) == repr(value)


def test_integers_of_any_size_can_be_gathered() -> None:
    assert dist.gather(10**5000) == [10**5000]


def test_views_of_bytes_are_returned_as_bytes() -> None:
    assert dist.gather(memoryview(b"abc")) == [b"abc"]
    assert dist.gather(bytearray(b"abc")) == [b"abc"]


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int64", "float16", "float32", "f8"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 3), (2, 3)])
def test_arrays_keep_dtype_and_shape(dtype: str, shape: tuple[int, ...]) -> None:
    given = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    (result,) = dist.gather(given)
    assert (result.dtype, result.shape) == (given.dtype, given.shape)
    np.testing.assert_array_equal(result, given)
    assert result.flags.writeable
    assert not np.shares_memory(result, given)


def test_arrays_of_any_layout_survive_a_round_trip() -> None:
    given = np.arange(12.0).reshape(3, 4)
    for view in (given.T, given[::2, ::-1], given.astype(">f8")):
        np.testing.assert_array_equal(dist.gather(view)[0], view)
    (narrow,) = dist.gather(given.astype(ml_dtypes.bfloat16))
    assert narrow.dtype == ml_dtypes.bfloat16
    (scalar,) = dist.gather(np.float32(1.5))
    assert (scalar.dtype, scalar.shape, float(scalar)) == (np.float32, (), 1.5)


def test_arrays_can_have_different_shapes() -> None:
    first, second = unpack([pack(np.zeros((2, 3))), pack(np.ones(5))])
    assert (first.shape, second.shape) == ((2, 3), (5,))


@pytest.mark.parametrize(
    ("first", "second", "names"),
    [
        (np.zeros(2, "f4"), np.zeros(2, "f8"), "float32 on rank 0 and float64 on rank 1"),
        (1, 1.0, "int on rank 0 and float on rank 1"),
        (b"", np.zeros(2, "f4"), "bytes on rank 0 and float32 on rank 1"),
        (1.0, np.zeros((), "f8"), "float on rank 0 and float64 on rank 1"),
    ],
)
def test_different_kinds_of_data_are_refused(first: Any, second: Any, names: str) -> None:
    with pytest.raises(
        dist.DistError, match=f"data of the same kind and dtype, got {names}; convert"
    ):
        unpack([pack(first), pack(second)])


@pytest.mark.parametrize(
    ("value", "name"), [("text", "str"), ([1, 2], "list"), (None, "NoneType"), (1j, "complex")]
)
def test_data_other_than_bytes_numbers_and_arrays_is_refused(value: Any, name: str) -> None:
    with pytest.raises(
        AttributeTypeError, match=f"must be bytes, a number or an array, got {name}"
    ):
        dist.gather(value)


def test_object_arrays_are_refused() -> None:
    with pytest.raises(DtypeError, match="object"):
        dist.gather(np.array([{}]))


def test_dir_lists_exactly_the_public_names() -> None:
    assert dir(dist) == sorted(dist.__all__)
