"""Uniform and normal random tensors, bitwise identical on every device; see `philox.py`."""

from __future__ import annotations

from collections.abc import Callable

from opwright.op import InferContext, OpMaker, no_gradient
from opwright_std.numerics.box_muller import random_normal, random_truncated_normal
from opwright_std.numerics.dtypes import FLOATS, Array
from opwright_std.numerics.philox import random_uniform

_NO_GRADIENT = no_gradient("random numbers depend on no float input")


def add_seed(maker: OpMaker) -> OpMaker:
    """Add the common parts of random operators: the attributes seed and stream, the input step."""
    return (
        maker.add_input("step", "int64 [1], index of the run; absent: 0")
        .dtypes("int64")
        .as_optional()
        .add_attr("seed", int, "64-bit key; 0 takes the program's seed")
        .default(0)
        .add_attr("stream", int, "distinguishes random operators of one program, set when appended")
        .between(0, 2**32 - 1)
    )


def _random(op_type: str, comment: str) -> OpMaker:
    return add_seed(
        OpMaker(op_type)
        .add_comment(comment)
        .add_output("out", "float tensor of the given shape and dtype")
        .same_dtype_as("dtype")
        .add_attr("shape", list[int], "shape of out")
        .as_shape_operand()
        .required()
        .at_least(0)
        .add_attr("dtype", str, "dtype of out")
        .default("float32")
        .as_dtype(*FLOATS)
        .dispatch_on("dtype")
    )


def _given_shape(ctx: InferContext) -> None:
    """The output has the given shape."""
    ctx.set_output("out", ctx.attr("shape"))


def _uniform_shape(ctx: InferContext) -> None:
    """The output has the given shape; min must not be above max."""
    low, high = ctx.attr("min"), ctx.attr("max")
    ctx.require(low <= high, f"min must not be above max, got min={low}, max={high}")
    _given_shape(ctx)


def uniform(
    step: Array | None,
    out: Array,
    *,
    min: float,
    max: float,
    seed: int,
    stream: int | None = None,
    **_: object,
) -> None:
    numbers = random_uniform(out.size, out.dtype, seed, stream, step)
    numbers *= numbers.dtype.type(max - min)
    numbers += numbers.dtype.type(min)
    out[...] = numbers.reshape(out.shape)


UNIFORM = (
    _random(
        "uniform",
        "Uniform random numbers, out = u * (max - min) + min with u in [0, 1) from Philox 4x32-10 "
        "(Salmon et al., 2011), in float32 for the 16-bit types. Product and sum are each "
        "rounded, so max itself can occur.",
    )
    .add_attr("min", float, "lower end")
    .default(-1.0)
    .add_attr("max", float, "upper end")
    .default(1.0)
    .build(infer_shape=_uniform_shape, gradient=_NO_GRADIENT, random=True)
)


def _normal_kernel(draw: Callable[..., Array]) -> Callable[..., None]:
    """Return the kernel that scales and shifts the standard normal numbers of `draw`."""

    def kernel(
        step: Array | None,
        out: Array,
        *,
        mean: float,
        std: float,
        seed: int,
        stream: int | None = None,
        **_: object,
    ) -> None:
        numbers = draw(out.size, out.dtype, seed, stream, step)
        numbers *= numbers.dtype.type(std)
        numbers += numbers.dtype.type(mean)
        out[...] = numbers.reshape(out.shape)

    return kernel


normal = _normal_kernel(random_normal)
truncated_normal = _normal_kernel(random_truncated_normal)

NORMAL = (
    _random(
        "normal",
        "Normal random numbers, out = z * std + mean with standard normal z from Philox 4x32-10 "
        "(Salmon et al., 2011) by Box and Muller (1958), in float32 for the 16-bit types; the "
        "product and the sum are each rounded.",
    )
    .add_attr("mean", float, "center")
    .default(0.0)
    .add_attr("std", float, "standard deviation")
    .default(1.0)
    .at_least(0.0)
    .build(infer_shape=_given_shape, gradient=_NO_GRADIENT, random=True)
)


TRUNCATED_NORMAL = (
    _random(
        "truncated_normal",
        "Normal random numbers within two standard deviations of the mean, out = z * std + mean: "
        "as normal, with z outside of [-2, 2] redrawn.",
    )
    .add_attr("mean", float, "center")
    .default(0.0)
    .add_attr("std", float, "standard deviation before truncation")
    .default(1.0)
    .at_least(0.0)
    .build(infer_shape=_given_shape, gradient=_NO_GRADIENT, random=True)
)
