"""Fused softmax and cross entropy of scores: accurate even if probabilities underflow."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, grad_op, normalize_axis
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics.class_ids import find_labels, infer_row_loss
from opwright_std.numerics.dtypes import FLOATS, INDICES, Array
from opwright_std.operators.softmax import shift_by_maximum

_LABEL = "softmax_with_cross_entropy: label"


def softmax_with_cross_entropy(
    logits: Array,
    label: Array,
    out: Array,
    softmax: Array,
    *,
    soft_label: bool,
    ignore_index: int,
    axis: int,
) -> None:
    if not soft_label:
        places, counted = find_labels(_LABEL, label, logits, axis, ignore_index)
    if logits.size == 0:
        out[...] = 0
        return
    logs = np.empty_like(logits)
    shift_by_maximum(logits, logs, axis)
    np.exp(logs, out=softmax)
    total = np.sum(softmax, axis=axis, keepdims=True)
    softmax /= total
    logs -= np.log(total)  # no logarithm of an underflowed probability
    if soft_label:
        np.copyto(logs, 0, where=label == 0)  # 0 * -inf is 0 here
        logs *= label
        np.sum(logs, axis=axis, keepdims=True, out=out)
        np.negative(out, out=out)
        return
    losses = out.reshape(-1)
    np.negative(logs.reshape(-1)[places], out=losses)
    np.copyto(losses, 0, where=~counted)


def softmax_with_cross_entropy_grad(
    label: Array,
    softmax: Array,
    out_grad: Array,
    logits_grad: Array,
    *,
    soft_label: bool,
    ignore_index: int,
    axis: int,
) -> None:
    if softmax.size == 0:
        return
    if soft_label:
        np.multiply(softmax, np.sum(label, axis=axis, keepdims=True), out=logits_grad)
        logits_grad -= label
        logits_grad *= out_grad
        return
    places, counted = find_labels(_LABEL, label, softmax, axis, ignore_index)
    grads = out_grad.reshape(-1)
    kept = list(softmax.shape)
    kept[axis] = 1
    np.multiply(softmax, grads.reshape(kept), out=logits_grad)
    logits_grad.reshape(-1)[places] -= grads
    np.copyto(logits_grad, 0, where=~counted.reshape(kept))  # 0 * NaN would be NaN


def _loss_shape(ctx: InferContext) -> None:
    """The output has the shape of the class ids, or, with soft_label, of logits with 1 class."""
    shape = ctx.input("logits").shape
    axis = normalize_axis(ctx, ctx.attr("axis"), len(shape))
    infer_row_loss(ctx, "logits", axis, ctx.attr("soft_label"))
    ctx.set_output("softmax", shape)


SOFTMAX_WITH_CROSS_ENTROPY = (
    OpMaker("softmax_with_cross_entropy")
    .add_comment(
        "Fused softmax and cross entropy, out = -log_softmax(logits)[label] for class ids, out = "
        "-sum(label * log_softmax(logits)) for distributions, with 0 * -inf = 0. The gradient is "
        "(softmax - label) * out_grad, with one-hot vectors for class ids; label has no gradient, "
        "which would need the scores."
    )
    .add_input("logits", "float, at least 1-d: scores")
    .dtypes(*FLOATS)
    .add_input(
        "label",
        "int, class ids in [0, classes) or ignore_index: shape of logits with 1 along axis, or "
        "without axis; with soft_label float, shape and dtype of logits",
    )
    .dtypes(*INDICES, *FLOATS)
    .add_output("out", "shape of the class ids; with soft_label that of logits with 1 along axis")
    .same_dtype_as("logits")
    .add_output("softmax", "shape and dtype of logits")
    .same_dtype_as("logits")
    .as_intermediate()
    .add_attr("soft_label", bool, "whether label holds distributions instead of class ids")
    .default(False)
    .add_attr("ignore_index", int, "class id of rows with loss 0 and gradient 0")
    .default(-100)
    .add_attr("axis", int, "the axis of the classes")
    .default(-1)
    .build(
        infer_shape=_loss_shape,
        gradient=grad_op(
            "softmax_with_cross_entropy_grad",
            needs=["label", "softmax"],
            no_grad=["label"],
            body=losses_gradients.SOFTMAX_WITH_CROSS_ENTROPY,
        ),
    )
)
