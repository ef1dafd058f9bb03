"""Batch normalization: scale each channel to mean 0 and variance 1; track running statistics."""

from __future__ import annotations

import numpy as np

from opwright.op import InferContext, OpMaker, format_shape, grad_op, merge_dims, numel
from opwright_std.compositions import normalizations as normalizations_gradients
from opwright_std.numerics import squares
from opwright_std.numerics.dtypes import FLOATS, Array

_STATISTICS = ("mean", "variance")


def _layout(x: Array) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """Return the reduced axes, the aligned shape of a channel vector, and the count per channel."""
    axes = (0, *range(2, x.ndim))
    channels = x.shape[1]
    lined_up = (1, channels, *(1 for _ in x.shape[2:]))
    return axes, lined_up, x.size // channels if channels else 0


def batch_norm(
    x: Array,
    scale: Array,
    bias: Array,
    mean: Array,
    variance: Array,
    out: Array,
    mean_out: Array,
    variance_out: Array,
    saved_mean: Array,
    saved_inv_std: Array,
    *,
    momentum: float,
    epsilon: float,
    training: bool,
    unbiased: bool = False,
) -> None:
    axes, lined_up, count = _layout(x)
    use_batch = training and count > 0  # an empty batch has no statistics
    np.copyto(saved_mean, _mean(x, axes, out) if use_batch else mean)
    np.subtract(x, saved_mean.reshape(lined_up), out=out)
    # A second pass over the deviations, since E[x^2] - E[x]^2 would cancel.
    spread = squares.mean_square(out, axes).reshape(-1) if use_batch else variance
    size = np.sqrt(spread + epsilon)
    if use_batch:
        size = squares.deviation(out, axes, epsilon, spread.reshape(lined_up)).reshape(-1)
    np.reciprocal(size, out=saved_inv_std)
    out *= (saved_inv_std * scale).reshape(lined_up)
    out += bias.reshape(lined_up)
    if use_batch:
        _move(mean, momentum, saved_mean, mean_out)
        # The shape rule rejects an unbiased variance of one element.
        correction = x.dtype.type(count / (count - 1) if unbiased else 1)
        _move(variance, momentum, spread * correction, variance_out)
    else:
        np.copyto(mean_out, mean)
        np.copyto(variance_out, variance)


def _mean(x: Array, axes: tuple[int, ...], work: Array) -> Array:
    """Return the mean of each channel; `work` is overwritten.

    The mean is the first element plus the mean difference from it, so it is exact if all elements
    are equal. Otherwise, a small error would dominate deviations near 0.
    """
    first = x[(slice(1), slice(None), *(slice(1) for _ in axes[1:]))]
    first = np.where(np.isfinite(first), first, x.dtype.type(0))
    np.subtract(x, first, out=work)
    mean: Array = first.reshape(-1) + np.mean(work, axis=axes)
    return mean


def _move(running: Array, share: float, batch: Array, out: Array) -> None:
    """Write share * running + (1 - share) * batch; `out` may be `running`."""
    np.multiply(running, share, out=out)
    out += (1 - share) * batch


def batch_norm_grad(
    x: Array,
    scale: Array,
    saved_mean: Array,
    saved_inv_std: Array,
    out_grad: Array,
    x_grad: Array | None,
    scale_grad: Array | None,
    bias_grad: Array | None,
    *,
    training: bool,
    **_: object,
) -> None:
    axes, lined_up, count = _layout(x)
    normal = x - saved_mean.reshape(lined_up)
    normal *= saved_inv_std.reshape(lined_up)
    sum_grad = np.sum(out_grad, axis=axes)
    sum_normal = np.sum(out_grad * normal, axis=axes)
    for wanted, found in ((bias_grad, sum_grad), (scale_grad, sum_normal)):
        if wanted is not None:
            np.copyto(wanted, found)
    if x_grad is None:
        return
    np.copyto(x_grad, out_grad)
    if training and count > 0:
        # Batch statistics depend on x: subtract the mean of x_grad and its projection on normal.
        normal *= (sum_normal / count).reshape(lined_up)
        x_grad -= normal
        x_grad -= (sum_grad / count).reshape(lined_up)
    x_grad *= (saved_inv_std * scale).reshape(lined_up)


def _batch_norm_shape(ctx: InferContext) -> None:
    """The output has the shape of x; the statistics are [channels]."""
    shape = ctx.input("x").shape
    ctx.require(len(shape) >= 2, f"x must be [n, channels, ...], got {format_shape(shape)}")
    if ctx.attr("training") and ctx.attr("unbiased") and numel((shape[0], *shape[2:])) == 1:
        ctx.fail(
            "unbiased needs more than 1 element for each channel in training, got x "
            f"{format_shape(shape)}; use a larger batch, or unbiased=False"
        )
    channels = shape[1]
    for slot in ("scale", "bias", *_STATISTICS):
        ctx.require_shape(slot, (channels,))
        channels = merge_dims(channels, ctx.input(slot).shape[0])
    ctx.set_output("out", (shape[0], channels, *shape[2:]))
    for slot in ("mean_out", "variance_out", "saved_mean", "saved_inv_std"):
        ctx.set_output(slot, (channels,))


def _batch_norm_maker() -> OpMaker:
    maker = OpMaker("batch_norm").add_comment(
        "Batch normalization, out = (x - m) / sqrt(v + epsilon) * scale + bias for each "
        "channel. In training m and v are mean and variance (of all elements) of this batch, "
        "and the running statistics are updated: mean_out = momentum * mean + (1 - momentum) "
        "* m, and variance_out likewise with v, or with v * n / (n - 1) for n elements of a "
        "channel if `unbiased` is true, as in PyTorch. Otherwise m = mean, v = variance, and "
        "both stay unchanged. The running statistics are state without a gradient. Ioffe and "
        "Szegedy, 2015."
    )
    maker.add_input("x", "float [n, channels, ...]").dtypes(*FLOATS)
    maker.add_input("scale", "[channels]").same_dtype_as("x")
    maker.add_input("bias", "[channels]").same_dtype_as("x")
    maker.add_input("mean", "[channels], running").same_dtype_as("x")
    maker.add_input("variance", "[channels], running").same_dtype_as("x")
    maker.add_output("out", "shape and dtype of x").same_dtype_as("x")
    for slot in _STATISTICS:
        maker.add_output(f"{slot}_out", f"the new {slot}, which replaces the old one")
        maker.same_dtype_as("x").aliases(slot)
    maker.add_output("saved_mean", "[channels], m").same_dtype_as("x").as_intermediate()
    maker.add_output("saved_inv_std", "[channels], 1 / sqrt(v + epsilon)")
    return maker.same_dtype_as("x").as_intermediate()


BATCH_NORM = (
    _batch_norm_maker()
    .add_attr("momentum", float, "weight of the old running statistics")
    .default(0.9)
    .between(0.0, 1.0)
    .add_attr("epsilon", float, "added to the variance")
    .default(1e-5)
    .at_least(0.0)
    .add_attr(
        "training", bool, "whether to use the statistics of the batch and update the running ones"
    )
    .default(False)
    .add_attr("unbiased", bool, "whether the running variance uses v * n / (n - 1)")
    .default(False)
    .as_added()
    .build(
        infer_shape=_batch_norm_shape,
        gradient=grad_op(
            "batch_norm_grad",
            needs=["x", "scale", "saved_mean", "saved_inv_std"],
            no_grad=_STATISTICS,
            body=normalizations_gradients.BATCH_NORM,
            unaffected_by=["unbiased"],  # it changes the running variance, which has no gradient
        ),
        unchanged=lambda attrs: not attrs["training"],
    )
)
