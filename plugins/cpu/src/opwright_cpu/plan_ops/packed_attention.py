"""Attention on queries, keys and values that are side by side in one array."""

from __future__ import annotations

from opwright.op import InferContext, OpMaker, broadcast_shapes, format_shape

FLOATS = ("float32", "float64")


def _need_heads(ctx: InferContext) -> tuple[int, int, int, int]:
    """Return the batch size, the time steps, the number of heads, and the head size."""
    shape, heads = ctx.input("qkv").shape, ctx.attr("heads")
    packed = len(shape) == 3 and shape[2] % (3 * heads) == 0
    apart = len(shape) == 5 and shape[2:4] == (3, heads)
    ctx.require(
        packed or apart,
        f"qkv must be [batch, time, 3 * heads * size] or [batch, time, 3, heads, size] with "
        f"{heads} heads, got {format_shape(shape)}",
    )
    if ctx.has_input("mask"):
        _check_mask(ctx, (shape[0], heads, shape[1], shape[1]))
    return shape[0], shape[1], heads, shape[4] if apart else shape[2] // (3 * heads)


def _check_mask(ctx: InferContext, scores: tuple[int, ...]) -> None:
    mask = ctx.input("mask")
    ctx.require(
        mask.dtype in ("bool", ctx.input("qkv").dtype),
        f"mask must be bool or have the dtype of qkv, got {mask.dtype}",
    )
    fits = len(mask.shape) <= 4 and broadcast_shapes(scores, mask.shape, ctx) == scores
    ctx.require(
        fits,
        f"mask must broadcast to the scores {format_shape(scores)}, got {format_shape(mask.shape)}",
    )


def _attention_shape(ctx: InferContext) -> None:
    batch, time, heads, size = _need_heads(ctx)
    ctx.set_output("out", (batch, time, heads, size))
    ctx.set_output("log_sum_exp", (batch, heads, time))


def _gradient_shape(ctx: InferContext) -> None:
    batch, time, heads, size = _need_heads(ctx)
    ctx.require_shape("out", (batch, time, heads, size))
    ctx.require_shape("out_grad", (batch, time, heads, size))
    ctx.require_shape("log_sum_exp", (batch, heads, time))
    ctx.set_output("qkv_grad", ctx.input("qkv").shape)


def _with_attributes(maker: OpMaker) -> OpMaker:
    """Add the attributes that the operator and its gradient share."""
    return (
        maker.add_attr("heads", int, "how many share the last axis")
        .default(1)
        .at_least(1)
        .add_attr("causal", bool, "whether a query sees only the keys up to its own position")
        .default(False)
        .add_attr("scale", float, "factor of the products; 1 / sqrt(size) where it is absent")
        .dispatch_on("qkv")
    )


PACKED_ATTENTION = _with_attributes(
    OpMaker("cpu.packed_attention")
    .add_comment(
        "scaled_dot_product_attention of queries, keys and values that lie side by side, each of "
        "them head by head: nothing is copied to be in the order that it wants."
    )
    .add_input("qkv", "float [batch, time, 3 * heads * size], or [batch, time, 3, heads, size]")
    .dtypes(*FLOATS)
    .add_input("mask", "bool or dtype of qkv, broadcasts to [batch, heads, time, time]")
    .dtypes("bool", *FLOATS)
    .as_optional()
    .add_output("out", "[batch, time, heads, size]")
    .same_dtype_as("qkv")
    .add_output("log_sum_exp", "[batch, heads, time]")
    .same_dtype_as("qkv")
).build(infer_shape=_attention_shape, plan_only=True)

PACKED_ATTENTION_GRAD = _with_attributes(
    OpMaker("cpu.packed_attention_grad")
    .add_comment("Gradient of cpu.packed_attention: of the queries, keys and values, side by side.")
    .add_input("qkv", "float [batch, time, 3 * heads * size], or [batch, time, 3, heads, size]")
    .dtypes(*FLOATS)
    .add_input("mask", "as the operator has it")
    .dtypes("bool", *FLOATS)
    .as_optional()
    .add_input("out", "[batch, time, heads, size], what the operator returned")
    .same_dtype_as("qkv")
    .add_input("log_sum_exp", "[batch, heads, time], too")
    .same_dtype_as("qkv")
    .add_input("out_grad", "[batch, time, heads, size]")
    .same_dtype_as("qkv")
    .add_output("qkv_grad", "shape of qkv")
    .same_dtype_as("qkv")
).build(infer_shape=_gradient_shape, plan_only=True)
