"""scatter_reduce: reduce updates at indices along one axis."""

from __future__ import annotations

import numpy as np

from opwright.op import BodyContext, OpMaker
from opwright_std.numerics.dtypes import FLOATS, HALVES, INDICES, ORDERED
from opwright_std.operators.reduction import known_meta
from opwright_std.operators.scatter import scatter_shape


def _start_of(reduction: str, dtype: str) -> float:
    """Return the neutral element of a reduction."""
    if reduction in ("add", "mean"):
        return 0
    if reduction == "mul":
        return 1
    if dtype in FLOATS:
        return -np.inf if reduction == "max" else np.inf
    info = np.iinfo(dtype)
    return int(info.min if reduction == "max" else info.max)


def _filled(b: BodyContext, like: str, value: float, dtype: str = "") -> str:
    filled = b.emit("fill_like", {"x": like}, attrs={"value": value})
    return b.emit("cast", {"x": filled}, attrs={"dtype": dtype}) if dtype else filled


_OF_BOOL = {"add": "max", "mul": "min", "max": "max", "min": "min", "mean": "min"}
"""Reductions of bool as extrema: a sum is a logical or; a product and a mean are a logical and."""


def _reduce_bool(b: BodyContext) -> None:
    inputs = {"index": b.input("index")}
    for slot in ("x", "updates"):
        inputs[slot] = b.emit("cast", {"x": b.input(slot)}, attrs={"dtype": "uint8"})
    attrs = {**b.attrs, "reduction": _OF_BOOL[b.attr("reduction")]}
    out = b.emit(b.type, inputs, attrs=attrs)
    b.emit("cast", {"x": out}, {"out": b.output("out")}, {"dtype": "bool"})


def _body(b: BodyContext) -> None:
    if known_meta(b).dtype == "bool":
        _reduce_bool(b)
        return
    reduction, dtype = b.attr("reduction"), known_meta(b).dtype
    x, index, updates = (b.input(slot) or "" for slot in ("x", "index", "updates"))
    attrs = {"axis": b.attr("axis")}
    if not b.attr("include_self"):
        start = _filled(b, updates, _start_of(reduction, dtype))
        x = b.emit("scatter", {"x": x, "index": index, "updates": start}, attrs=attrs)
    attrs["reduction"] = "add" if reduction == "mean" else reduction
    inputs, out = {"x": x, "index": index, "updates": updates}, {"out": b.output("out")}
    if reduction != "mean":
        b.emit("scatter", inputs, out, attrs)
        return
    total = b.emit("scatter", inputs, attrs=attrs)
    # Counts in a narrow dtype would not be exact.
    wide = "float32" if dtype in HALVES else dtype if dtype in FLOATS else "int64"
    counts = {
        "x": _filled(b, x, float(b.attr("include_self")), wide),
        "index": index,
        "updates": _filled(b, updates, 1, wide),
    }
    number = b.emit("scatter", counts, attrs=attrs)
    number = b.emit("maximum", {"x": number, "y": _filled(b, x, 1, wide)})
    total = b.emit("cast", {"x": total}, attrs={"dtype": wide})
    quotient = "divide" if dtype in FLOATS else "floor_divide"
    mean = b.emit(quotient, {"x": total, "y": number})
    b.emit("cast", {"x": mean}, out, {"dtype": dtype})


SCATTER_REDUCE = (
    OpMaker("scatter_reduce")
    .add_comment(
        "A copy of x with updates reduced at indices along one axis: updates with the same index, "
        "and the element of x with include_self, are combined by sum (add), product (mul), "
        "maximum, minimum, or mean, rounded down for integers; for bool a sum is or, a product is "
        "and. Elements without updates keep x. Equal extrema share the gradient; without "
        "include_self an infinite extremum shares it with the initial value. As "
        "torch.scatter_reduce; scatter is the same without mean "
        "and include_self=False."
    )
    .add_input("x", "at least 1-d, any number or bool")
    .dtypes(*ORDERED)
    .add_input("index", "int32 or int64 in [-n, n); axes as x, not longer except along axis")
    .dtypes(*INDICES)
    .add_input("updates", "shape of index, dtype of x")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .add_attr("axis", int, "the axis of the indices")
    .default(0)
    .add_attr("reduction", str, "reduction of the elements at an index")
    .default("add")
    .one_of("add", "mul", "max", "min", "mean")
    .add_attr("include_self", bool, "whether to include the element of x")
    .default(True)
    .build(infer_shape=scatter_shape, body=_body)
)
