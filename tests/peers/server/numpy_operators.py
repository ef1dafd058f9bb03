"""Standard operators in NumPy and SciPy, for dtypes and calls that PyTorch lacks.

Functions are called like the functions of `torch_operators`, but on arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special
from exact_optimizers import nadam, radam
from torch_operators.convert import require

Array = npt.NDArray[Any]
Function = Callable[..., Any]


def _reduction(function: Function) -> Function:
    def reduced(x: Array, axis: Sequence[int], keepdims: bool) -> Any:
        return function(x, axis=tuple(axis[: x.ndim]) or None, keepdims=keepdims)

    return reduced


def _cast(x: Array, dtype: str) -> Any:
    require(dtype in np.sctypeDict, f"NumPy has no {dtype}")
    return x.astype(dtype)


def _power(x: Array, y: Array) -> Any:
    require(x.dtype.kind not in "iu" or bool((y >= 0).all()), "negative powers of integers")
    return np.power(x, y)


def _matmul(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Any:
    x = np.swapaxes(x, -1, -2) if transpose_x and x.ndim > 1 else x
    y = np.swapaxes(y, -1, -2) if transpose_y and y.ndim > 1 else y
    return np.matmul(x, y)


def _slice(
    x: Array, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], steps: Sequence[int]
) -> Any:
    index = [slice(None)] * x.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps or [1] * len(axes), strict=True):
        places = range(x.shape[axis])[start:end:step]
        stop = None if places.stop < 0 else places.stop
        index[axis] = slice(places.start, stop, step) if len(places) else slice(0, 0)
    return x[tuple(index)]


def _pad(x: Array, paddings: Sequence[int], mode: str, value: float) -> Any:
    pairs = list(zip(paddings[::2], paddings[1::2], strict=True))
    require(mode == "constant" or x.size > 0, "an edge of nothing")
    require(min(paddings, default=0) >= 0, "NumPy does not crop so")
    options = {"constant_values": value} if mode == "constant" else {}
    return np.pad(x, pairs, mode=mode, **options) if pairs else x.copy()


def _cumulated(function: Function) -> Function:
    def scanned(x: Array, axis: int, exclusive: bool = False, reverse: bool = False) -> Any:
        require(not exclusive, "a scan that leaves its element out")
        moved = np.flip(x, axis) if reverse else x
        out = function(moved, axis=axis, dtype=x.dtype)
        return np.flip(out, axis) if reverse else out

    return scanned


UNARY: dict[str, Any] = {
    "abs": np.absolute,
    "negative": np.negative,
    "sign": np.sign,
    "square": np.square,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "log2": np.log2,
    "sqrt": np.sqrt,
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "sigmoid": scipy.special.expit,
    "log_sigmoid": scipy.special.log_expit,
    "ceil": np.ceil,
    "floor": np.floor,
    "round": np.rint,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isfinite": np.isfinite,
    "logical_not": np.logical_not,
}
BINARY: dict[str, Any] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "mod": np.mod,
    "floor_divide": np.floor_divide,
    "atan2": np.arctan2,
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}

OPERATORS: dict[str, Function] = {
    **{name: (lambda x, f=function: f(x)) for name, function in UNARY.items()},
    **{name: (lambda x, y, f=function: f(x, y)) for name, function in BINARY.items()},
    "relu": lambda x: np.maximum(x, 0),
    "power": _power,
    "where": lambda condition, x, y: np.where(condition, x, y),
    "add_n": lambda x: np.sum(x, axis=0, dtype=x[0].dtype),
    "sum": _reduction(np.sum),
    "prod": _reduction(np.prod),
    "mean": _reduction(np.mean),
    "max": _reduction(np.max),
    "min": _reduction(np.min),
    "any": _reduction(np.any),
    "all": _reduction(np.all),
    "logsumexp": _reduction(scipy.special.logsumexp),
    "argmax": lambda x, axis, keepdims: np.argmax(x, axis, keepdims=keepdims),
    "argmin": lambda x, axis, keepdims: np.argmin(x, axis, keepdims=keepdims),
    "cumsum": _cumulated(np.cumsum),
    "cumprod": _cumulated(np.cumprod),
    "sort": lambda x, axis: np.sort(x, axis, kind="stable"),
    "matmul": _matmul,
    "slice": _slice,
    "pad": _pad,
    "tile": lambda x, repeats: np.tile(x, repeats),
    "roll": lambda x, shifts, axis: np.roll(x, shifts, axis or None),
    "flip": lambda x, axis: np.flip(x, axis or None),
    "triu": lambda x, k: np.triu(x, k),
    "tril": lambda x, k: np.tril(x, k),
    "cast": _cast,
    "transpose": lambda x, axes: np.transpose(x, axes or None),
    "expand": lambda x, shape: np.broadcast_to(x, shape),
    "arange": lambda start, stop, step, dtype: np.arange(
        start, stop, step, "float64" if dtype == "bfloat16" else dtype
    ),
    "nadam": nadam,
    "radam": radam,
    "linspace": lambda start, stop, num, dtype: np.linspace(start, stop, num, dtype=dtype),
}
