"""Reductions, cumulative sums, and sorting."""

from __future__ import annotations

import math
from typing import Any, Final

from opwright_torch.aten.shapes import axis_of, rank, with_shape
from opwright_torch.translate import Decline, Row, Rows, Translator
from opwright_torch.translate.sizes import Size
from opwright_torch.translate.translator import FLOATS, Value

ROWS: Final = Rows()


def axes_of(input: Value, dim: Value) -> list[int]:
    """Return non-negative axes; None and an empty list mean all axes, returned as []."""
    if dim is None or isinstance(dim, (tuple, list)):
        return [axis_of(input, axis) for axis in dim or ()] if rank(input) else []
    return [axis_of(input, dim)] if rank(input) else []


def _reduction(type: str, *, in_result: bool = True) -> Row:
    def row(
        t: Translator, input: Value, dim: Value = None, keepdim: bool = False, dtype: Value = None
    ) -> Value:
        x = t.cast(input, t.dtype()) if in_result and t.dtype() in FLOATS else input
        reduced = t.op(type, x, axis=axes_of(input, dim), keepdims=keepdim)
        return t.cast(reduced, t.dtype())

    row.__doc__ = f"Append the operator {type} over axes."
    return row


for _type in ("sum", "mean", "prod", "logsumexp"):
    ROWS.row(f"aten::{_type}")(_reduction(_type))
ROWS["aten::special_logsumexp"] = ROWS["aten::logsumexp"]
for _type in ("any", "all", "count_nonzero"):
    ROWS.row(f"aten::{_type}")(_reduction(_type, in_result=False))
for _type in ("max", "min"):
    ROWS.row(f"aten::a{_type}", f"aten::{_type}")(_reduction(_type))


def _best(kind: str) -> Row:
    def row(t: Translator, input: Value, dim: int, keepdim: bool = False) -> Value:
        if rank(input) == 0:
            return input, t.full(0, (), "int64")
        axis = axis_of(input, dim)
        places = t.op(f"arg{kind}", input, axis=axis, keepdims=True)
        if not t.trains(input):
            best = t.op(kind, input, axis=[axis], keepdims=keepdim)
            return best, places if keepdim else t.op("squeeze", places, axis=[axis])
        # The first of several equal elements receives the whole gradient.
        best = t.op("take_along_axis", input, places, axis=axis)
        if keepdim:
            return best, places
        return t.op("squeeze", best, axis=[axis]), t.op("squeeze", places, axis=[axis])

    row.__doc__ = f"Return the {kind} along an axis, and its first index."
    return row


ROWS["aten::max.dim"], ROWS["aten::min.dim"] = _best("max"), _best("min")


@ROWS.row("aten::argmax", "aten::argmin")
def position(t: Translator, input: Value, dim: Value = None, keepdim: bool = False) -> Value:
    """Return the index of the first maximum or minimum."""
    kind = t.node.target.name()[6:12]
    if dim is not None:
        return t.op(kind, input, axis=axis_of(input, dim), keepdims=keepdim)
    flat = with_shape(t, input, [math.prod(t.shape(input))])
    return with_shape(t, t.op(kind, flat, axis=0), t.shape())


@ROWS.row("aten::aminmax")
def aminmax(t: Translator, input: Value, dim: Value = None, keepdim: bool = False) -> Value:
    """Return the minimum and maximum."""
    axes = axes_of(input, dim)
    return tuple(t.op(kind, input, axis=axes, keepdims=keepdim) for kind in ("min", "max"))


def _deviation(type: str) -> Row:
    def row(
        t: Translator,
        input: Value,
        dim: Value = None,
        unbiased: Value = True,
        keepdim: bool = False,
        correction: Value = None,
    ) -> Value:
        axes = axes_of(input, dim)
        attrs: dict[str, Any] = {"axis": axes, "keepdims": keepdim}
        if correction is None:
            correction = 1 if unbiased else 0
        count = math.prod(t.shape(input)[axis] for axis in axes or range(rank(input)))
        is_known = not isinstance(count, Size)  # unknown lengths are at least 2
        if is_known and count <= correction and type == "std" and t.trains(input):
            raise Decline(
                f"the gradient of std is NaN, got correction={correction} for {count} elements"
            )
        spread = t.op(type, input, correction=float(correction), **attrs)
        if isinstance(t.meta(), (tuple, list)):
            return spread, t.op("mean", input, **attrs)
        return spread

    row.__doc__ = f"Return the {type} over axes, and the mean if requested."
    return row


ROWS.row("aten::var", "aten::var_mean")(_deviation("variance"))
ROWS.row("aten::std", "aten::std_mean")(_deviation("std"))


@ROWS.row("aten::norm", "aten::linalg_vector_norm")
def norm(
    t: Translator,
    input: Value,
    p: Value = 2,
    dim: Value = None,
    keepdim: bool = False,
    dtype: Value = None,
    ord: Value = None,
) -> Value:
    """Return the `p`-norm over axes."""
    power = ord if ord is not None else 2 if p is None else p
    x = t.cast(input, t.dtype())
    return t.op("norm", x, p=float(power), axis=axes_of(input, dim), keepdims=keepdim)


def _running(type: str) -> Row:
    def row(t: Translator, input: Value, dim: int, dtype: Value = None) -> Value:
        x = t.cast(input, "int64" if input.dtype == "bool" else t.dtype())
        return t.cast(t.op(type, x, axis=axis_of(input, dim)), t.dtype())

    row.__doc__ = f"Append the operator {type}."
    return row


ROWS["aten::cumsum"], ROWS["aten::cumprod"] = _running("cumsum"), _running("cumprod")
ROWS["aten::logcumsumexp"] = _running("logcumsumexp")


@ROWS.row("aten::cummax", "aten::cummin")
def running_extremum(t: Translator, input: Value, dim: int) -> Value:
    """Return cumulative maxima or minima along an axis, and the index where each last occurs."""
    x = t.cast(input, "uint8") if input.dtype == "bool" else input
    type = t.node.target.name()[6:12]
    best, places = t.op(type, x, axis=axis_of(input, dim), n=2)
    return t.cast(best, input.dtype), places


@ROWS.row("aten::topk")
def topk(
    t: Translator, input: Value, k: Value, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Value:
    """Return the `k` largest or smallest elements along an axis, and their indices."""
    axis = axis_of(input, dim)
    if isinstance(k, Size):
        parts = t.op("sort", input, axis=axis, descending=largest, n=2)
        return tuple(t.op("slice", part, axes=[axis], starts=[0], ends=[k]) for part in parts)
    return t.op("top_k", input, k=k, axis=axis, largest=largest, sorted=sorted, n=2)


@ROWS.row("aten::sort")
def sort(
    t: Translator, input: Value, dim: int = -1, descending: bool = False, stable: Value = None
) -> Value:
    """Return the sorted elements, and their indices."""
    x = t.cast(input, "uint8") if input.dtype == "bool" else input
    ordered, places = t.op("sort", x, axis=axis_of(input, dim), descending=descending, n=2)
    return t.cast(ordered, input.dtype), places


@ROWS.row("aten::argsort")
def argsort(
    t: Translator, input: Value, dim: int = -1, descending: bool = False, stable: Value = None
) -> Value:
    """Return the indices that sort the elements."""
    return sort(t, input, dim, descending)[1]


@ROWS.row("aten::msort")
def msort(t: Translator, input: Value) -> Value:
    """Return the elements sorted along axis 0."""
    return t.op("sort", input, axis=0)


@ROWS.row("aten::kthvalue")
def kthvalue(t: Translator, input: Value, k: int, dim: int = -1, keepdim: bool = False) -> Value:
    """Return the `k`-th smallest element along an axis, and its index."""
    axis = axis_of(input, dim)
    return _ranked(t, input, axis, k - 1, keepdim)


def _ranked(t: Translator, x: Value, axis: int, place: int, keepdim: bool) -> Value:
    if rank(x) == 0:
        return x, t.full(0, (), "int64")
    parts = t.op("sort", x, axis=axis, n=2)
    box: dict[str, Any] = {"axes": [axis], "starts": [place], "ends": [place + 1]}
    cut = [t.op("slice", part, **box) for part in parts]
    return tuple(part if keepdim else t.op("squeeze", part, axis=[axis]) for part in cut)


@ROWS.row("aten::dist")
def dist(t: Translator, input: Value, other: Value, p: Value = 2) -> Value:
    """Return the `p`-norm of a difference."""
    return t.op("norm", t.op("subtract", *t.promote(input, other)), p=float(p))


@ROWS.row("aten::nansum")
def nansum(
    t: Translator, input: Value, dim: Value = None, keepdim: bool = False, dtype: Value = None
) -> Value:
    """Return the sum of all elements that are not NaN."""
    x = t.cast(input, t.dtype())
    return t.cast(t.op("nansum", x, axis=axes_of(input, dim), keepdims=keepdim), t.dtype())


@ROWS.row("aten::trace")
def trace(t: Translator, input: Value) -> Value:
    """Return the sum of the diagonal."""
    return t.op("trace", t.cast(input, t.dtype()))


@ROWS.row("aten::median", "aten::nanmedian")
def median(t: Translator, input: Value, dim: Value = None, keepdim: bool = False) -> Value:
    """Return the lower median, and its index."""
    if dim is None:
        if t.trains(input):
            raise Decline("equal elements would have to share the gradient of their median")
        flat = with_shape(t, input, [math.prod(t.shape(input))])
        return _median(t, flat, 0, False)[0]
    return _median(t, input, axis_of(input, dim), keepdim)


def _median(t: Translator, x: Value, axis: int, keepdim: bool) -> Value:
    if rank(x) == 0:
        return x, t.full(0, (), "int64")
    order = t.op("argsort", x, axis=axis)
    ignores_nan = t.node.target.name().startswith("aten::nanmedian")
    if ignores_nan:  # NaN sorts last
        numbers = t.op("sum", t.op("equal", x, x), axis=[axis], keepdims=True)
        middle = t.op("floor_divide", t.op("maximum", t.op("subtract", numbers, 1), 0), 2)
        place = t.op("take_along_axis", order, middle, axis=axis)
    else:
        middle = (t.shape(x)[axis] - 1) // 2
        place = t.op("slice", order, axes=[axis], starts=[middle], ends=[middle + 1])
    if x.dtype in FLOATS and not ignores_nan:
        lost = t.op("isnan", x)
        first = t.op("argmax", t.cast(lost, "uint8"), axis=axis, keepdims=True)
        place = t.op("where", t.op("any", lost, axis=[axis], keepdims=True), first, place)
    parts = (t.op("take_along_axis", x, place, axis=axis), place)
    return parts if keepdim else tuple(t.op("squeeze", part, axis=[axis]) for part in parts)


@ROWS.row("aten::histc")
def histc(t: Translator, input: Value, bins: int, min: float, max: float) -> Value:
    """Return the number of elements in each bin, in the dtype of the elements."""
    if min >= max:
        raise Decline(f"the edges of bins depend on values, got min={min} and max={max}")
    return t.cast(t.op("histogram", input, bins=bins, min=min, max=max), t.dtype())
