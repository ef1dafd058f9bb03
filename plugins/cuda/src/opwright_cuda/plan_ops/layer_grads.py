"""Fused gradients of a small layer."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape
from opwright_cuda.dtypes import FLOATS


def _shape(ctx: InferContext) -> None:
    x, grad = ctx.input("x").shape, ctx.input("out_grad").shape
    ctx.require(
        len(x) == 2 and len(grad) == 2 and x[0] == grad[0],
        f"x and out_grad must have two dimensions and as many rows, got {format_shape(x)} and "
        f"{format_shape(grad)}",
    )
    weight = x[1], grad[1]
    if ctx.has_input("weight"):
        ctx.require_shape("weight", weight)
    ctx.require(ctx.has_input("weight") or not ctx.has_output("x_grad"), "x_grad needs weight")
    ctx.set_output("weight_grad", weight)
    ctx.set_output("bias_grad", weight[1:])
    ctx.set_output("x_grad", x)


LAYER_GRADS = (
    OpMaker("cuda.layer_grads")
    .add_comment(
        "Gradients of a layer of x, weight and a bias: weight_grad = transpose(x) out_grad, "
        "bias_grad the sums of out_grad over rows, x_grad = activation'(x) * "
        "(out_grad transpose(weight)), with the activation that wrote x."
    )
    .add_input("x", "float [rows, inputs]")
    .dtypes(*FLOATS)
    .add_input("weight", "[inputs, outputs], if x_grad is requested")
    .same_dtype_as("x")
    .as_optional()
    .add_input("out_grad", "[rows, outputs]")
    .same_dtype_as("x")
    .add_output("weight_grad", "[inputs, outputs]")
    .same_dtype_as("x")
    .add_output("bias_grad", "[outputs]")
    .same_dtype_as("x")
    .as_optional()
    .add_output("x_grad", "[rows, inputs]")
    .same_dtype_as("x")
    .as_optional()
    .add_attr("activation", str, "the activation that wrote x, empty for none")
    .one_of("", "relu", "sigmoid", "tanh")
    .default("")
    .build(infer_shape=_shape, plan_only=True)
)
