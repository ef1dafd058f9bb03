"""Gradients that multiply instead of selecting, lose NaN, or fail far from 0."""

import numpy as np

from opwright.op import OpMaker, grad_op, same_shape_as


def _rectify(x, out):
    np.maximum(x, 0, out=out)


multiplies = drops_nan = _rectify


def multiplies_grad(x, out_grad, x_grad):
    np.multiply(out_grad, ~(x <= 0), out=x_grad)  # 0 * inf is NaN


def drops_nan_grad(x, out_grad, x_grad):
    np.copyto(x_grad, np.where(x > 0, out_grad, 0))  # NaN is not above 0


def cancels(x, out):
    np.copyto(out, np.where(x > 0, x, np.expm1(np.minimum(x, 0))))


def cancels_grad(x, out_grad, x_grad):
    below = np.expm1(np.minimum(x, 0)) + 1  # exp(x), but -1 + 1 cancels
    np.copyto(x_grad, out_grad * np.where(x > 0, 1, below))


def overflows(x, out):
    np.hypot(x, 1, out=out)


def overflows_grad(x, out_grad, x_grad):
    np.copyto(x_grad, out_grad * (x / np.sqrt(1 + x**2)))  # the square of 1e200 is infinite


def ends(x, out):
    np.copyto(out, np.where(x > 0, x, x / 2))


def ends_grad(x, out_grad, x_grad):
    np.copyto(x_grad, np.where((x <= 0) & np.isfinite(x), out_grad / 2, out_grad))


composed = _rectify


def _composed_gradient(g):
    grad = g.output_grad("out")
    zero = g.emit("fill_like", {"x": g.input("x")}, attrs={"value": 0.0})
    above = g.emit("greater", {"x": g.input("x"), "y": zero})  # false for NaN
    g.set_input_grad("x", g.emit("where", {"condition": above, "x": grad, "y": zero}))


def _make(name, comment, gradient=None):
    op_type = f"broken_gradient_extremes.{name}"
    gradient = gradient or grad_op(f"{op_type}_grad", needs=["x"])
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "any shape, float")
        .dtypes("float32", "float64")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
        .build(infer_shape=same_shape_as("x"), gradient=gradient)
    )


MULTIPLIES = _make("multiplies", "Rectifier, out = maximum(x, 0).")
DROPS_NAN = _make("drops_nan", "Rectifier, out = maximum(x, 0).")
CANCELS = _make("cancels", "Linear above 0, exp(x) - 1 below.")
OVERFLOWS = _make("overflows", "Length of (x, 1), out = sqrt(x**2 + 1).")
ENDS = _make("ends", "Linear above 0, out = x / 2 below.")
COMPOSED = _make("composed", "Rectifier, out = maximum(x, 0).", _composed_gradient)
