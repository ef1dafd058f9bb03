"""Fused gradients of an activation and a bias."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape
from opwright_cuda.dtypes import FLOATS


def _shape(ctx: InferContext) -> None:
    shape = ctx.input("out").shape
    ctx.require(len(shape) >= 2, f"out must have at least 2 dimensions, got {format_shape(shape)}")
    ctx.require_shape("out_grad", shape)
    ctx.set_output("x_grad", shape)
    ctx.set_output("bias_grad", shape[-1:])


BIAS_ACTIVATION_GRAD = (
    OpMaker("cuda.bias_activation_grad")
    .add_comment(
        "Gradients of an activation's input, and of the bias added before it: x_grad = "
        "activation'(x) * out_grad, bias_grad its sum over all rows."
    )
    .add_input("out", "float [..., columns], output of the activation")
    .dtypes(*FLOATS)
    .add_input("out_grad", "its gradient, shape of out")
    .same_dtype_as("out")
    .add_output("x_grad", "shape of out")
    .same_dtype_as("out")
    .add_output("bias_grad", "[columns]")
    .same_dtype_as("out")
    .add_attr("activation", str, "what was applied")
    .one_of("relu", "sigmoid", "tanh")
    .required()
    .build(infer_shape=_shape, plan_only=True)
)
