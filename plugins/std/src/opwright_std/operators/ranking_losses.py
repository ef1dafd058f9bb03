"""Losses of two scores and a label that selects the score that should be larger."""

from __future__ import annotations

import numpy as np

from opwright.op import (
    InferContext,
    OpMaker,
    format_shape,
    grad_op,
    merge_dims,
    shapes_match,
)
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.pointwise_losses import compute_hinge_grads, write_hinge
from opwright_std.operators.sigmoid_cross_entropy_with_logits import (
    sigmoid_cross_entropy_with_logits,
    sigmoid_cross_entropy_with_logits_grad,
)


def _same_shapes(ctx: InferContext) -> None:
    """The output has the common shape of x, y and label."""
    shape = ctx.input("x").shape
    for slot in ("y", "label"):
        other = ctx.input(slot).shape
        if not shapes_match(shape, other):
            ctx.fail(
                f"{slot} must have the shape of x, {format_shape(shape)}, got {format_shape(other)}"
            )
        shape = tuple(map(merge_dims, shape, other))
    ctx.set_output("out", shape)


def margin_rank_loss(x: Array, y: Array, label: Array, out: Array, *, margin: float) -> None:
    write_hinge(np.asarray(x - y), label, margin, out)


def margin_rank_loss_grad(
    x: Array,
    y: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    y_grad: Array | None,
    label_grad: Array | None,
    *,
    margin: float,
) -> None:
    score_grad, of_label = compute_hinge_grads(np.asarray(x - y), label, margin, out_grad)
    if x_grad is not None:
        x_grad[...] = score_grad
    if y_grad is not None:
        np.negative(score_grad, out=y_grad)
    if label_grad is not None:
        label_grad[...] = of_label


def rank_loss(x: Array, y: Array, label: Array, out: Array) -> None:
    sigmoid_cross_entropy_with_logits(np.asarray(x - y), label, out)


def rank_loss_grad(
    x: Array,
    y: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    y_grad: Array | None,
    label_grad: Array | None,
) -> None:
    score = np.asarray(x - y)
    score_grad = y_grad if x_grad is None else x_grad
    sigmoid_cross_entropy_with_logits_grad(score, label, out_grad, score_grad, label_grad)
    if y_grad is not None and score_grad is not None:
        np.negative(score_grad, out=y_grad)


def _loss(op_type: str, comment: str, label: str) -> OpMaker:
    return (
        OpMaker(op_type)
        .add_comment(comment)
        .add_input("x", "float, any shape: scores")
        .dtypes(*FLOATS)
        .add_input("y", "shape and dtype of x: the other scores")
        .same_dtype_as("x")
        .add_input("label", f"shape and dtype of x: {label}")
        .same_dtype_as("x")
        .add_output("out", "shape and dtype of x")
        .same_dtype_as("x")
    )


MARGIN_RANK_LOSS = (
    _loss(
        "margin_rank_loss",
        "Margin ranking loss of two scores, out = "
        "max(0, margin - label * (x - y)). The gradient is 0 beyond the margin.",
        "1 if x should be larger, -1 if y should be",
    )
    .add_attr("margin", float, "margin of the difference, above which the loss is 0")
    .default(0.0)
    .build(
        infer_shape=_same_shapes,
        gradient=grad_op(
            "margin_rank_loss_grad",
            needs=["x", "y", "label"],
            body=losses_gradients.margin_rank_loss,
        ),
    )
)

RANK_LOSS = _loss(
    "rank_loss",
    "Cross entropy of the event that x is the larger score, out = log(1 + exp(x - y)) - label * "
    "(x - y). Burges "
    "et al., 2005 (RankNet).",
    "probability in [0, 1] that x should be larger",
).build(
    infer_shape=_same_shapes,
    gradient=grad_op("rank_loss_grad", needs=["x", "y", "label"], body=losses_gradients.rank_loss),
)
