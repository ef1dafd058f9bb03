"""Element-wise losses of a prediction and its label, without a reduction."""

from __future__ import annotations

import numpy as np

from opwright.op import grad_op, same_again
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics.dtypes import Array
from opwright_std.operators.mse import pointwise_loss, same_shapes


def _write_both(grad: Array, x_grad: Array | None, label_grad: Array | None) -> None:
    """Write the gradients of a loss of x - label."""
    if x_grad is not None:
        x_grad[...] = grad
    if label_grad is not None:
        np.negative(grad, out=label_grad)


def _signed(difference: Array, out_grad: Array) -> Array:
    """Return the gradient of |difference|, 0 at the kink for any out_grad."""
    signed = np.where(difference < 0, -out_grad, out_grad)
    flat = np.where(difference == 0, 0, signed)
    return np.where(np.isnan(difference), difference, flat).astype(difference.dtype)


def l1(x: Array, label: Array, out: Array) -> None:
    np.abs(np.subtract(x, label, out=out), out=out)


def l1_grad(
    x: Array, label: Array, out_grad: Array, x_grad: Array | None, label_grad: Array | None
) -> None:
    _write_both(_signed(np.asarray(x - label), out_grad), x_grad, label_grad)


def huber(x: Array, label: Array, out: Array, *, delta: float) -> None:
    size = np.abs(x - label)
    inner = np.minimum(size, size.dtype.type(delta))  # no square of large numbers
    np.multiply(inner, size - inner / 2, out=out)


def huber_grad(
    x: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    label_grad: Array | None,
    *,
    delta: float,
) -> None:
    _write_both(np.clip(x - label, -delta, delta) * out_grad, x_grad, label_grad)


def smooth_l1(x: Array, label: Array, out: Array, *, beta: float) -> None:
    if beta == 0:
        l1(x, label, out)
        return
    huber(x, label, out, delta=beta)
    out /= beta


def smooth_l1_grad(
    x: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    label_grad: Array | None,
    *,
    beta: float,
) -> None:
    if beta == 0:
        l1_grad(x, label, out_grad, x_grad, label_grad)
        return
    grad = np.clip(x - label, -beta, beta) / beta * out_grad
    _write_both(grad, x_grad, label_grad)


def write_hinge(score: Array, label: Array, margin: float, out: Array) -> None:
    np.multiply(score, label, out=out)
    np.subtract(margin, out, out=out)
    np.maximum(out, 0, out=out)


def compute_hinge_grads(
    score: Array, label: Array, margin: float, out_grad: Array
) -> tuple[Array, Array]:
    """Return the gradients of score and label: 0 beyond the margin, as for clip."""
    is_beyond = margin - score * label < 0
    return np.where(is_beyond, 0, -label * out_grad), np.where(is_beyond, 0, -score * out_grad)


def hinge(x: Array, label: Array, out: Array) -> None:
    write_hinge(x, label, 1.0, out)


def hinge_grad(
    x: Array, label: Array, out_grad: Array, x_grad: Array | None, label_grad: Array | None
) -> None:
    grads = compute_hinge_grads(x, label, 1.0, out_grad)
    for grad, target in zip(grads, (x_grad, label_grad), strict=True):
        if target is not None:
            target[...] = grad


def log_loss(x: Array, label: Array, out: Array, *, epsilon: float) -> None:
    out[...] = -label * np.log(x + epsilon) - (1 - label) * np.log(1 - x + epsilon)


def log_loss_grad(
    x: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    label_grad: Array | None,
    *,
    epsilon: float,
) -> None:
    yes, no = x + epsilon, 1 - x + epsilon
    if x_grad is not None:
        np.multiply((1 - label) / no - label / yes, out_grad, out=x_grad)
    if label_grad is not None:
        np.multiply(np.log(no) - np.log(yes), out_grad, out=label_grad)


def _subtract_present(logs: Array, x: Array, weight: Array) -> Array:
    """Return logs - x, and 0 where the weight is 0, so that 0 * inf is 0."""
    return np.subtract(logs, x, out=np.zeros_like(x), where=np.asarray(weight != 0))


def kl_div(x: Array, label: Array, out: Array, *, log_label: bool) -> None:
    weight = np.exp(label) if log_label else label
    logs = label if log_label else np.log(np.where(weight == 0, 1, label))
    np.multiply(weight, _subtract_present(logs, x, weight), out=out)


def kl_div_grad(
    x: Array,
    label: Array,
    out_grad: Array,
    x_grad: Array | None,
    label_grad: Array | None,
    *,
    log_label: bool,
) -> None:
    weight = np.exp(label) if log_label else label
    if x_grad is not None:
        np.multiply(-weight, out_grad, out=x_grad)
    if label_grad is None:
        return
    if log_label:
        derivative = weight * (_subtract_present(label, x, weight) + 1)
    else:
        derivative = np.log(label) - x + 1
    np.multiply(derivative, out_grad, out=label_grad)


L1 = pointwise_loss("l1", "Absolute error, out = |x - label|, element-wise.").build(
    infer_shape=same_shapes, gradient=grad_op("l1_grad", needs=["x", "label"], gradient=same_again)
)

HUBER = (
    pointwise_loss(
        "huber",
        "Squared error near the label and absolute error far from it, d = |x - label|, out = "
        "d**2 / 2 where d <= delta, and delta * (d - delta / 2) elsewhere. Huber, 1964.",
    )
    .add_attr("delta", float, "distance from which the loss is linear")
    .required()
    .greater_than(0.0)
    .build(
        infer_shape=same_shapes,
        gradient=grad_op("huber_grad", needs=["x", "label"], body=losses_gradients.huber),
    )
)

SMOOTH_L1 = (
    pointwise_loss(
        "smooth_l1",
        "Smooth absolute error, d = |x - label|, out = d**2 / (2 * beta) where d < "
        "beta, and d - beta / 2 elsewhere: huber / beta. Girshick, 2015.",
    )
    .add_attr("beta", float, "distance from which the loss is linear; 0 makes it l1")
    .default(1.0)
    .at_least(0.0)
    .build(
        infer_shape=same_shapes,
        gradient=grad_op("smooth_l1_grad", needs=["x", "label"], body=losses_gradients.smooth_l1),
    )
)

HINGE = pointwise_loss(
    "hinge",
    "Hinge loss, out = max(0, 1 - x * label), element-wise. "
    "The gradient is 0 beyond the margin. Cortes and Vapnik, 1995.",
    label="shape and dtype of x: 1 or -1",
).build(
    infer_shape=same_shapes,
    gradient=grad_op("hinge_grad", needs=["x", "label"], body=losses_gradients.hinge),
)

LOG_LOSS = (
    pointwise_loss(
        "log_loss",
        "Binary cross entropy, out = -label * log(x + epsilon) - (1 - label) * log(1 - x + "
        "epsilon), element-wise. For scores, sigmoid_cross_entropy_with_logits is more accurate.",
        label="shape and dtype of x: probabilities of label 1 in [0, 1]",
    )
    .add_attr("epsilon", float, "added to each probability")
    .default(1e-4)
    .greater_than(0.0)
    .build(
        infer_shape=same_shapes,
        gradient=grad_op("log_loss_grad", needs=["x", "label"], body=losses_gradients.log_loss),
    )
)

KL_DIV = (
    pointwise_loss(
        "kl_div",
        "Terms of the Kullback-Leibler divergence from log-probabilities x to label, out = "
        "label * (log(label) - x), 0 where label is 0; with log_label out = exp(label) * (label - "
        "x). The divergence is the sum.",
        label="shape and dtype of x: probabilities, or their logarithms",
    )
    .add_attr("log_label", bool, "whether label contains logarithms")
    .default(False)
    .build(
        infer_shape=same_shapes,
        gradient=grad_op("kl_div_grad", needs=["x", "label"], body=losses_gradients.KL_DIV),
    )
)
