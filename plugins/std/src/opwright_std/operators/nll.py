"""Negative log-likelihood of class ids, computed from log-probabilities."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, linear_in, normalize_axis
from opwright_std.numerics.class_ids import find_labels, infer_row_loss
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array

_LABEL = "nll: label"


def nll(x: Array, label: Array, out: Array, *, ignore_index: int, axis: int) -> None:
    places, counted = find_labels(_LABEL, label, x, axis, ignore_index)
    if x.size == 0:
        out[...] = 0
        return
    losses = out.reshape(-1)
    np.negative(x.reshape(-1)[places], out=losses)
    np.copyto(losses, 0, where=~counted)


def nll_grad(
    x: Array, label: Array, out_grad: Array, x_grad: Array, *, ignore_index: int, axis: int
) -> None:
    places, counted = find_labels(_LABEL, label, x, axis, ignore_index)
    x_grad[...] = 0
    x_grad.reshape(-1)[places[counted]] = -out_grad.reshape(-1)[counted]


def _nll_shape(ctx: InferContext) -> None:
    """The output has the shape of the class ids."""
    shape = ctx.input("x").shape
    infer_row_loss(ctx, "x", normalize_axis(ctx, ctx.attr("axis"), len(shape)))


NLL = (
    OpMaker("nll")
    .add_comment(
        "Negative log-likelihood of class ids, out = -x[label] along the axis. For scores, "
        "softmax_with_cross_entropy computes both steps in one."
    )
    .add_input("x", "float, at least 1-d: logarithms of probabilities")
    .dtypes(*FLOATS)
    .add_input(
        "label",
        "int, class ids in [0, classes) or ignore_index: shape of x with 1 along axis, or without "
        "axis",
    )
    .dtypes(*INDICES)
    .add_output("out", "shape of the class ids")
    .same_dtype_as("x")
    .add_attr("ignore_index", int, "class id of rows with loss 0 and gradient 0")
    .default(-100)
    .add_attr("axis", int, "the axis of the classes")
    .default(-1)
    .build(
        infer_shape=_nll_shape,
        gradient=grad_op("nll_grad", needs=["x", "label"], gradient=linear_in("x")),
    )
)
