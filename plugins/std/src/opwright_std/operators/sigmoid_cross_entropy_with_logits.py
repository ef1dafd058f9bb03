"""Cross entropy of independent binary classes, from scores."""

from __future__ import annotations

import numpy as np

from opwright.op import OpMaker, grad_op
from opwright_std.compositions import losses as losses_gradients
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.operators.activations import sigmoid
from opwright_std.operators.mse import same_shapes


def sigmoid_cross_entropy_with_logits(x: Array, label: Array, out: Array) -> None:
    np.abs(x, out=out)
    np.negative(out, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)  # ln(1 + exp(-|x|)): no overflow, no loss of small values
    share = np.where(x < 0, -label, 1 - label)
    share *= np.where(share == 0, share, x)  # for an infinite x it may be 0
    out += share


def sigmoid_cross_entropy_with_logits_grad(
    x: Array, label: Array, out_grad: Array, x_grad: Array | None, label_grad: Array | None
) -> None:
    if x_grad is not None:
        sigmoid(x, x_grad)
        x_grad -= label
        x_grad *= out_grad
    if label_grad is not None:
        np.multiply(x, out_grad, out=label_grad)
        np.negative(label_grad, out=label_grad)


SIGMOID_CROSS_ENTROPY_WITH_LOGITS = (
    OpMaker("sigmoid_cross_entropy_with_logits")
    .add_comment(
        "Element-wise cross entropy of sigmoid(x), out = -label * ln(sigmoid(x)) - "
        "(1 - label) * ln(1 - sigmoid(x)), computed as max(x, 0) - x * label + ln(1 + exp(-|x|)). "
        "For an infinite x it is 0 if the label agrees, else infinite."
    )
    .add_input("x", "float, any shape: scores")
    .dtypes(*FLOATS)
    .add_input("label", "shape and dtype of x: probabilities of the positive class in [0, 1]")
    .same_dtype_as("x")
    .add_output("out", "shape and dtype of x")
    .same_dtype_as("x")
    .build(
        infer_shape=same_shapes,
        gradient=grad_op(
            "sigmoid_cross_entropy_with_logits_grad",
            needs=["x", "label"],
            body=losses_gradients.sigmoid_cross_entropy_with_logits,
        ),
    )
)
