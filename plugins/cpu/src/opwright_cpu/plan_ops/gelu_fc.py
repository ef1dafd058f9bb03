"""The operators that fuse gelu with the fully connected layer after it, and their gradients."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, format_shape


def _need_layer(ctx: InferContext) -> tuple[tuple[int, ...], int, int]:
    """Return the leading axes of ``x``, and the numbers of inputs and outputs."""
    x, weight = ctx.input("x").shape, ctx.input("weight").shape
    sizes = weight[::-1] if ctx.attr("transpose_weight") else weight
    fits = len(weight) == 2 and len(x) >= 2 and x[-1] == sizes[0]
    ctx.require(
        fits,
        "x must be [..., inputs] and weight [inputs, outputs], or transposed, got "
        f"{format_shape(x)} and {format_shape(weight)}",
    )
    return tuple(x[:-1]), sizes[0], sizes[1]


def _layer_shape(ctx: InferContext) -> None:
    leading, _, outputs = _need_layer(ctx)
    ctx.require_shape("bias", (outputs,))
    ctx.set_output("out", (*leading, outputs))


def _gradient_shape(ctx: InferContext) -> None:
    leading, inputs, outputs = _need_layer(ctx)
    ctx.require_shape("out_grad", (*leading, outputs))
    ctx.set_output("x_grad", (*leading, inputs))
    ctx.set_output("weight_grad", ctx.input("weight").shape)
    ctx.set_output("bias_grad", (inputs,))


def _with_attributes(maker: OpMaker) -> OpMaker:
    maker.add_attr("approximate", str, "as gelu has it").default("none").one_of("none", "tanh")
    maker.add_attr("transpose_weight", bool, "whether weight is [outputs, inputs]").default(False)
    return maker


GELU_FC = _with_attributes(
    OpMaker("cpu.gelu_fc")
    .add_comment("Fully connected layer behind gelu: out = gelu(x) @ weight + bias.")
    .add_input("x", "float [..., inputs]")
    .dtypes("float32")
    .add_input("weight", "[inputs, outputs]")
    .same_dtype_as("x")
    .add_input("bias", "[outputs]")
    .same_dtype_as("x")
    .as_optional()
    .add_output("out", "[..., outputs]")
    .same_dtype_as("x")
).build(infer_shape=_layer_shape, plan_only=True)

GELU_FC_GRAD = _with_attributes(
    OpMaker("cpu.gelu_fc_grad")
    .add_comment(
        "Gradients of a fully connected layer behind gelu: x_grad = (out_grad @ weight^T) * "
        "gelu'(x), weight_grad = gelu(x)^T @ out_grad, and bias_grad, the sums of the columns of "
        "x_grad."
    )
    .add_input("x", "float [..., inputs], what gelu was given")
    .dtypes("float32")
    .add_input("weight", "[inputs, outputs]")
    .same_dtype_as("x")
    .add_input("out_grad", "[..., outputs]")
    .same_dtype_as("x")
    .add_output("x_grad", "[..., inputs]")
    .same_dtype_as("x")
    .add_output("weight_grad", "shape of weight")
    .same_dtype_as("x")
    .add_output("bias_grad", "[inputs]")
    .same_dtype_as("x")
    .as_optional()
).build(infer_shape=_gradient_shape, plan_only=True)
