"""Element-wise functions of one input: definitions, gradients, NumPy kernels.

Kernels warn where NumPy's function would (an infinite or undefined result), never for a finite
result. A gradient kernel that first writes ``x_grad`` from one input may reuse the memory of that
input; ``rows.py`` lists these inputs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from opwright.op import GradientContext, InferContext, OpMaker, grad_op, same_again, same_shape_as
from opwright_std.compositions import activations as activations_gradients
from opwright_std.compositions.chain_rules import chain_rule
from opwright_std.compositions.expression import read, result
from opwright_std.compositions.fractions import function
from opwright_std.numerics.dtypes import FLOATS, NUMBERS, Array

_INF = math.inf
# NumPy has no erf function; accuracy to the last bit costs one Python call per element.
_ERF = np.frompyfunc(math.erf, 1, 1)


def unary(op_type: str, comment: str, dtypes: Sequence[str] = FLOATS) -> OpMaker:
    """Start the definition of an element-wise ``x -> out`` of equal shape and dtype."""
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape")
        .dtypes(*dtypes)
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
    )


def abs_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    flat = x == 0
    np.sign(x, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)
    np.copyto(x_grad, 0, where=flat)  # 0 times an infinite out_grad would be NaN


ABS = unary("abs", "Absolute value, out = |x|. The gradient at 0 is 0.", NUMBERS).build(
    infer_shape=same_shape_as("x"), gradient=grad_op("abs_grad", needs=["x"], gradient=same_again)
)


NEGATIVE = unary("negative", "Negation, out = -x.", NUMBERS).build(
    infer_shape=same_shape_as("x"), gradient=chain_rule(lambda grad, g: -grad)
)


SIGN = unary(
    "sign", "Sign, out = -1, 0 or 1; NaN stays NaN. The gradient is 0 everywhere.", NUMBERS
).build(infer_shape=same_shape_as("x"), gradient=chain_rule(lambda grad, g: grad.filled(0.0)))


EXP = function("exp", "Exponential, out = e**x.", chain_rule(lambda grad, g: grad * result(g)))


LOG = function(
    "log",
    "Natural logarithm, out = ln(x): -inf at 0, NaN for negative x.",
    chain_rule(lambda grad, g: grad / read(g, "x")),
)


EXPM1 = function(
    "expm1",
    "Exponential minus 1, out = e**x - 1, accurate for small x.",
    # The gradient is computed from x, since out + 1 would cancel for very negative x.
    chain_rule(lambda grad, g: grad * read(g, "x").then("exp")),
)


LOG1P = function(
    "log1p",
    "Logarithm of 1 + x, out = ln(1 + x), accurate for small x: -inf at -1, NaN below.",
    chain_rule(lambda grad, g: grad / (read(g, "x") + 1.0)),
)


LOG2 = function(
    "log2",
    "Binary logarithm, out = log2(x): -inf at 0, NaN for negative x.",
    # Divide by x first, since x * ln(2) might underflow.
    chain_rule(lambda grad, g: grad / read(g, "x") * (1 / math.log(2))),
)


def rsqrt(x: Array, out: Array) -> None:
    np.sqrt(x, out=out)
    np.divide(1, out, out=out)


def rsqrt_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    np.multiply(out_grad, out, out=x_grad)
    np.multiply(x_grad, out, out=x_grad)
    np.multiply(x_grad, out, out=x_grad)
    np.multiply(x_grad, -0.5, out=x_grad)


RSQRT = function(
    "rsqrt",
    "Reciprocal square root, out = 1 / sqrt(x): infinite at 0, NaN for negative x.",
    grad_op("rsqrt_grad", needs=["out"], body=activations_gradients.rsqrt),
)


def pow_scalar(x: Array, out: Array, *, exponent: float) -> None:
    # For a scalar exponent NumPy computes a root, which -inf does not have.
    np.power(x, np.full_like(x, exponent if x.dtype.kind == "f" else int(exponent)), out=out)


def _pow_scalar_gradient(g: GradientContext) -> None:
    grad, exponent = g.output_grad("out"), g.attr("exponent")
    if exponent == 0:  # out is 1 everywhere
        g.set_input_grad("x", g.emit("fill_like", {"x": grad}))
        return
    if exponent < 0:
        # x**(exponent - 1) may overflow or underflow though its product with grad does not.
        part = g.emit("multiply", {"x": grad, "y": g.output("out")})
        quotient = g.emit("divide", {"x": part, "y": g.input("x")})
        g.set_input_grad("x", g.emit("scale", {"x": quotient}, attrs={"scale": exponent}))
        return
    less = g.emit("pow_scalar", {"x": g.input("x")}, attrs={"exponent": exponent - 1})
    derivative = g.emit("scale", {"x": less}, attrs={"scale": exponent, "bias": 0.0})
    g.set_input_grad("x", g.emit("multiply", {"x": grad, "y": derivative}))


def _pow_scalar_shape(ctx: InferContext) -> None:
    """The output has the shape of x."""
    x, exponent = ctx.input("x"), ctx.attr("exponent")
    if x.dtype not in FLOATS and (exponent < 0 or exponent != exponent // 1):
        ctx.fail(
            f"exponent must be an integer of at least 0 for {x.dtype}, got {exponent}; cast x "
            "to a float"
        )
    ctx.set_output("out", x.shape)


POW_SCALAR = (
    unary(
        "pow_scalar",
        "Power, out = x**exponent: NaN for negative x unless the exponent is an integer. Integers "
        "need an integer exponent of at least 0.",
        NUMBERS,
    )
    .add_attr("exponent", float, "the exponent, the same for all elements")
    .required()
    .build(infer_shape=_pow_scalar_shape, gradient=_pow_scalar_gradient)
)


def sqrt_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    np.divide(out_grad, out + out, out=x_grad)


SQRT = function(
    "sqrt",
    "Square root, out = x**0.5, NaN for negative x. The gradient at 0 is infinite.",
    grad_op("sqrt_grad", needs=["out"], body=activations_gradients.sqrt),
)


def square_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    np.multiply(x, out_grad, out=x_grad)
    np.multiply(x_grad, 2, out=x_grad)


SQUARE = unary("square", "Square, out = x * x.", NUMBERS).build(
    infer_shape=same_shape_as("x"),
    gradient=grad_op("square_grad", needs=["x"], body=activations_gradients.square),
)


def reciprocal_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    # In this order of multiplication, float16 overflows only if the result does.
    np.multiply(out * out_grad, out, out=x_grad)
    np.negative(x_grad, out=x_grad)


RECIPROCAL = function(
    "reciprocal",
    "Reciprocal, out = 1 / x.",
    grad_op("reciprocal_grad", needs=["out"], body=activations_gradients.reciprocal),
)


def erf(x: Array, out: Array) -> None:
    _ERF(x, out=out, casting="unsafe")


def erf_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    # For |x| > 40 the density is 0 in every dtype, and the square of x might overflow.
    np.maximum(x, -40, out=x_grad)
    np.minimum(x_grad, 40, out=x_grad)
    np.square(x_grad, out=x_grad)
    np.negative(x_grad, out=x_grad)
    np.exp(x_grad, out=x_grad)
    np.multiply(x_grad, 2 / math.sqrt(math.pi), out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)


ERF = function(
    "erf",
    "Error function, out = 2 / sqrt(pi) * integral of exp(-t**2) from 0 to x.",
    grad_op("erf_grad", needs=["x"], body=activations_gradients.erf),
)


def scale(x: Array, out: Array, *, scale: float, bias: float) -> None:
    if x.dtype.kind in "iu":  # integers, as checked by the shape rule
        scale, bias = int(scale), int(bias)
    np.multiply(x, scale, out=out)
    if bias:
        np.add(out, bias, out=out)


def _scale_shape(ctx: InferContext) -> None:
    """The output has the shape of x, whose dtype must represent scale and bias."""
    x = ctx.input("x")
    for name in ("scale", "bias"):
        ctx.require_held(name, x.dtype)
    ctx.set_output("out", x.shape)


SCALE = (
    unary(
        "scale",
        "Affine function, out = scale * x + bias. For integers scale and bias must be integers, "
        "and results wrap around.",
        NUMBERS,
    )
    .add_attr("scale", float, "factor")
    .default(1.0)
    .add_attr("bias", float, "what 0 becomes")
    .default(0.0)
    .build(infer_shape=_scale_shape, gradient=chain_rule(lambda grad, g: grad * g.attr("scale")))
)


def clip(x: Array, out: Array, *, min: float, max: float) -> None:
    low, high = (min, max) if x.dtype.kind == "f" else _integer_bounds(x.dtype, min, max)
    np.maximum(x, low, out=out)
    np.minimum(out, high, out=out)


def _integer_bounds(dtype: np.dtype[np.integer], low: float, high: float) -> tuple[int, int]:
    """Return the tightest integer bounds of the dtype inside ``[low, high]``."""
    info = np.iinfo(dtype)
    least = info.min if low <= info.min else math.ceil(low) if low <= info.max else info.max
    most = info.max if high >= info.max else math.floor(high) if high >= info.min else info.min
    return least, most


def clip_grad(x: Array, out_grad: Array, x_grad: Array, *, min: float, max: float) -> None:
    inside = np.greater_equal(x, min)
    inside &= np.less_equal(x, max)
    np.copyto(x_grad, out_grad)
    np.copyto(x_grad, 0, where=~inside)


def _clip_shape(ctx: InferContext) -> None:
    """The output has the shape of x; min must not be above max."""
    low, high = ctx.attr("min"), ctx.attr("max")
    ctx.require(low <= high, f"min must not be above max, got min={low}, max={high}")
    ctx.set_output("out", ctx.input("x").shape)


CLIP = (
    unary(
        "clip",
        "Clamp, out = minimum(maximum(x, min), max). The gradient is 1 in [min, max], else 0, "
        "also for NaN.",
        NUMBERS,
    )
    .add_attr("min", float, "lower bound of out; integers use the next integer inside")
    .default(-_INF)
    .add_attr("max", float, "upper bound of out")
    .default(_INF)
    .build(infer_shape=_clip_shape, gradient=grad_op("clip_grad", needs=["x"], gradient=same_again))
)
