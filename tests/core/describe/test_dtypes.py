"""Dtype names."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from opwright.describe.dtypes import dtype_from_code
from opwright.errors import DtypeError
from opwright.op import (
    DTYPES,
    FLOAT_DTYPES,
    INDEX_DTYPES,
    INT_DTYPES,
    NARROW_DTYPES,
    canonical_dtype,
    dtype_from_numpy,
    dtype_to_code,
    dtype_to_numpy,
    is_float,
    item_size,
)


@pytest.mark.parametrize("name", DTYPES)
def test_every_dtype_survives_a_round_trip_through_numpy_and_dlpack(name):
    if name in ("bfloat16", *NARROW_DTYPES):
        pytest.importorskip("ml_dtypes")
    assert dtype_from_numpy(dtype_to_numpy(name)) == name
    assert canonical_dtype(dtype_to_numpy(name)) == name
    assert dtype_from_code(dtype_to_code(name)) == name
    assert item_size(name) == dtype_to_numpy(name).itemsize


@pytest.mark.parametrize("name", [*INT_DTYPES, "bool", "float16", "float32"])
def test_dlpack_types_match_numpy_exports(name):
    # DLDataType begins at byte 20 of the DLTensor that the capsule points to.
    import ctypes

    capsule = np.zeros(1, name).__dlpack__()
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = get(capsule, b"dltensor")
    code, bits = (ctypes.c_uint8.from_address(address + 20 + i).value for i in (0, 1))
    assert dtype_to_code(name) == code | bits << 8 | 1 << 16


@pytest.mark.parametrize("given", ["float32", np.float32, np.dtype("<f4"), np.dtype(">f4"), "f4"])
def test_every_numpy_dtype_has_one_canonical_name(given):
    assert canonical_dtype(given) == "float32"


def test_dtype_groups_are_disjoint_and_contain_only_known_dtypes():
    assert set(FLOAT_DTYPES).isdisjoint(INT_DTYPES)
    assert set(INDEX_DTYPES) < set(INT_DTYPES)
    assert {*FLOAT_DTYPES, *INT_DTYPES, *NARROW_DTYPES, "bool"} == set(DTYPES)
    assert [name for name in DTYPES if is_float(name)] == list(FLOAT_DTYPES)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("flot32", "unknown dtype, got 'flot32'; did you mean 'float32'"),
        (None, "unknown dtype, got None"),
        (object, "unknown dtype"),
        ("complex64", "unknown dtype, got 'complex64'"),
        (np.dtype("U3"), "unknown dtype"),
        (3, "unknown dtype, got 3"),
    ],
)
def test_the_error_for_an_unknown_dtype_suggests_the_nearest_name(given, message):
    with pytest.raises(DtypeError, match=message):
        canonical_dtype(given)


def test_unknown_dtypes_and_dlpack_codes_raise():
    for ask in (item_size, dtype_to_code, dtype_to_numpy):
        with pytest.raises(DtypeError, match=r"unknown dtype, got 'int3'"):
            ask("int3")
    with pytest.raises(DtypeError, match=r"unknown DLPack type, got code 0x1"):
        dtype_from_code(1)


def test_the_error_for_bfloat16_without_ml_dtypes_names_the_package(monkeypatch):
    from opwright.describe import dtypes

    monkeypatch.delitem(dtypes._NUMPY, "bfloat16", raising=False)
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    with pytest.raises(DtypeError, match=r"bfloat16 needs ml_dtypes, .*; pip install ml_dtypes"):
        dtype_to_numpy("bfloat16")
    assert dtype_to_code("bfloat16") == 4 | 16 << 8 | 1 << 16


def test_dtypes_of_both_byte_orders_have_the_same_name():
    assert dtype_from_numpy(np.dtype(">i4")) == dtype_from_numpy(np.dtype("<i4")) == "int32"
    with pytest.raises(DtypeError, match=r"unknown dtype, got complex64"):
        dtype_from_numpy(np.dtype("complex64"))
