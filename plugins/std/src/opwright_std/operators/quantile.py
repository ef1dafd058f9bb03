"""median and quantile: elements of the sorted x, or interpolations between them.

Variants that ignore NaN select elements at positions that depend on the number of non-NaN elements.
"""

from __future__ import annotations

import math

from opwright.errors import GradientError
from opwright.op import (
    BodyContext,
    GradOp,
    InferContext,
    OpMaker,
    by_differentiating,
    grad_op,
    normalize_axes,
)
from opwright_std.compositions.expression import Expression
from opwright_std.compositions.fractions import fraction_dtype, in_fractions
from opwright_std.numerics.dtypes import FLOATS
from opwright_std.operators.reduction import fraction, known_meta, reduction, set_nonempty


def _quantile_shape(ctx: InferContext) -> None:
    """The output lacks the reduced axes (default: all axes); keepdims keeps them with length 1."""
    shape, dtype = ctx.input("x")
    axes = normalize_axes(ctx, ctx.attr("axis"), len(shape), scalar=True)
    set_nonempty(ctx, shape, axes, dtype=fraction_dtype(dtype))


def _shares_shape(ctx: InferContext) -> None:
    """The output of `median`, with a leading axis for several q."""
    _quantile_shape(ctx)
    shares, q = ctx.attr("qs"), ctx.attr("q")
    if bool(shares) == (q is not None):
        got = f"q={q} and qs={list(shares)}" if shares else "neither"
        ctx.fail(f"q or qs must be given, got {got}; pass one number as q, or several as qs")
    if shares:
        (out,) = ctx.outputs[0] or ()
        ctx.set_output("out", (len(shares), *out.shape), out.dtype)


def _length(b: BodyContext, shape: tuple[int, ...], axes: list[int]) -> int:
    lengths = [shape[axis] for axis in axes]
    if -1 in lengths:
        raise GradientError(
            f"{b.type}: the position in the sorted x depends on the lengths of the reduced axes, "
            f"got "
            f"shape {list(shape)}; declare them"
        )
    return math.prod(lengths)


def _line(b: BodyContext, shape: tuple[int, ...], axes: list[int]) -> tuple[str, int]:
    """Emit x with the reduced axes merged into one, and return that axis."""
    x = b.input("x") or ""
    if len(axes) == 1:
        return x, axes[0]
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    turned = b.emit("transpose", {"x": x}, attrs={"axes": [*kept, *axes]})
    lengths = [*([0] * len(kept)), _length(b, shape, axes)]
    return b.emit("reshape", {"x": turned}, attrs={"shape": lengths}), len(kept)


def _element(b: BodyContext, name: str, axis: int, position: int) -> str:
    attrs = {"axes": [axis], "starts": [position], "ends": [position + 1]}
    return b.emit("slice", {"x": name}, attrs=attrs)


def _is_median(b: BodyContext) -> bool:
    return b.type.startswith("median")  # or its gradient


def _between(b: BodyContext, low: str, high: str, weight: float) -> str:
    if _is_median(b):
        # The mean of two equal infinities is the same infinity.
        halves = [b.emit("scale", {"x": name}, attrs={"scale": weight}) for name in (low, high)]
        return b.emit("add", {"x": halves[0], "y": halves[1]})
    meta = b.meta(b.input("x") or "")
    attrs = {"shape": [], "value": weight, "dtype": meta.dtype if meta else ""}
    number = b.emit("fill", {}, attrs=attrs)
    return b.emit("lerp", {"x": low, "y": high, "weight": number})


def _axes(b: BodyContext, shape: tuple[int, ...]) -> list[int]:
    """Return the reduced axes, counted from the front, in order."""
    given = b.attr("axis") if shape else ()
    return sorted(axis % len(shape) for axis in given) or list(range(len(shape)))


def _body(b: BodyContext) -> None:
    _write(b, {"out": b.output("out")})


def _write(b: BodyContext, out: dict[str, str | None] | None = None) -> str:
    shape = known_meta(b).shape
    axes = _axes(b, shape)
    n = _length(b, shape, axes)
    shares = b.attr("qs") if b.type.startswith("quantile") else ()
    if not axes or n == 0:
        found = b.input("x") or ""
        if axes:
            attrs = {"axis": axes, "keepdims": b.attr("keepdims")}
            found = b.emit("sum", {"x": found}, attrs=attrs)
        if shares:
            return b.emit("stack", {"x": [found] * len(shares)}, out, {"axis": 0})
        return b.emit("assign", {"x": found}, out)
    line, axis = _line(b, shape, axes)
    (ordered,) = b.emit_multi("sort", {"x": line}, attrs={"axis": axis})["out"]
    if not shares:
        share = 0.5 if _is_median(b) else b.attr("q")
        return _write_share(b, ordered, axes, axis, n, share, out)
    parts = [_write_share(b, ordered, axes, axis, n, share) for share in shares]
    return b.emit("stack", {"x": parts}, out, {"axis": 0})


def _at_place(b: BodyContext, ordered: str, axis: int, place: float) -> str:
    """Emit the element at a sorted position, interpolated if the position is fractional."""
    low, method = math.floor(place), "linear" if _is_median(b) else b.attr("interpolation")
    if method == "lower" or place == low:
        return _element(b, ordered, axis, low)
    if method == "higher":
        return _element(b, ordered, axis, low + 1)
    if method == "nearest":
        return _element(b, ordered, axis, round(place))
    weight = 0.5 if method == "midpoint" else place - low
    below, above = (_element(b, ordered, axis, position) for position in (low, low + 1))
    return _between(b, below, above, weight)


def _write_share(
    b: BodyContext,
    ordered: str,
    axes: list[int],
    axis: int,
    n: int,
    share: float,
    out: dict[str, str | None] | None = None,
) -> str:
    """Emit one quantile of x sorted along `axis`, into which `axes` of x were merged."""
    found = _at_place(b, ordered, axis, (n - 1) * share)
    # NaN sorts last, and makes the result NaN.
    last = _element(b, ordered, axis, n - 1)
    inputs = {"condition": b.emit("isnan", {"x": last}), "x": last, "y": found}
    found = b.emit("where", inputs)
    if not b.attr("keepdims"):
        return b.emit("squeeze", {"x": found}, out, {"axis": [axis]})
    if len(axes) == 1:
        return b.emit("assign", {"x": found}, out)
    found = b.emit("squeeze", {"x": found}, attrs={"axis": [axis]})
    return b.emit("unsqueeze", {"x": found}, out, {"axis": axes})


def _gradient(op_type: str) -> GradOp:
    """Return a rule that emits the body when the plan is built, since it depends on lengths."""
    return grad_op(f"{op_type}_grad", needs=["x"], body=by_differentiating(_write))


def _ordered(op_type: str, comment: str) -> OpMaker:
    return fraction(op_type, f"{comment} NaN if an element is NaN.")


MEDIAN = _ordered(
    "median",
    "The middle element of the sorted x over axes, or the mean of the two middle ones, as "
    "numpy.median.",
).build(infer_shape=_quantile_shape, gradient=_gradient("median"), body=in_fractions(_body))

QUANTILE = (
    _ordered(
        "quantile",
        "The element at position q * (n - 1) of the n sorted elements of x over axes, as "
        "numpy.quantile. For a position between two elements, linear interpolates, midpoint takes "
        "their mean, lower and higher take one of them, and nearest takes the nearer one, with "
        "ties to the even position.",
    )
    .add_attr("q", float, "the fraction of elements below: 0 for the minimum, 1 for the maximum")
    .between(0.0, 1.0)
    .add_attr("qs", list[float], "several q: out has a leading axis for them")
    .default([])
    .between(0.0, 1.0)
    .as_added()
    .add_attr("interpolation", str, "the rule for positions between two elements")
    .default("linear")
    .one_of("linear", "lower", "higher", "nearest", "midpoint")
    .as_added()
    .build(infer_shape=_shares_shape, gradient=_gradient("quantile"), body=in_fractions(_body))
)


def _nan_body(b: BodyContext) -> None:
    _write_of_numbers(b, {"out": b.output("out")})


def _write_of_numbers(b: BodyContext, out: dict[str, str | None] | None = None) -> str:
    """Emit a quantile of all elements except NaN, which sorts last."""
    shape = known_meta(b).shape
    axes = _axes(b, shape)
    if not axes or _length(b, shape, axes) == 0:
        return _write(b, out)
    line, axis = _line(b, shape, axes)
    (ordered,) = b.emit_multi("sort", {"x": line}, attrs={"axis": axis})["out"]
    x = Expression(b, ordered)
    numbers = x.with_("equal", x).then("sum", axis=[axis], keepdims=True).then("cast", dtype=_WIDE)
    place = (numbers - 1.0).then("clip", min=0.0) * _share(b)
    low, method = place.then("floor"), "linear" if _is_nan_median(b) else b.attr("interpolation")
    if method in ("lower", "higher", "nearest"):
        rounding = {"lower": "floor", "higher": "ceil", "nearest": "round"}[method]
        found = _taken(b, x, place.then(rounding), axis)
    else:
        below, above = (_taken(b, x, place.then(name), axis) for name in ("floor", "ceil"))
        weight = low.filled(0.5) if method == "midpoint" else place - low
        weight = weight.like(x, "cast_like")
        inputs = {"x": below.name, "y": above.name, "weight": weight.name}
        between = Expression(b, b.emit("lerp", inputs))
        # The difference of equal infinities is NaN.
        found = below.with_("equal", above).choose(below, between)
    if b.attr("keepdims") and len(axes) == 1:
        return b.emit("assign", {"x": found.name}, out)
    if not b.attr("keepdims"):
        return b.emit("squeeze", {"x": found.name}, out, {"axis": [axis]})
    return b.emit("unsqueeze", {"x": found.then("squeeze", axis=[axis]).name}, out, {"axis": axes})


_WIDE = "float64"


def _is_nan_median(b: BodyContext) -> bool:
    return b.type.startswith("nanmedian")


def _share(b: BodyContext) -> float:
    return 0.5 if _is_nan_median(b) else float(b.attr("q"))


def _taken(b: BodyContext, x: Expression, place: Expression, axis: int) -> Expression:
    index = place.then("cast", dtype="int64")
    inputs = {"x": x.name, "index": index.name}
    return Expression(b, b.emit("take_along_axis", inputs, attrs={"axis": axis}))


def _of_numbers(op_type: str, comment: str) -> OpMaker:
    return reduction(op_type, f"{comment} NaN if there is no number.", FLOATS)


NANMEDIAN = _of_numbers(
    "nanmedian",
    "The middle element of the sorted numbers of x over axes, or the mean of the two middle ones, "
    "as numpy.nanmedian: NaN is ignored.",
).build(
    infer_shape=_quantile_shape,
    gradient=grad_op("nanmedian_grad", needs=["x"], body=by_differentiating(_write_of_numbers)),
    body=_nan_body,
)

NANQUANTILE = (
    _of_numbers(
        "nanquantile",
        "The element at position q * (n - 1) of the n sorted numbers of x over axes, as "
        "numpy.nanquantile: NaN is ignored.",
    )
    .add_attr("q", float, "the fraction of numbers below: 0 for the minimum, 1 for the maximum")
    .required()
    .between(0.0, 1.0)
    .add_attr("interpolation", str, "the rule for positions between two elements")
    .default("linear")
    .one_of("linear", "lower", "higher", "nearest", "midpoint")
    .build(
        infer_shape=_quantile_shape,
        gradient=grad_op(
            "nanquantile_grad", needs=["x"], body=by_differentiating(_write_of_numbers)
        ),
        body=_nan_body,
    )
)
