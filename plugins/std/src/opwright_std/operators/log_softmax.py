"""The logarithm of softmax, without underflow."""

from __future__ import annotations

import numpy as np

from opwright.op import grad_op
from opwright_std.compositions import normalizations as normalizations_gradients
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.softmax import along_axis, along_axis_shape, shift_by_maximum


def log_softmax(x: Array, out: Array, *, axis: int) -> None:
    if x.size == 0:
        return
    shift_by_maximum(x, out, axis)
    out -= np.log(np.sum(np.exp(out), axis=axis, keepdims=True))


def log_softmax_grad(out: Array, out_grad: Array, x_grad: Array, *, axis: int) -> None:
    np.exp(out, out=x_grad)
    x_grad *= np.sum(out_grad, axis=axis, keepdims=True)
    np.subtract(out_grad, x_grad, out=x_grad)


LOG_SOFTMAX = along_axis(
    "log_softmax",
    "Logarithm of softmax, out = x - m - ln(sum(exp(x - m))) with m = max(x), along one axis. An "
    "element -inf stays -inf; a line that is all -inf, or contains NaN or +inf, becomes NaN.",
).build(
    infer_shape=along_axis_shape,
    gradient=grad_op("log_softmax_grad", needs=["out"], body=normalizations_gradients.LOG_SOFTMAX),
)
