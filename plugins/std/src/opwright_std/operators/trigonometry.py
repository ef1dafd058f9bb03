"""Element-wise trigonometric and hyperbolic functions: definitions and NumPy kernels."""

from __future__ import annotations

import math

import numpy as np

from opwright.op import (
    BodyContext,
    GradientContext,
    OpDefinition,
    elementwise_shape,
    grad_op,
    same_shape_as,
)
from opwright_std.compositions import activations as activations_gradients
from opwright_std.compositions.chain_rules import broadcast_rule, chain_rule, set_broadcast_grad
from opwright_std.compositions.expression import Expression, in_float32, read
from opwright_std.compositions.fractions import function
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.binary import binary
from opwright_std.operators.unary import unary


def tan_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    np.square(out, out=x_grad)
    np.add(x_grad, 1, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)


def asin_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    # (1 - x)(1 + x) is accurate for x near 1, where 1 - x**2 cancels.
    np.divide(out_grad, np.sqrt((1 - x) * (1 + x)), out=x_grad)


def acos_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    asin_grad(x, out_grad, x_grad)
    np.negative(x_grad, out=x_grad)


def atan_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    size = np.minimum(np.maximum(np.abs(x), 1), np.finfo(x.dtype).max)
    # 1 + x**2 = size * (size + (1 or x**2) / size), which does not overflow for finite x.
    bend = np.where(size > 1, 1, np.square(x)) / size
    np.divide(out_grad / size, size + bend, out=x_grad)


SIN = function(
    "sin",
    "Sine of radians, out = sin(x), NaN at infinities.",
    chain_rule(lambda grad, g: grad * read(g, "x").then("cos")),
)
COS = function(
    "cos",
    "Cosine of radians, out = cos(x), NaN at infinities.",
    chain_rule(lambda grad, g: -(grad * read(g, "x").then("sin"))),
)
TAN = function(
    "tan",
    "Tangent of radians, out = tan(x), NaN at infinities.",
    grad_op("tan_grad", needs=["out"], body=activations_gradients.tan),
)
ASIN = function(
    "asin",
    "Inverse of the sine in radians, out = asin(x), NaN beyond 1. The gradient at 1 is infinite.",
    grad_op("asin_grad", needs=["x"], body=activations_gradients.asin),
)
ACOS = function(
    "acos",
    "Inverse of the cosine in radians, out = acos(x), NaN beyond 1. The gradient at 1 is infinite.",
    grad_op("acos_grad", needs=["x"], body=activations_gradients.acos),
)
ATAN = function(
    "atan",
    "Inverse of the tangent in radians, out = atan(x).",
    grad_op("atan_grad", needs=["x"], body=activations_gradients.atan),
)
SINH = function(
    "sinh",
    "Hyperbolic sine, out = sinh(x).",
    chain_rule(lambda grad, g: grad * read(g, "x").then("cosh")),
)
COSH = function(
    "cosh",
    "Hyperbolic cosine, out = cosh(x).",
    chain_rule(lambda grad, g: grad * read(g, "x").then("sinh")),
)


def atan2_derivative(x: Array, y: Array, out: Array) -> None:
    size = np.minimum(np.maximum(np.abs(x), np.abs(y)), np.finfo(out.dtype).max)
    height, width = x / size, y / size
    np.divide(width / (np.square(height) + np.square(width)), size, out=out)


def _atan2_derivative_gradient(g: GradientContext) -> None:
    """With u = y / (x² + y²) and v = x / (x² + y²), du/dx is -2 u v and du/dy is v² - u²."""
    grad, x, y = g.output_grad("out"), g.input("x"), g.input("y")
    by_height = g.output("out")
    by_width = g.emit("atan2_derivative", {"x": y, "y": x})
    if g.wants("x"):
        product = g.emit("multiply", {"x": by_height, "y": by_width})
        twice = g.emit("scale", {"x": product}, attrs={"scale": -2.0})
        set_broadcast_grad(g, "x", g.emit("multiply", {"x": grad, "y": twice}), ["y"])
    if g.wants("y"):
        squares = [g.emit("square", {"x": derivative}) for derivative in (by_width, by_height)]
        difference = g.emit("subtract", {"x": squares[0], "y": squares[1]})
        set_broadcast_grad(g, "y", g.emit("multiply", {"x": grad, "y": difference}), ["x"])


ATAN2_DERIVATIVE = binary(
    "atan2_derivative",
    "The derivative of atan2, out = y / (x**2 + y**2), without overflow or underflow of squares.",
    FLOATS,
).build(infer_shape=elementwise_shape("x", "y"), gradient=_atan2_derivative_gradient)


ATAN2 = function(
    "atan2",
    "Angle in radians of the point (y, x): x is the height, y the width, as in numpy.arctan2. "
    "The gradient of x is y / (x**2 + y**2), that of y is -x / (x**2 + y**2).",
    broadcast_rule(
        x=lambda grad, g: grad * read(g, "x").with_("atan2_derivative", read(g, "y")),
        y=lambda grad, g: -(grad * read(g, "y").with_("atan2_derivative", read(g, "x"))),
    ),
    "x",
    "y",
)


def _in_units(op_type: str, comment: str, factor: float) -> OpDefinition:
    def body(b: BodyContext) -> None:
        b.set_output("out", (read(b, "x") * factor).name)

    return unary(op_type, comment).build(infer_shape=same_shape_as("x"), body=body)


DEG2RAD = _in_units("deg2rad", "Degrees in radians, out = x * pi / 180.", math.pi / 180)
RAD2DEG = _in_units("rad2deg", "Radians in degrees, out = x * 180 / pi.", 180 / math.pi)


def _hypot(b: BodyContext) -> Expression:
    x, y = (read(b, slot).then("abs") for slot in ("x", "y"))
    larger, smaller = x.with_("maximum", y), x.with_("minimum", y)
    # The square of a ratio neither overflows nor underflows, unlike the square of x.
    meta = b.meta(larger.name)
    finite = larger.then("clip", max=float(np.finfo(meta.dtype if meta else "float32").max))
    share = smaller / larger.compare("equal", 0.0).choose(larger.filled(1.0), finite)
    return larger * (share.then("square") + 1.0).then("sqrt")


def _hypot_gradient(g: GradientContext) -> None:
    out, grad = Expression(g, g.output("out")), Expression(g, g.output_grad("out"))
    is_zero = out.compare("equal", 0.0)
    safe = is_zero.choose(out.filled(1.0), out)
    for slot, other in (("x", "y"), ("y", "x")):
        if g.wants(slot):
            share = is_zero.choose(out.filled(0.0), Expression(g, g.input(slot)) / safe)
            set_broadcast_grad(g, slot, (grad * share).name, [other])


HYPOT = binary(
    "hypot",
    "Length of a 2-vector, out = sqrt(x**2 + y**2), without overflow; NaN if either is NaN. The "
    "gradient at (0, 0) is 0.",
    FLOATS,
).build(infer_shape=elementwise_shape("x", "y"), gradient=_hypot_gradient, body=in_float32(_hypot))
