"""Trigonometric and hyperbolic functions, element by element: definitions and NumPy kernels."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from opwright.op import GradientContext, OpDefinition, elementwise_shape, grad_op, same_shape_as
from opwright_std.compositions import activations as activations_gradients
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.binary import binary
from opwright_std.operators.sum_like import set_broadcast_grad
from opwright_std.operators.unary import unary


def sin(x: Array, out: Array) -> None:
    np.sin(x, out=out)


def cos(x: Array, out: Array) -> None:
    np.cos(x, out=out)


def tan(x: Array, out: Array) -> None:
    np.tan(x, out=out)


def asin(x: Array, out: Array) -> None:
    np.arcsin(x, out=out)


def acos(x: Array, out: Array) -> None:
    np.arccos(x, out=out)


def atan(x: Array, out: Array) -> None:
    np.arctan(x, out=out)


def sinh(x: Array, out: Array) -> None:
    np.sinh(x, out=out)


def cosh(x: Array, out: Array) -> None:
    np.cosh(x, out=out)


def atan2(x: Array, y: Array, out: Array) -> None:
    np.arctan2(x, y, out=out)


def tan_grad(out: Array, out_grad: Array, x_grad: Array) -> None:
    np.square(out, out=x_grad)
    np.add(x_grad, 1, out=x_grad)
    np.multiply(x_grad, out_grad, out=x_grad)


def asin_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    # (1 - x)(1 + x) keeps the digits that 1 - x**2 loses where x is near 1.
    np.divide(out_grad, np.sqrt((1 - x) * (1 + x)), out=x_grad)


def acos_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    asin_grad(x, out_grad, x_grad)
    np.negative(x_grad, out=x_grad)


def atan_grad(x: Array, out_grad: Array, x_grad: Array) -> None:
    with np.errstate(over="ignore"):  # the slope is 0 there
        np.divide(out_grad, np.square(x) + 1, out=x_grad)


def _by_function(name: str, negated: bool = False) -> Callable[[GradientContext], None]:
    """Return the gradient of a function whose slope is another one of x."""

    def gradient(g: GradientContext) -> None:
        slope = g.emit(name, {"x": g.input("x")})
        grad = g.emit("multiply", {"x": g.output_grad("out"), "y": slope})
        g.set_input_grad("x", g.emit("negative", {"x": grad}) if negated else grad)

    return gradient


def _define(
    op_type: str, comment: str, gradient: Callable[[GradientContext], None]
) -> OpDefinition:
    return unary(op_type, comment).build(infer_shape=same_shape_as("x"), gradient=gradient)


SIN = _define("sin", "Sine of radians, out = sin(x), NaN at infinities.", _by_function("cos"))
COS = _define(
    "cos", "Cosine of radians, out = cos(x), NaN at infinities.", _by_function("sin", negated=True)
)
TAN = _define(
    "tan",
    "Tangent of radians, out = tan(x), NaN at infinities.",
    grad_op("tan_grad", needs=["out"], body=activations_gradients.TAN),
)
ASIN = _define(
    "asin",
    "Inverse of the sine in radians, out = asin(x), NaN beyond 1. The gradient at 1 is infinite.",
    grad_op("asin_grad", needs=["x"], body=activations_gradients.ASIN),
)
ACOS = _define(
    "acos",
    "Inverse of the cosine in radians, out = acos(x), NaN beyond 1. The gradient at 1 is infinite.",
    grad_op("acos_grad", needs=["x"], body=activations_gradients.ACOS),
)
ATAN = _define(
    "atan",
    "Inverse of the tangent in radians, out = atan(x).",
    grad_op("atan_grad", needs=["x"], body=activations_gradients.ATAN),
)
SINH = _define("sinh", "Hyperbolic sine, out = sinh(x).", _by_function("cosh"))
COSH = _define("cosh", "Hyperbolic cosine, out = cosh(x).", _by_function("sinh"))


def _atan2_gradient(g: GradientContext) -> None:
    grad, x, y = g.output_grad("out"), g.input("x"), g.input("y")
    squares = [g.emit("square", {"x": side}) for side in (x, y)]
    total = g.emit("add", {"x": squares[0], "y": squares[1]})
    share = g.emit("divide", {"x": grad, "y": total})
    if g.wants("x"):
        set_broadcast_grad(g, "x", g.emit("multiply", {"x": share, "y": y}), ["y"])
    if g.wants("y"):
        product = g.emit("multiply", {"x": share, "y": x})
        set_broadcast_grad(g, "y", g.emit("negative", {"x": product}), ["x"])


ATAN2 = binary(
    "atan2",
    "Angle in radians of the point (y, x): x is the height, y the width, as in numpy.arctan2. "
    "The gradient of x is y / (x**2 + y**2), that of y is -x / (x**2 + y**2).",
    FLOATS,
).build(infer_shape=elementwise_shape("x", "y"), gradient=_atan2_gradient)
