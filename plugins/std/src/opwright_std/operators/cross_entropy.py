"""Cross entropy of probabilities against class ids or distributions."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics.class_ids import find_places, flat_ids, infer_row_loss
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array


def _find_labels(x: Array, label: Array) -> Array:
    """Return the flat index of each row's class in the probabilities."""
    ids = flat_ids("cross_entropy: label", label, x.shape[-1])
    return find_places(ids, x.shape, x.ndim - 1)


def cross_entropy(x: Array, label: Array, out: Array, *, soft_label: bool, epsilon: float) -> None:
    if soft_label:
        logs = np.log(np.maximum(x, epsilon))
        logs *= label
        np.sum(logs, axis=-1, keepdims=True, out=out)
    else:
        losses = out.reshape(-1)
        np.maximum(x.reshape(-1)[_find_labels(x, label)], epsilon, out=losses)
        np.log(losses, out=losses)
    np.negative(out, out=out)


def cross_entropy_grad(
    x: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    label_grad: Array | None,
    *,
    soft_label: bool,
    epsilon: float,
) -> None:
    if label_grad is not None:
        np.log(np.maximum(x, epsilon), out=label_grad)
        label_grad *= -out_grad
    if x_grad is None:
        return
    if soft_label:
        np.divide(label, np.maximum(x, epsilon), out=x_grad)
        x_grad *= -out_grad
        np.copyto(x_grad, 0, where=x < epsilon)
        return
    places = _find_labels(x, label)
    picked = x.reshape(-1)[places]
    grad = -out_grad.reshape(-1) / np.maximum(picked, epsilon)
    x_grad[...] = 0
    x_grad.reshape(-1)[places] = np.where(picked < epsilon, 0, grad)


def _cross_entropy_shape(ctx: InferContext) -> None:
    """The output has the shape of the class ids, or the shape of x with 1 class for soft_label."""
    shape = ctx.input("x").shape
    ctx.require(len(shape) >= 1, "x must have at least 1 dimension, got a scalar")
    infer_row_loss(ctx, "x", len(shape) - 1, ctx.attr("soft_label"))


CROSS_ENTROPY = (
    OpMaker("cross_entropy")
    .add_comment(
        "Cross entropy of each row, out = -ln(x[label]) for class ids, out = -sum(label * ln(x)) "
        "for distributions. Probabilities below epsilon are raised to epsilon, with gradient 0: "
        "by default only those that underflow, since a larger epsilon would stop the gradient of "
        "the worst predictions. For scores, softmax_with_cross_entropy is more accurate."
    )
    .add_input("x", "float [..., classes], probabilities")
    .dtypes(*FLOATS)
    .add_input(
        "label",
        "int [..., 1] or [...], class ids in [0, classes); with soft_label shape and dtype of x",
    )
    .dtypes(*INDICES, *FLOATS)
    .add_output("out", "shape of the class ids; [..., 1] with soft_label")
    .same_dtype_as("x")
    .add_attr("soft_label", bool, "whether label holds distributions instead of class ids")
    .default(False)
    .add_attr("epsilon", float, "lower bound of the probabilities")
    .default(1e-37)
    .at_least(0.0)
    .build(
        infer_shape=_cross_entropy_shape,
        gradient=grad_op(
            "cross_entropy_grad", needs=["x", "label"], body=losses_gradients.cross_entropy
        ),
    )
)
