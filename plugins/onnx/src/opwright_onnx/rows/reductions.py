"""Rows of operators that reduce axes or sort elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.node import Node
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.translator import Translator
from opwright_onnx.translate.values import FLOATS, Value

ROWS = Rows()

_SINCE_INPUT = {"ReduceSum": 13}
"""The first opset in which the axes are an input; 18 for all other operators."""


def find_axes(t: Translator, n: Node, axes: Value) -> list[int] | None:
    """Return the axes of a reduction, or None if it is the identity."""
    if n.opset < _SINCE_INPUT.get(n.op_type, 18):
        found = n.attr("axes") or []
    else:
        is_empty = axes is None or 0 in t.shape(axes)
        found = [] if is_empty else t.ints(axes, "axes")
        if not found and n.attr("noop_with_empty_axes"):
            return None
    return found


def reduce(t: Translator, n: Node, type: str, x: Value, axes: list[int] | None) -> Value:
    """Reduce distinct axes with the operator `type`; if `axes` is None, copy `x`."""
    if axes is None:
        return t.op("assign", x)
    dtype = t.dtype(x)
    if not axes and not t.rank(x):
        return t.op("assign", x)
    return t.cast(t.op(type, x, axis=axes, keepdims=bool(n.attr("keepdims", 1))), dtype)


@ROWS.row("ReduceSum", "ReduceProd")
def plain(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    return reduce(t, n, n.op_type.removeprefix("Reduce").lower(), x, find_axes(t, n, axes))


@ROWS.row("ReduceMean")
def mean(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    wide, dtype = t.promote(x, "float64", *FLOATS)
    return t.cast(reduce(t, n, "mean", wide, find_axes(t, n, axes)), dtype)


@ROWS.row("ReduceMax", "ReduceMin")
def extreme(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    places, type = find_axes(t, n, axes), n.op_type.removeprefix("Reduce").lower()
    if t.dtype(x) == "bool":
        return reduce(t, n, {"max": "any", "min": "all"}[type], x, places)
    if 0 in t.shape(x) and places is not None:  # the result is the minimum or maximum of the dtype
        dtype = t.dtype(x)
        reduced = places or list(range(t.rank(x)))
        reduced = [t.axis(axis, t.rank(x)) for axis in reduced]
        keeps = n.attr("keepdims", 1)
        shape = [
            1 if i in reduced else dim
            for i, dim in enumerate(t.known_shape(x, "input"))
            if keeps or i not in reduced
        ]
        if dtype in FLOATS:
            return t.full(_limit(dtype, type), shape, dtype)
        return np.full(shape, _limit(dtype, type), dtype)
    if t.guards_empty and places is not None:
        x = _with_limits(t, x, places, type)
    return reduce(t, n, type, x, places)


def _limit(dtype: str, type: str) -> float:
    """Return the number that no maximum, or minimum, depends on."""
    if dtype in FLOATS:
        return -np.inf if type == "max" else np.inf
    info = np.iinfo(dtype)
    return info.min if type == "max" else info.max


def _with_limits(t: Translator, x: Value, axes: list[int], type: str) -> Value:
    """Append a limit along the axes whose lengths are unknown, so that none is empty."""
    reduced = {t.axis(axis, t.rank(x)) for axis in axes or range(t.rank(x))}
    widths = [[0, int(i in reduced and d is None)] for i, d in enumerate(t.shape(x))]
    if not any(last for _, last in widths):
        return x
    flat = [width for pair in widths for width in pair]
    return t.op("pad", x, paddings=flat, value=float(_limit(t.dtype(x), type)))


@ROWS.row("ReduceL1")
def norm1(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    return reduce(t, n, "sum", t.op("abs", x), find_axes(t, n, axes))


@ROWS.row("ReduceSumSquare")
def sum_square(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    return reduce(t, n, "sum", t.op("multiply", x, x), find_axes(t, n, axes))


@ROWS.row("ReduceL2")
def norm2(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    return _in_floats(t, "sqrt", sum_square(t, n, x, axes))


@ROWS.row("ReduceLogSum")
def log_sum(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    return _in_floats(t, "log", reduce(t, n, "sum", x, find_axes(t, n, axes)))


def _in_floats(t: Translator, type: str, x: Value) -> Value:
    """Apply a float operator; integers are converted to float64 and back."""
    wide, dtype = t.promote(x, "float64", *FLOATS)
    return t.cast(t.op(type, wide), dtype)


@ROWS.row("ReduceLogSumExp")
def log_sum_exp(t: Translator, n: Node, x: Value, axes: Value = None) -> Any:
    places = find_axes(t, n, axes)
    if 0 in t.shape(x):
        return _in_floats(t, "log", reduce(t, n, "sum", t.op("exp", x), places))
    wide, dtype = t.promote(x, "float64", *FLOATS)
    return t.cast(reduce(t, n, "logsumexp", wide, places), dtype)


@ROWS.row("ArgMax", "ArgMin")
def arg(t: Translator, n: Node, x: Value) -> Any:
    type, axis = n.op_type.lower(), t.axis(n.attr("axis"), t.rank(x))
    keeps = bool(n.attr("keepdims"))
    if not n.attr("select_last_index"):
        return t.cast(t.op(type, x, axis=axis, keepdims=keeps), "int64")
    found = t.cast(t.op(type, t.op("flip", x, axis=[axis]), axis=axis, keepdims=keeps), "int64")
    last = t.dim(x, axis)
    return t.op(
        "subtract",
        t.op("subtract", np.array(last) if isinstance(last, int) else t.reshape(last, []), 1),
        found,
    )


@ROWS.row("TopK")
def top_k(t: Translator, n: Node, x: Value, k: Value = None) -> Any:
    if k is not None and t.array(k) is None:
        return _sort(t, n, x, k)
    count = n.attr("k") if n.opset < 10 else int(t.number(k, "K"))
    flags = {"largest": bool(n.attr("largest", 1)), "sorted": bool(n.attr("sorted", 1))}
    if count == 0:  # opwright's top_k returns at least one element
        none = t.slice(x, [t.axis(n.attr("axis"), t.rank(x))], [0], [0])
        return none, t.cast(none, "int64")
    values, index = t.op("top_k", x, k=count, axis=n.attr("axis"), **flags, outputs=2)
    return values, t.cast(index, "int64")


def _sort(t: Translator, n: Node, x: Value, k: Value) -> tuple[Value, Value]:
    """Return the first elements of a sorted axis, as many as a run computes."""
    axis = t.axis(n.attr("axis"), t.rank(x))
    (count,) = t.sizes(k)
    found = t.op("sort", x, axis=axis, descending=bool(n.attr("largest", 1)), outputs=2)
    values, index = (t.slice(part, [axis], [0], [count]) for part in found)
    return values, t.cast(index, "int64")


@ROWS.row("Unique")
def unique(t: Translator, n: Node, x: Value) -> Any:
    if not n.attr("sorted"):
        return _unsorted(t.need(x, "X"), n.attr("axis"))
    if n.attr("axis") is not None and t.rank(x) > 1:
        return _sorted(t.need(x, "X"), n.attr("axis"))
    return t.op("unique", t.reshape(x, [-1]) if t.rank(x) != 1 else x, outputs=4)


def _sorted(x: Any, axis: int | None) -> tuple[Any, ...]:
    return tuple(np.unique(x, True, True, True, axis))


def _unsorted(x: Any, axis: int | None) -> tuple[Any, ...]:
    """Return the distinct elements in the order of first occurrence."""
    values, index, inverse, counts = _sorted(x, axis)
    order = np.argsort(index)
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    values = np.take(values, order, axis=0 if axis is None else axis)
    return values, index[order], places[inverse.reshape(-1)], counts[order]


@ROWS.row("LpNormalization")
def lp_normalization(t: Translator, n: Node, x: Value) -> Any:
    axis, p = [n.attr("axis")], n.attr("p")
    if p not in (1, 2):
        raise DeclinedError(f"p must be 1 or 2, got {p}")
    length = t.op("norm", x, axis=axis, keepdims=True, p=float(p))
    is_zero = t.op("equal", length, 0)
    return t.op("divide", x, t.op("where", is_zero, t.scalar(1.0, t.dtype(x)), length))
