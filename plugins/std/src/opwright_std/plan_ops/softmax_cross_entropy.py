"""Fused softmax, cross entropy and their gradients."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape, shapes_match
from opwright_std.numerics.dtypes import FLOATS


def _loss_shape(ctx: InferContext) -> None:
    shape = ctx.input("logits").shape
    ctx.require(len(shape) >= 1, "logits must have at least 1 dimension, got a scalar")
    label = ctx.input("label").shape
    allowed = (shape[:-1], (*shape[:-1], 1))
    ctx.require(
        any(shapes_match(label, wanted) for wanted in allowed),
        f"label must have the shape {format_shape(shape[:-1])}, got {format_shape(label)}",
    )
    ctx.set_output("softmax", shape)
    ctx.set_output("loss", label)
    ctx.set_output("logits_grad", shape)


SOFTMAX_CROSS_ENTROPY = (
    OpMaker("std.softmax_cross_entropy")
    .add_comment(
        "Softmax along the last axis, cross entropy against class ids, and the gradient of the "
        "scores for equal gradients of all losses: logits_grad = (softmax - one_hot) * "
        "loss_grad."
    )
    .add_input("logits", "float [..., classes], scores")
    .dtypes(*FLOATS)
    .add_input("label", "int [...] or [..., 1], class ids in [0, classes) or ignore_index")
    .dtypes("int32", "int64")
    .add_output("softmax", "shape of logits")
    .same_dtype_as("logits")
    .as_optional()
    .add_output("loss", "shape of label")
    .same_dtype_as("logits")
    .as_optional()
    .add_output("logits_grad", "shape of logits")
    .same_dtype_as("logits")
    .add_attr("loss_grad", float, "gradient of each loss")
    .required()
    .add_attr("epsilon", float, "lower bound of the probabilities")
    .default(0.0)
    .at_least(0.0)
    .add_attr("ignore_index", int, "class id of rows with loss 0 and gradient 0")
    .default(-(2**63))
    .add_attr("source", str, "the operator named in errors")
    .required()
    .build(infer_shape=_loss_shape, plan_only=True)
)
