"""The CUDA Array Interface, version 3, for libraries that do not support DLPack.

The Numba documentation defines the interface under "CUDA Array Interface (Version 3)".
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from opwright.device import ArrayPlace
from opwright.errors import DtypeError
from opwright.op import dtype_from_numpy, dtype_to_numpy
from opwright_cuda.native import find_gpu

INTERFACE: Final = "__cuda_array_interface__"

VERSION: Final = 3

LEGACY_STREAM: Final = 1
"""The CUDA handle of the legacy default stream, which synchronizes with blocking streams."""

_WAY_OUT: Final = "pass an array with __dlpack__, or one on the host"


def locate(description: Any) -> ArrayPlace:
    """Return the memory of an array that provides the interface.

    Raises
    ------
    ValueError
        If it is not contiguous, has a mask or an unsupported dtype, is not in GPU memory, or its
        description is malformed.
    """
    try:
        return _locate(description)
    except (TypeError, IndexError) as error:
        raise ValueError(
            f"{INTERFACE} must conform to version {VERSION}, got {description!r} "
            f"({error}); {_WAY_OUT}"
        ) from error


def _locate(description: Any) -> ArrayPlace:
    _check(isinstance(description, Mapping), "must be a dict", type(description).__name__)
    missing = [name for name in ("version", "shape", "typestr", "data") if name not in description]
    _check(not missing, "must have version, shape, typestr and data", f"none of {missing}")
    version = description["version"]
    _check(version <= VERSION, f"is supported up to version {VERSION}", f"version {version}")
    mask = description.get("mask")
    _check(mask is None, "must not have a mask", type(mask).__name__)
    shape = tuple(map(operator.index, description["shape"]))
    dtype = _dtype(description["typestr"])
    stream = _stream(version, description.get("stream"))
    if math.prod(shape) == 0:
        return ArrayPlace(0, shape, dtype.name, None, 0)
    strides = description.get("strides")
    if strides is not None and not _is_compact(shape, strides, dtype.itemsize):
        raise ValueError(
            f"an array on a device must be contiguous, got one of shape {shape} with strides "
            f"{tuple(strides)}; make it contiguous, for example by copy()"
        )
    pointer = operator.index(description["data"][0])
    number = find_gpu(pointer) if pointer else None
    _check(number is not None, "must point to memory of a GPU", f"address {pointer:#x}")
    return ArrayPlace(pointer, shape, dtype.name, number, stream)


def describe(pointer: int, shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    """Return the description of a compact array without pending work.

    Raises
    ------
    AttributeError
        For bfloat16, which has no type string.
    """
    if dtype == "bfloat16":
        raise AttributeError(f"{INTERFACE} cannot represent {dtype}; use __dlpack__")
    return {
        "shape": shape,
        "typestr": dtype_to_numpy(dtype).str,
        "data": (pointer, False),
        "strides": None,
        "version": VERSION,
        "stream": None,
    }


def _check(holds: bool, rule: str, got: str) -> None:
    if not holds:
        raise ValueError(f"{INTERFACE} {rule}, got {got}; {_WAY_OUT}")


def _dtype(typestr: Any) -> np.dtype[Any]:
    try:
        dtype: np.dtype[Any] = np.dtype(typestr)
        dtype_from_numpy(dtype)
        known = dtype.isnative
    except (TypeError, DtypeError):
        known = False
    _check(known, "must name an opwright dtype in native byte order", repr(typestr))
    return dtype


def _stream(version: int, stream: int | None) -> int:
    if stream is None:
        # The entry "stream" was added in version 3.
        return 0 if version >= VERSION else LEGACY_STREAM
    _check(stream > 0, "must name a stream by its handle, 1 or 2", f"stream {stream}")
    return stream


def _is_compact(shape: Sequence[int], strides: Sequence[int], step: int) -> bool:
    if len(strides) != len(shape):
        return False
    for dim, stride in zip(reversed(shape), reversed(strides), strict=True):
        if dim != 1 and stride != step:
            return False
        step *= dim
    return True
