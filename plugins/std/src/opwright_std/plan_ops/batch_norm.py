"""Fused batch normalization and activation.

``std.batch_norm_halves`` is the variant for 16-bit images and float32 parameters, as in mixed
precision, including the casts before and after the normalization.
"""

from __future__ import annotations

from collections.abc import Sequence

from opwright.op import InferContext, OpMaker, format_shape
from opwright_std.numerics.dtypes import FLOATS, HALVES

ACTIVATIONS = ("relu", "relu6")
"""Activations that can be fused: their output determines where their gradient is 0."""


def _check_channels(ctx: InferContext, *slots: str) -> tuple[int, ...]:
    """Check that these slots have one number per channel; return the shape of x."""
    shape = ctx.input("x").shape
    ctx.require(len(shape) >= 2, f"x must be [n, channels, ...], got {format_shape(shape)}")
    for slot in slots:
        ctx.require_shape(slot, shape[1:2])
    return shape


def _shape(ctx: InferContext) -> None:
    shape = _check_channels(ctx, "scale", "bias", "mean", "variance")
    ctx.require_shape("residual", shape)
    ctx.set_output("out", shape)
    for slot in ("mean_out", "variance_out", "saved_mean", "saved_inv_std"):
        ctx.set_output(slot, shape[1:2])


def _grad_shape(ctx: InferContext) -> None:
    shape = _check_channels(ctx, "scale", "bias", "saved_mean", "saved_inv_std")
    ctx.require_shape("out", shape)
    ctx.require_shape("out_grad", shape)
    ctx.require(
        ctx.has_input("bias") + ctx.has_input("out") == bool(ctx.attr("activation")),
        "exactly one of bias and out must be given with an activation, and none without, got both "
        "or none",
    )
    ctx.require(
        ctx.has_input("out") == ctx.has_output("residual_grad"),
        "residual_grad must be requested exactly if out is given",
    )
    for slot, made in (
        ("x_grad", shape),
        ("residual_grad", shape),
        ("scale_grad", shape[1:2]),
        ("bias_grad", shape[1:2]),
    ):
        if ctx.has_output(slot):
            ctx.set_output(slot, made)


def _add_images(maker: OpMaker, dtypes: Sequence[str], *slots: str) -> None:
    """Add x, and slots with one number per channel, in the dtype of x or float32."""
    maker.add_input("x", "float [n, channels, ...]").dtypes(*dtypes)
    for slot in slots:
        maker.add_input(slot, "[channels]")
        _give_dtype(maker, dtypes)


def _give_dtype(maker: OpMaker, dtypes: Sequence[str]) -> OpMaker:
    """Declare the dtype of the last slot, a parameter for images of these dtypes."""
    return maker.dtypes("float32") if dtypes is HALVES else maker.same_dtype_as("x")


def _maker(op_type: str, dtypes: Sequence[str], comment: str) -> OpMaker:
    maker = OpMaker(op_type).add_comment(comment)
    _add_images(maker, dtypes, "scale", "bias", "mean", "variance")
    maker.add_input("residual", "shape of x").same_dtype_as("x").as_optional()
    maker.add_output("out", "shape of x").same_dtype_as("x")
    for slot in ("mean", "variance"):
        maker.add_output(f"{slot}_out", f"the new {slot}").same_dtype_as(slot).aliases(slot)
    for slot in ("saved_mean", "saved_inv_std"):
        maker.add_output(slot, "[channels], as in batch_norm").same_dtype_as("mean")
    maker.add_attr("momentum", float, "weight of the old running statistics").required()
    maker.add_attr("epsilon", float, "added to the variance").required()
    maker.add_attr("training", bool, "whether the statistics are those of the batch").required()
    maker.add_attr("unbiased", bool, "as in batch_norm").default(False)
    maker.add_attr("activation", str, "the activation, none for an empty name").required()
    return maker.one_of("", *ACTIVATIONS)


BATCH_NORM_ACTIVATION = _maker(
    "std.batch_norm_activation",
    FLOATS,
    "fused batch_norm, residual and activation, out = activation(batch_norm(x) + residual).",
).build(infer_shape=_shape, plan_only=True)

BATCH_NORM_HALVES = _maker(
    "std.batch_norm_halves",
    HALVES,
    "fused batch_norm of 16-bit images in float32, rounded to their dtype, residual and "
    "activation, out = activation(batch_norm(x) + residual).",
).build(infer_shape=_shape, plan_only=True)


def _grad_maker(op_type: str, dtypes: Sequence[str]) -> OpMaker:
    maker = OpMaker(op_type).add_comment(
        "Gradients of activation(batch_norm(x) + residual). The activation's input is recomputed "
        "from x and bias; or its output is read from out, if given."
    )
    _add_images(maker, dtypes, "scale", "saved_mean", "saved_inv_std")
    maker.add_input("bias", "[channels], without a residual").same_dtype_as("scale").as_optional()
    maker.add_input("out", "shape of x, output of the activation").same_dtype_as("x").as_optional()
    maker.add_input("out_grad", "its gradient, shape of x").same_dtype_as("x")
    for slot, comment, like in (
        ("x_grad", "shape of x", "x"),
        ("scale_grad", "[channels]", "scale"),
        ("bias_grad", "[channels]", "scale"),
        (
            "residual_grad",
            "shape of x, gradient of the activation's input; only with out",
            "x",
        ),
    ):
        maker.add_output(slot, comment).same_dtype_as(like).as_optional()
    maker.add_attr("training", bool, "whether the statistics were those of the batch").required()
    maker.add_attr("activation", str, "the activation, none for an empty name").required()
    return maker.one_of("", *ACTIVATIONS)


BATCH_NORM_ACTIVATION_GRAD = _grad_maker("std.batch_norm_activation_grad", FLOATS).build(
    infer_shape=_grad_shape, plan_only=True
)

BATCH_NORM_HALVES_GRAD = _grad_maker("std.batch_norm_halves_grad", HALVES).build(
    infer_shape=_grad_shape, plan_only=True
)
