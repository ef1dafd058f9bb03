"""Conversions between PyTorch dtypes and opwright dtype names."""

from __future__ import annotations

from typing import Any, Final

import torch
from numpy import ndarray

from opwright.errors import DtypeError
from opwright.runtime import Tensor

NAMES: Final[dict[torch.dtype, str]] = {
    torch.float16: "float16",
    torch.bfloat16: "bfloat16",
    torch.float32: "float32",
    torch.float64: "float64",
    torch.int8: "int8",
    torch.int16: "int16",
    torch.int32: "int32",
    torch.int64: "int64",
    torch.uint8: "uint8",
    torch.uint16: "uint16",
    torch.uint32: "uint32",
    torch.uint64: "uint64",
    torch.bool: "bool",
    torch.float8_e4m3fn: "float8_e4m3fn",
    torch.float8_e5m2: "float8_e5m2",
}
_DTYPES: Final = {name: dtype for dtype, name in NAMES.items()}


def dtype_name(dtype: torch.dtype) -> str:
    """Return the opwright name of a dtype, or raise DtypeError if it is unsupported."""
    try:
        return NAMES[dtype]
    except KeyError:
        raise DtypeError(
            f"{dtype}: opwright does not support this dtype; cast the tensor"
        ) from None


def torch_dtype(name: str) -> torch.dtype:
    """Return the PyTorch dtype with the given name, or raise DtypeError if PyTorch lacks it."""
    try:
        return _DTYPES[name]
    except KeyError:
        raise DtypeError(f"{name}: PyTorch does not support this dtype; cast the array") from None


def as_torch(result: Any) -> Any:
    """Return an ndarray as a tensor that shares its memory, and other values unchanged."""
    if isinstance(result, tuple):
        return tuple(map(as_torch, result))
    return torch.from_dlpack(Tensor.from_numpy(result)) if isinstance(result, ndarray) else result
