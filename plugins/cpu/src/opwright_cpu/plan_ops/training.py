"""What the training step of fully connected layers is fused into."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape, shapes_match

FLOATS = ("float32", "float64")


def _need_matrix(ctx: InferContext, slot: str) -> tuple[int, int]:
    shape = ctx.input(slot).shape
    ctx.require(len(shape) == 2, f"{slot} must have 2 dimensions, got {format_shape(shape)}")
    return shape[0], shape[1]


def _input_grad_shape(ctx: InferContext) -> None:
    rows, outputs = _need_matrix(ctx, "grad")
    inputs, _ = _need_matrix(ctx, "weight")
    ctx.require_shape("weight", (inputs, outputs))
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
    .add_input("weight", "[inputs, outputs]")
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
    .build(infer_shape=_input_grad_shape, plan_only=True)
)


def _sgd_shape(ctx: InferContext) -> None:
    inputs, outputs = _need_matrix(ctx, "param")
    rows, _ = _need_matrix(ctx, "x")
    ctx.require_shape("x", (rows, inputs))
    ctx.require_shape("grad", (rows, outputs))
    ctx.require_shape("learning_rate", (1,))
    ctx.require_shape("bias", (outputs,))
    ctx.set_output("param_out", (inputs, outputs))
    ctx.set_output("bias_out", (outputs,))


FC_SGD = (
    OpMaker("cpu.fc_sgd")
    .add_comment(
        "Gradient descent of a fully connected layer, param_out = param - learning_rate * (x^T @ "
        "grad + weight_decay * param), and the same for bias with the sums of the columns of grad: "
        "the gradients are added as they are made, and never stored."
    )
    .add_input("param", "float [inputs, outputs]")
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
    .build(infer_shape=_sgd_shape, plan_only=True)
)


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
    OpMaker("cpu.softmax_cross_entropy")
    .add_comment(
        "Softmax along the last axis, cross entropy against class ids, and the gradient of the "
        "scores where each loss has the same gradient: logits_grad = (softmax - one_hot) * "
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
    .add_attr("epsilon", float, "least probability whose logarithm is taken")
    .default(0.0)
    .at_least(0.0)
    .add_attr("ignore_index", int, "class id whose rows have loss 0 and gradient 0")
    .default(-(2**63))
    .add_attr("source", str, "the operator that errors name")
    .required()
    .build(infer_shape=_loss_shape, plan_only=True)
)
