"""Composed reductions: logsumexp, norm, variance, std and count_nonzero."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from opwright.op import (
    BodyContext,
    GradientContext,
    InferContext,
    OpMaker,
    no_gradient,
)
from opwright_std.compositions.fractions import in_fractions
from opwright_std.numerics.dtypes import HALVES, ORDERED
from opwright_std.operators.reduction import (
    add_axes,
    fraction,
    fraction_of_axes,
    known_meta,
    reduced_axes,
)

Writer = BodyContext | GradientContext

LARGEST: Mapping[str, float] = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float64": 1.7976931348623157e308,
}

SMALLEST: Mapping[str, float] = {
    "float16": 2.0**-14,
    "bfloat16": 2.0**-126,
    "float32": 2.0**-126,
    "float64": 2.0**-1022,
}

_SHARED = {"min": 1e-30, "max": LARGEST["float32"]}
"""Sums of weights: about 1, less accurate with coarse rounding, and 0 if all of x is -inf."""


def _axes(w: Writer, **changes: Any) -> dict[str, Any]:
    return {"axis": w.attr("axis"), "keepdims": w.attr("keepdims"), **changes}


def _lengths(w: Writer) -> list[int]:
    """Return the lengths of the reduced axes, -1 if unknown."""
    shape = known_meta(w).shape
    axes = w.attr("axis") if shape else ()
    return [shape[axis] for axis in axes or range(len(shape))]


def _spread(g: GradientContext, name: str | None, like: str | None = None) -> str:
    """Broadcast a reduced variable to the shape of x; `like` is x in the dtype of `name`."""
    inputs = {"x": like or g.input("x"), "out_grad": name}
    return g.emit("sum_grad", inputs, {"x_grad": 1}, _axes(g))


def _is_half(w: Writer) -> bool:
    return known_meta(w).dtype in HALVES


def _wide(w: Writer, name: str | None) -> str:
    """Cast a 16-bit variable to float32; return other variables unchanged."""
    if not _is_half(w):
        return name or ""
    return w.emit("cast", {"x": name}, attrs={"dtype": "float32"})


def _compute_wide(b: BodyContext, op_type: str, attrs: dict[str, Any]) -> None:
    """Emit the operator in float32, with its result rounded once.

    The square of 256 is infinite in float16, and each operator of the body would round its result.
    """
    out = b.emit(op_type, {"x": _wide(b, b.input("x"))}, attrs=attrs)
    b.emit("cast", {"x": out}, {"out": b.output("out")}, {"dtype": known_meta(b).dtype})


def _set_x_grad(g: GradientContext, name: str) -> None:
    """Set the gradient of x, in its dtype."""
    if _is_half(g):
        name = g.emit("cast_like", {"x": name, "like": g.input("x")})
    g.set_input_grad("x", name)


def _bounded(w: Writer, name: str, dtype: str) -> str:
    """Clamp to finite numbers, since the difference of infinities is NaN."""
    bound = LARGEST[dtype]
    return w.emit("clip", {"x": name}, attrs={"min": -bound, "max": bound})


def _logsumexp_body(b: BodyContext) -> None:
    if _is_half(b):
        _compute_wide(b, "logsumexp", _axes(b))
        return
    x = b.input("x")
    if 0 in _lengths(b):
        total = b.emit("sum", {"x": x}, attrs=_axes(b))
        b.emit("log", {"x": total}, {"out": b.output("out")})
        return
    top = b.emit("max", {"x": x}, attrs=_axes(b, keepdims=True))
    top = _bounded(b, top, known_meta(b).dtype)
    powers = b.emit("exp", {"x": b.emit("subtract", {"x": x, "y": top})})
    logarithm = b.emit("log", {"x": b.emit("sum", {"x": powers}, attrs=_axes(b))})
    top = b.emit("reshape_like", {"x": top, "like": logarithm})
    b.emit("add", {"x": logarithm, "y": top}, {"out": b.output("out")})


def _logsumexp_gradient(g: GradientContext) -> None:
    """Distribute the gradient as softmax does, by exp(x - out) divided by its sum.

    The rounding of out would become a relative error of exp, so for 16-bit floats out is recomputed
    in float32. If out is inf, elements that are inf have weight NaN, other elements weight 0.
    """
    x = g.input("x")
    wide, out = _wide(g, x), g.output("out") or ""
    if _is_half(g):
        out = g.emit("logsumexp", {"x": wide}, attrs=_axes(g))
    least = {"min": -LARGEST[_computed_dtype(g)]}  # if all are -inf, no weight is NaN
    spread = _spread(g, g.emit("clip", {"x": out}, attrs=least), like=wide)
    powers = g.emit("exp", {"x": g.emit("subtract", {"x": wide, "y": spread})})
    total = g.emit("sum", {"x": powers}, attrs=_axes(g, keepdims=True))
    one = g.emit("fill_like", {"x": total}, attrs={"value": 1.0})
    inputs = {"condition": g.emit("isnan", {"x": total}), "x": one, "y": total}
    total = g.emit("clip", {"x": g.emit("where", inputs)}, attrs=_SHARED)
    share = g.emit("divide", {"x": powers, "y": total})
    if _is_half(g):
        share = g.emit("cast_like", {"x": share, "like": x})
    grad = _spread(g, g.output_grad("out"))
    g.set_input_grad("x", g.emit("multiply", {"x": share, "y": grad}))


LOGSUMEXP = fraction(
    "logsumexp",
    "out = log(sum(exp(x))) over axes, computed from differences to the largest element, without "
    "overflow; -inf for no elements.",
).build(
    infer_shape=fraction_of_axes, gradient=_logsumexp_gradient, body=in_fractions(_logsumexp_body)
)


def _number(w: Writer, value: float) -> str:
    attrs = {"shape": [], "value": value, "dtype": known_meta(w).dtype}
    return w.emit("fill", {}, attrs=attrs)


def _power(w: Writer, x: str, exponent: float) -> str:
    if exponent == 1:
        return x
    return w.emit("power", {"x": x, "y": _number(w, exponent)})


def _norm_body(b: BodyContext) -> None:
    p, out = b.attr("p"), {"out": b.output("out")}
    if _is_half(b) and p not in (0, 1, math.inf, -math.inf):
        _compute_wide(b, "norm", _axes(b, p=p))
        return
    sizes = b.emit("abs", {"x": b.input("x")})
    if math.isinf(p):
        b.emit("max" if p > 0 else "min", {"x": sizes}, out, _axes(b))
    elif p == 1:
        b.emit("sum", {"x": sizes}, out, _axes(b))
    elif p == 0:
        other = b.emit("not_equal", {"x": sizes, "y": _number(b, 0.0)})
        b.emit("sum", {"x": b.emit("cast_like", {"x": other, "like": sizes})}, out, _axes(b))
    elif 0 in _lengths(b):
        total = b.emit("sum", {"x": sizes}, attrs=_axes(b))
        b.emit("power", {"x": total, "y": _number(b, 1 / p)}, out)
    else:
        _norm_of_shares(b, sizes, p)


def _norm_of_shares(b: BodyContext, sizes: str, p: float) -> None:
    """Emit the norm of magnitudes relative to the dominant magnitude, without overflow."""
    dtype = known_meta(b).dtype
    most = b.emit("max" if p > 0 else "min", {"x": sizes}, attrs=_axes(b, keepdims=True))
    most = b.emit("clip", {"x": most}, attrs={"min": SMALLEST[dtype], "max": LARGEST[dtype]})
    shares = b.emit("divide", {"x": sizes, "y": most})
    if p == 2:
        total = b.emit("sum", {"x": b.emit("square", {"x": shares})}, attrs=_axes(b))
        root = b.emit("sqrt", {"x": total})
    else:
        total = b.emit("sum", {"x": _power(b, shares, p)}, attrs=_axes(b))
        root = b.emit("power", {"x": total, "y": _number(b, 1 / p)})
    most = b.emit("reshape_like", {"x": most, "like": root})
    b.emit("multiply", {"x": root, "y": most}, {"out": b.output("out")})


def _norm_gradient(g: GradientContext) -> None:
    x, out, grad, p = g.input("x"), g.output("out"), g.output_grad("out"), g.attr("p")
    if p == 0:
        g.set_input_grad("x", g.emit("fill_like", {"x": x}, attrs={"value": 0.0}))
        return
    signs = g.emit("sign", {"x": x})
    sizes = g.emit("abs", {"x": x})
    if math.isinf(p):
        inputs = {"x": sizes, "out": out, "out_grad": grad}
        name = g.emit("max_grad", inputs, {"x_grad": 1}, _axes(g))
        g.set_input_grad("x", g.emit("multiply", {"x": name, "y": signs}))
        return
    derivative = signs
    if p != 1:
        # The power of a ratio neither overflows nor underflows, unlike the power of x.
        if p == 2:  # x / out has a derivative where x is 0, unlike other powers of abs(x)
            derivative = _where_zero(g, _spread(g, out), _divided_by(g, x, out))
        else:
            derivative = _norm_derivative(g, sizes, out, p)
            derivative = g.emit("multiply", {"x": derivative, "y": signs})
    g.set_input_grad("x", g.emit("multiply", {"x": derivative, "y": _spread(g, grad)}))


def _norm_derivative(g: GradientContext, sizes: str, out: str | None, p: float) -> str:
    """Emit (sizes / out) ** (p - 1), and 0 where sizes are 0.

    Shares of 0 are replaced before the power, whose derivative at 0 may be infinite.
    """
    if p > 0:
        share = _divided_by(g, sizes, out)
    else:  # a single 0 makes the norm 0, and the other shares infinite
        share = g.emit("divide", {"x": sizes, "y": _spread(g, out)})
    zeros, ones = (g.emit("fill_like", {"x": sizes}, attrs={"value": v}) for v in (0.0, 1.0))
    is_zero = g.emit("equal", {"x": sizes, "y": zeros})
    share = g.emit("where", {"condition": is_zero, "x": ones, "y": share})
    return _where_zero(g, sizes, _power(g, share, p - 1))


def _divided_by(g: GradientContext, x: str | None, out: str | None) -> str:
    """Emit x / out, with out broadcast, and x where out is 0.

    The derivatives of x / 0 are NaN, even multiplied by the 0 of `_where_zero`.
    """
    zeros, ones = (g.emit("fill_like", {"x": out}, attrs={"value": value}) for value in (0.0, 1.0))
    is_zero = g.emit("equal", {"x": out, "y": zeros})
    divisor = g.emit("where", {"condition": is_zero, "x": ones, "y": out})
    return g.emit("divide", {"x": x, "y": _spread(g, divisor, like=x)})


def _where_zero(g: GradientContext, x: str, derivative: str) -> str:
    """Emit the derivative, with 0 where x is 0, since the norm may have a kink there."""
    zeros = g.emit("fill_like", {"x": x}, attrs={"value": 0.0})
    is_zero = g.emit("equal", {"x": x, "y": zeros})
    return g.emit("where", {"condition": is_zero, "x": zeros, "y": derivative})


def _norm_shape(ctx: InferContext) -> None:
    """The output lacks the reduced axes (default: all axes); keepdims keeps them with length 1."""
    ctx.require(not math.isnan(ctx.attr("p")), "p must be a number or an infinity, got NaN")
    fraction_of_axes(ctx)
    shape = ctx.input("x").shape
    axes = ctx.attr("axis") if shape else ()
    axes = axes or range(len(shape))
    if math.isinf(ctx.attr("p")) and any(shape[axis] == 0 for axis in axes):
        ctx.fail(f"an axis to reduce must have elements for an infinite p, got {list(shape)}")


NORM = (
    fraction(
        "norm",
        "out = sum(abs(x) ** p) ** (1 / p) over axes, as numpy.linalg.norm of a vector: for p = "
        "inf and -inf the maximum and minimum of abs(x), for p = 0 the number of nonzero "
        "elements. The gradient at a kink is 0.",
    )
    .add_attr("p", float, "the exponent")
    .default(2.0)
    .build(infer_shape=_norm_shape, gradient=_norm_gradient, body=in_fractions(_norm_body))
)


def _divided(w: Writer, x: str, name: str, like: str | None, correction: float) -> str:
    """Emit name / max(n - correction, 0) for n reduced elements of x."""
    return w.emit("divide", {"x": name, "y": _count(w, x, correction)}, {"out": like or 1})


def _count(w: Writer, x: str, correction: float) -> str:
    """Emit max(n - correction, 0) for n reduced elements of x."""
    lengths = _lengths(w)
    if -1 not in lengths:
        value = max(math.prod(lengths) - correction, 0.0)
        attrs = {"shape": [], "value": value, "dtype": _computed_dtype(w)}
        return w.emit("fill", {}, attrs=attrs)
    ones = w.emit("fill_like", {"x": x}, attrs={"value": 1.0})
    count = w.emit("sum", {"x": ones}, attrs=_axes(w))
    count = w.emit("scale", {"x": count}, attrs={"bias": -correction})
    return w.emit("clip", {"x": count}, attrs={"min": 0.0})


def _computed_dtype(w: Writer) -> str:
    return "float32" if _is_half(w) else known_meta(w).dtype


def _centered(w: Writer, x: str) -> str:
    mean = w.emit("mean", {"x": x}, attrs=_axes(w, keepdims=True))
    return w.emit("subtract", {"x": x, "y": mean})


def _variance_body(b: BodyContext) -> None:
    if _is_half(b):
        _compute_wide(b, "variance", _axes(b, correction=b.attr("correction")))
        return
    x = b.input("x") or ""
    squares = b.emit("square", {"x": _centered(b, x)})
    total = b.emit("sum", {"x": squares}, attrs=_axes(b))
    _divided(b, x, total, b.output("out"), b.attr("correction"))


def _variance_gradient(g: GradientContext) -> None:
    x, grad = _wide(g, g.input("x")), _wide(g, g.output_grad("out"))
    twice = g.emit("scale", {"x": grad}, attrs={"scale": 2.0})
    share = _spread(g, _divided(g, x, twice, None, g.attr("correction")), like=x)
    _set_x_grad(g, g.emit("multiply", {"x": _centered(g, x), "y": share}))


VARIANCE = (
    fraction(
        "variance",
        "out = sum((x - mean(x)) ** 2) / max(n - correction, 0) over axes of n elements.",
    )
    .add_attr("correction", float, "1 is the unbiased estimate for a sample x")
    .default(0.0)
    .build(
        infer_shape=fraction_of_axes,
        gradient=_variance_gradient,
        body=in_fractions(_variance_body),
    )
)


def _std_body(b: BodyContext) -> None:
    correction = b.attr("correction")
    if _is_half(b):
        _compute_wide(b, "std", _axes(b, correction=correction))
        return
    # Does not take the root of `variance`, whose squares may overflow or underflow.
    x = b.input("x") or ""
    size = b.emit("norm", {"x": _centered(b, x)}, attrs=_axes(b))
    b.emit("divide", {"x": size, "y": b.emit("sqrt", {"x": _count(b, x, correction)})}, _out(b))


def _std_gradient(g: GradientContext) -> None:
    # For equal elements the root has no derivative; it is defined as 0, as for norm.
    x, correction = _wide(g, g.input("x")), g.attr("correction")
    out = g.output("out")
    if _is_half(g):
        out = g.emit("std", {"x": x}, attrs=_axes(g, correction=correction))
    grad = _wide(g, g.output_grad("out"))
    share = _spread(g, _divided(g, x, grad, None, correction), like=x)
    spread = _spread(g, out, like=x)
    derivative = _where_zero(g, spread, _divided_by(g, _centered(g, x), out))
    _set_x_grad(g, g.emit("multiply", {"x": derivative, "y": share}))


def _out(b: BodyContext) -> dict[str, str | None]:
    return {"out": b.output("out")}


STD = (
    fraction(
        "std",
        "Standard deviation, the square root of variance, over axes. Its gradient for equal "
        "elements is 0.",
    )
    .add_attr("correction", float, "1 uses the unbiased variance for a sample x")
    .default(0.0)
    .build(infer_shape=fraction_of_axes, gradient=_std_gradient, body=in_fractions(_std_body))
)


def _count_body(b: BodyContext) -> None:
    x = b.input("x") or ""
    if known_meta(b).dtype != "bool":
        x = b.emit("not_equal", {"x": x, "y": _number(b, 0.0)})
    b.emit("sum", {"x": x}, _out(b), _axes(b))


COUNT_NONZERO = add_axes(
    OpMaker("count_nonzero")
    .add_comment("Number of nonzero elements over axes, as numpy.count_nonzero.")
    .add_input("x", "any shape")
    .dtypes(*ORDERED)
    .add_output("out", "int64, shape of x without the reduced axes, or with 1 there")
    .dtypes("int64")
).build(infer_shape=reduced_axes, gradient=no_gradient("its result is a count"), body=_count_body)
