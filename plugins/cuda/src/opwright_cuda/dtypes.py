"""C++ types of dtypes in kernels."""

from __future__ import annotations

from typing import Final

CTYPES: Final = {
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "float",
    "float64": "double",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "bool": "bool",
}

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
SIGNED: Final = ("int8", "int16", "int32", "int64")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTS: Final = (*SIGNED, *UNSIGNED)
NUMBERS: Final = (*FLOATS, *INTS)

ITEM_BYTES: Final = {
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "bool": 1,
}

BITS: Final = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}
"""The type of kernels that only move elements of this many bytes."""


def compute_dtype(dtype: str) -> str:
    """Return the compute dtype of a dtype: float32 for the 16-bit floats."""
    return "float32" if dtype in {"float16", "bfloat16"} else dtype


def compute_type(dtype: str) -> str:
    """Return the C++ compute type of a dtype."""
    return CTYPES[compute_dtype(dtype)]


def compute_bytes(dtype: str) -> int:
    """Return the size of the compute type of a float dtype."""
    return max(ITEM_BYTES[dtype], 4)
