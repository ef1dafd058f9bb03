"""Operators that fuse parts of the training step of fully connected layers."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape

FLOATS = ("float32", "float64")


def _need_matrix(ctx: InferContext, slot: str) -> tuple[int, int]:
    shape = ctx.input(slot).shape
    ctx.require(len(shape) == 2, f"{slot} must have 2 dimensions, got {format_shape(shape)}")
    return shape[0], shape[1]


def _input_grad_shape(ctx: InferContext) -> None:
    rows, outputs = _need_matrix(ctx, "grad")
    turned = ctx.attr("transpose_weight")
    inputs = _need_matrix(ctx, "weight")[1 if turned else 0]
    ctx.require_shape("weight", (outputs, inputs) if turned else (inputs, outputs))
    ctx.require_shape("activated", (rows, inputs))
    ctx.set_output("x_grad", (rows, inputs))
    ctx.set_output("bias_grad", (inputs,))


FC_INPUT_GRAD = (
    OpMaker("cpu.fc_input_grad")
    .add_comment(
        "Gradient that a fully connected layer hands to the one before it: x_grad = (grad @ "
        "weight^T) * activation'(activated), and bias_grad, the sums of its columns."
    )
    .add_input("grad", "float [rows, outputs]")
    .dtypes(*FLOATS)
    .add_input("weight", "[inputs, outputs], with transpose_weight [outputs, inputs]")
    .same_dtype_as("grad")
    .add_input("activated", "[rows, inputs], what the activation returned; absent without one")
    .same_dtype_as("grad")
    .as_optional()
    .add_output("x_grad", "[rows, inputs]")
    .same_dtype_as("grad")
    .add_output("bias_grad", "[inputs]")
    .same_dtype_as("grad")
    .as_optional()
    .add_attr("activation", str, "of the layer before, none for an empty name")
    .default("")
    .one_of("", "relu", "sigmoid", "tanh")
    .add_attr("transpose_weight", bool, "whether weight is [outputs, inputs]")
    .default(False)
    .build(infer_shape=_input_grad_shape, plan_only=True)
)


def _sgd_shape(ctx: InferContext) -> None:
    param = _need_matrix(ctx, "param")
    inputs, outputs = param[::-1] if ctx.attr("transpose_weight") else param
    rows, _ = _need_matrix(ctx, "x")
    ctx.require_shape("x", (rows, inputs))
    ctx.require_shape("grad", (rows, outputs))
    ctx.require_shape("learning_rate", (1,))
    ctx.require_shape("bias", (outputs,))
    ctx.set_output("param_out", param)
    ctx.set_output("bias_out", (outputs,))


FC_SGD = (
    OpMaker("cpu.fc_sgd")
    .add_comment(
        "Gradient descent of a fully connected layer, param_out = param - learning_rate * (x^T @ "
        "grad + weight_decay * param), and the same for bias with the sums of the columns of grad: "
        "the gradients are added as they are made, and never stored."
    )
    .add_input("param", "float [inputs, outputs], with transpose_weight [outputs, inputs]")
    .dtypes(*FLOATS)
    .add_input("x", "[rows, inputs]")
    .same_dtype_as("param")
    .add_input("grad", "[rows, outputs]")
    .same_dtype_as("param")
    .add_input("learning_rate", "[1], size of the step")
    .dtypes(*FLOATS)
    .add_input("bias", "[outputs]")
    .same_dtype_as("param")
    .as_optional()
    .add_output("param_out", "the next param")
    .same_dtype_as("param")
    .aliases("param")
    .add_output("bias_out", "the next bias")
    .same_dtype_as("param")
    .as_optional()
    .aliases("bias")
    .add_attr("weight_decay", float, "factor of a parameter in its own gradient")
    .default(0.0)
    .at_least(0.0)
    .add_attr("transpose_weight", bool, "whether param is [outputs, inputs]")
    .default(False)
    .build(infer_shape=_sgd_shape, plan_only=True)
)
