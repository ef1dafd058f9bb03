"""Draws and changes arrays and attributes; most are small, some are 0, 1 or range limits."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from opwright.op import NARROW_DTYPES, AttrProto, AttrType, dtype_to_numpy

Array = np.ndarray

DTYPES = (
    *("float32", "float64", "float16", "int64", "int32", "int8", "int16"),
    *("uint8", "uint16", "uint32", "uint64", "bool"),
)
# Sizes are either small or impossibly large, since sizes in between would only fill memory.
SMALL = (0, 1, 1, 2, 2, 3, 4, 5, 7, 8, 9)
FAR = (
    *(-1, -2, -3, -9, 15, 16, 17, 31, 64, 65536, 2**31 - 1, 2**31, 2**32, 2**33 + 1, 2**40),
    *(2**61, 2**62, 2**63 - 1, 2**63, 2**64, 2**80, -(2**31), -(2**63), -(2**63) - 1),
)
FLOATS = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-8, 1e-45, 1e-320, 3.4e38, 3.5e38, 1e300, -1e300),
    *(float("inf"), float("-inf"), float("nan"), 65504.0, 65536.0, 9007199254740993.0),
)
ODD_VALUES = (None, True, False, 1.5, "x", "", b"x", [], [1], [[1]], {}, ())
NAMES = (
    "x",
    "",
    "out",
    "float32",
    "NCHW",
    "relu",
    "\ud800",
    "<b>",
    "a" * 300,
    "é",
    "\x00",
    "@step",
)

_noise = np.random.default_rng(20240229)
_pools = {
    dtype: (
        _noise.random(4096) < 0.5
        if dtype == "bool"
        else (_noise.normal(size=4096) * 2).astype(dtype_to_numpy(dtype))
        if dtype.startswith("f")
        else _noise.integers(0, 9, 4096).astype(dtype_to_numpy(dtype))
    )
    for dtype in (*DTYPES, *NARROW_DTYPES)
}


def draw_int(rng: random.Random) -> int:
    """Return an integer, which is usually small."""
    return rng.choice(SMALL) if rng.random() < 0.6 else rng.choice(FAR)


def draw_shape(rng: random.Random) -> tuple[int, ...]:
    """Return a shape with few elements."""
    return tuple(rng.choice(SMALL) for _ in range(rng.choice((0, 1, 1, 2, 2, 2, 3, 4, 5))))


def draw_array(rng: random.Random, dtype: str, shape: tuple[int, ...]) -> Array:
    """Return an array of common values."""
    count = 1
    for dim in shape:
        count *= dim
    begin = rng.randrange(0, 512)
    pool = _pools[dtype]
    values = pool[begin : begin + count] if begin + count <= len(pool) else np.resize(pool, count)
    return values.reshape(shape).copy()


def change_array(rng: random.Random, array: Array) -> Any:
    """Return an array that differs in shape, dtype, layout or values."""
    return rng.choice(_CHANGES)(rng, array)


def _reshaped(rng: random.Random, array: Array) -> Array:
    return draw_array(rng, _pool_dtype(array), draw_shape(rng))


def _other_dim(rng: random.Random, array: Array) -> Array:
    if array.ndim == 0:
        return _reshaped(rng, array)
    shape = list(array.shape)
    shape[rng.randrange(len(shape))] = rng.choice(SMALL)
    return draw_array(rng, _pool_dtype(array), tuple(shape))


def _other_rank(rng: random.Random, array: Array) -> Array:
    shape = list(array.shape)
    if shape and rng.random() < 0.5:
        del shape[rng.randrange(len(shape))]
    else:
        shape.insert(rng.randrange(len(shape) + 1), rng.choice((1, 1, 0, 2)))
    return draw_array(rng, _pool_dtype(array), tuple(shape))


def _other_dtype(rng: random.Random, array: Array) -> Array:
    return draw_array(rng, rng.choice(DTYPES), array.shape)


def _transposed(rng: random.Random, array: Array) -> Array:
    return array.T


def _strided(rng: random.Random, array: Array) -> Array:
    return array[::-1] if array.ndim else array


def _extreme(rng: random.Random, array: Array) -> Array:
    changed = array.copy()
    if changed.size == 0:
        return changed
    flat = changed.reshape(-1)
    for _ in range(rng.choice((1, 1, 3))):
        flat[rng.randrange(flat.size)] = _extreme_value(rng, array.dtype)
    return changed


def _extreme_value(rng: random.Random, dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return rng.random() < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return min(max(rng.choice((-1, -9, 2**31, 2**40, *FAR)), info.min), info.max)
    with np.errstate(over="ignore"):
        return dtype.type(rng.choice(FLOATS))


def _everywhere(rng: random.Random, array: Array) -> Array:
    return np.full_like(array, _extreme_value(rng, array.dtype))


def _pool_dtype(array: Array) -> str:
    return array.dtype.name if array.dtype.name in _pools else "float32"


_CHANGES = (
    *(_reshaped, _other_dim, _other_dim, _other_dim, _other_rank, _other_dtype),
    *(_transposed, _strided, _extreme, _extreme, _extreme, _everywhere),
)


def draw_attr(rng: random.Random, attr: AttrProto) -> Any:
    """Return an attribute value inside its range, at a limit, outside, or of a wrong type."""
    if rng.random() < 0.04:
        return rng.choice(ODD_VALUES)
    if attr.allowed and rng.random() < 0.8:
        value = rng.choice(attr.allowed)
        return [value] if attr.type.is_list else value
    if attr.type.is_list:
        return [_draw_element(rng, attr) for _ in range(rng.choice((0, 1, 2, 2, 3, 4, 4, 8)))]
    return _draw_element(rng, attr)


def _draw_element(rng: random.Random, attr: AttrProto) -> Any:
    kind = attr.type.element
    if kind is AttrType.INT:
        bounds = [bound for bound in (attr.min, attr.max) if bound is not None]
        if bounds and rng.random() < 0.3:
            return int(rng.choice(bounds)) + rng.choice((-1, 0, 1))
        return draw_int(rng)
    if kind is AttrType.FLOAT:
        return rng.choice(FLOATS) if rng.random() < 0.7 else rng.uniform(-2, 2)
    if kind is AttrType.BOOL:
        return rng.random() < 0.5
    if kind is AttrType.BLOCK:
        return rng.randrange(-1, 4)
    return rng.choice(DTYPES) if attr.is_dtype else rng.choice(NAMES)
