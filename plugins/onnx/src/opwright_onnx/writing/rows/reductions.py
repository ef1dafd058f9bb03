"""Rows of operators that reduce axes, or that sort or search for elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from opwright_onnx.errors import DeclinedError
from opwright_onnx.translate.table import Rows
from opwright_onnx.translate.values import FLOATS
from opwright_onnx.writing.writer import Op, Writer

ROWS = Rows()

_NAMES = {
    "sum": "ReduceSum",
    "prod": "ReduceProd",
    "mean": "ReduceMean",
    "max": "ReduceMax",
    "min": "ReduceMin",
    "logsumexp": "ReduceLogSumExp",
}
_NARROW = ("int16", "uint16", "bool")
"""Dtypes that opwright reductions support and ONNX reductions do not."""


def reduce(w: Writer, op: Op, name: str, x: str) -> str:
    """Reduce along the axes of an operator, or along all axes if none are given."""
    axes = w.known(op, "axis")
    keeps = int(op.attrs["keepdims"])
    return str(w.node(name, x, w.ints(axes) if axes else "", keepdims=keeps))


@ROWS.row(*_NAMES)
def plain(w: Writer, op: Op) -> Any:
    x, dtype = w.input(op, "x"), w.dtype(op, "out")
    if op.type in ("sum", "prod", "mean"):
        x = w.cast(x, dtype)
    elif w.dtype(op) in _NARROW:
        x = w.cast(x, "int32")
    return reduce(w, op, _NAMES[op.type], x)


@ROWS.row("variance")
def variance(w: Writer, op: Op) -> Any:
    x = w.cast(w.input(op, "x"), w.dtype(op, "out"))
    axes, shape = w.known(op, "axis"), w.shape(op)
    places = w.ints(axes) if axes else ""
    centered = w.node("Sub", x, w.node("ReduceMean", x, places, keepdims=1))
    found = reduce(w, op, "ReduceMean", w.node("Mul", centered, centered))
    if not op.attrs["correction"]:
        return found
    sizes = [shape[axis] for axis in axes or range(len(shape))]
    count = math.prod(sizes)
    if min(sizes, default=1) < 0 or count <= op.attrs["correction"]:
        raise DeclinedError("the number of elements must be known, and greater than the correction")
    return w.node("Mul", found, w.number(count / (count - op.attrs["correction"]), found))


@ROWS.row("any", "all")
def logical(w: Writer, op: Op) -> Any:
    x = w.cast(w.input(op, "x"), "bool")
    counted = w.cast(w.node("Not", x) if op.type == "all" else x, "int64")
    found = w.node("Greater", reduce(w, op, "ReduceSum", counted), w.const(0, "int64"))
    return w.node("Not", found) if op.type == "all" else found


@ROWS.row("norm")
def norm(w: Writer, op: Op) -> Any:
    x, p = w.cast(w.input(op, "x"), w.dtype(op, "out")), op.attrs["p"]
    if p in (1, 2):
        return reduce(w, op, f"ReduceL{int(p)}", x)
    size = w.node("Abs", x)
    if abs(p) == math.inf:
        return reduce(w, op, "ReduceMax" if p > 0 else "ReduceMin", size)
    if p == 0:
        raise DeclinedError("p must not be 0")
    total = reduce(w, op, "ReduceSum", w.node("Pow", size, w.number(p, size)))
    return w.node("Pow", total, w.number(1 / p, size))


@ROWS.row("argmax", "argmin")
def arg(w: Writer, op: Op) -> Any:
    x = w.input(op, "x")
    x = w.cast(x, "int32") if w.dtype(op) in _NARROW else x
    name = "ArgMax" if op.type == "argmax" else "ArgMin"
    return w.node(name, x, axis=op.attrs["axis"], keepdims=int(op.attrs["keepdims"]))


@ROWS.row("top_k")
def top_k(w: Writer, op: Op) -> Any:
    flags: dict[str, Any] = {name: int(op.attrs[name]) for name in ("largest", "sorted")}
    count = w.ints([op.attrs["k"]])
    return w.node("TopK", w.input(op, "x"), count, outputs=2, axis=op.attrs["axis"], **flags)


@ROWS.row("sort", "argsort")
def sort(w: Writer, op: Op) -> Any:
    axis = op.attrs["axis"] % max(len(w.shape(op)), 1)
    x = w.input(op, "x")
    count = w.node("Shape", x, start=axis, end=axis + 1)
    values, index = w.node(
        "TopK", x, count, outputs=2, axis=axis, largest=int(op.attrs["descending"]), sorted=1
    )
    return (values, index) if op.type == "sort" else index


@ROWS.row("unique")
def unique(w: Writer, op: Op) -> Any:
    x, axis = w.input(op, "x"), op.attrs.get("axis")
    out, index, inverse, counts = w.node("Unique", x, outputs=4, axis=axis, sorted=1)
    if axis is None and w.wants(op, "inverse"):
        inverse = w.node("Reshape", inverse, w.node("Shape", x), allowzero=1)
    return out, index, inverse, counts


@ROWS.row("searchsorted")
def searchsorted(w: Writer, op: Op) -> Any:
    if op.attrs["rows"]:
        raise DeclinedError("rows must be false")
    places = w.node("Unsqueeze", w.input(op, "values"), w.ints([-1]))
    name = "Less" if op.attrs["side"] == "left" else "LessOrEqual"
    is_before = w.node(name, w.input(op, "x"), places)
    count = w.cast(is_before, "int64")
    return w.node("ReduceSum", count, w.ints([-1]), keepdims=0)


@ROWS.row("eye")
def eye(w: Writer, op: Op) -> Any:
    rows = w.known_number(op, "n_rows")
    columns = op.attrs.get("n_cols")
    if rows * (columns or rows) > 2**20:
        raise DeclinedError("the matrix must have at most 2**20 elements")
    return w.const(np.eye(rows, columns, op.attrs["k"]), op.attrs["dtype"])


@ROWS.row("einsum")
def einsum(w: Writer, op: Op) -> Any:
    return w.node("Einsum", *w.inputs(op, "x"), equation=op.attrs["equation"])


@ROWS.row("matmul")
def matmul(w: Writer, op: Op) -> Any:
    turned = [op.attrs[f"transpose_{slot}"] for slot in ("x", "y")]
    if not any(turned):
        return w.node("MatMul", w.input(op, "x"), w.input(op, "y"))
    ranks = [len(w.shape(op, slot)) for slot in ("x", "y")]
    sides = []
    for slot, rank, is_turned in zip(("x", "y"), ranks, turned):
        name = w.input(op, slot)
        if is_turned and rank > 1:
            name = w.node("Transpose", name, perm=[*range(rank - 2), rank - 1, rank - 2])
        # ONNX Runtime merges a Transpose into the product, and treats a vector as a matrix there.
        if rank == 1:
            name = w.node("Unsqueeze", name, w.ints([0 if slot == "x" else -1]))
        sides.append(name)
    found = w.node("MatMul", *sides)
    extra = [axis for axis, rank in zip((-2, -1), ranks) if rank == 1]
    return w.node("Squeeze", found, w.ints(extra)) if extra else found


@ROWS.row("gemm")
def gemm(w: Writer, op: Op) -> Any:
    names = [w.input(op, slot) for slot in ("a", "b", "c")]
    if w.dtype(op, "a") not in FLOATS:
        raise DeclinedError("the factors must be floats")
    flags: dict[str, Any] = {
        "transA": int(op.attrs["transpose_a"]),
        "transB": int(op.attrs["transpose_b"]),
    }
    factors: dict[str, Any] = {"alpha": float(op.attrs["alpha"]), "beta": float(op.attrs["beta"])}
    return w.node("Gemm", *names, **flags, **factors)
