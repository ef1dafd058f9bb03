"""Elementwise kernels, with one work-item for each output element."""

from __future__ import annotations

import numpy as np

from opwright.kernel import PrepareContext
from opwright.op import Shape, numel
from opwright_opencl.shapes import MAX_DIMENSIONS, merge_broadcast, vector
from opwright_opencl.work import Kernel, Work, count_of, first_output

MAX_COUNT = 0xFFFFFFFF
"""The maximum number of elements that ``place_of`` in ``formulas.cl`` can index."""


def _unary(name: str) -> Kernel:
    def write(ctx: PrepareContext, work: Work) -> None:
        count = count_of(first_output(ctx))
        work.launch_each(name, count, work.slot("x"), work.slot("out"))

    return Kernel(write)


def _activation_grad(name: str) -> Kernel:
    def write(ctx: PrepareContext, work: Work) -> None:
        slots = map(work.slot, ("out", "out_grad", "x_grad"))
        work.launch_each(name, count_of(first_output(ctx)), *slots)

    return Kernel(write)


def _binary(name: str) -> Kernel:
    def write(ctx: PrepareContext, work: Work) -> None:
        x, y, out = ctx.inputs["x"][0], ctx.inputs["y"][0], ctx.outputs["out"][0]
        slots = map(work.slot, ("x", "y", "out"))
        if count_of(x) == count_of(y) == count_of(out) or not count_of(out):
            work.launch_each(name, count_of(out), *slots)
            return
        shape, strides = _merged(ctx, out.shape, x.shape, y.shape)
        work.launch_each(f"{name}_broadcast", count_of(out), *slots, shape, *strides)

    return Kernel(write)


def _merged(ctx: PrepareContext, shape: Shape, *operands: Shape) -> tuple[object, list[object]]:
    merged = merge_broadcast(shape, *operands)
    if merged is None:
        ctx.refuse(f"more than {MAX_DIMENSIONS} dimensions of {list(shape)} broadcast differently")
    if numel(shape) > MAX_COUNT:
        ctx.refuse(f"more than {MAX_COUNT} elements that broadcast, {list(shape)}")
    return vector(merged[0], np.uint32), [vector(strides, np.uint32) for strides in merged[1]]


NEGATIVE, RELU, SIGMOID, TANH = map(_unary, ("negative", "relu", "sigmoid", "tanh_"))
RELU_GRAD, SIGMOID_GRAD, TANH_GRAD = map(
    _activation_grad, ("relu_grad", "sigmoid_grad", "tanh_grad")
)
ADD, SUBTRACT, MULTIPLY, DIVIDE = map(_binary, ("add", "subtract", "multiply", "divide"))


def _scale(ctx: PrepareContext, work: Work) -> None:
    numbers = [work.number(ctx.attrs[name]) for name in ("scale", "bias")]
    count = count_of(first_output(ctx))
    work.launch_each("scale", count, work.slot("x"), work.slot("out"), *numbers)


SCALE = Kernel(_scale)


def _fill(ctx: PrepareContext, work: Work) -> None:
    value = work.number(ctx.attrs["value"])
    work.launch_each("fill", count_of(first_output(ctx)), work.slot("out"), value)


FILL = FILL_LIKE = Kernel(_fill)


def _spread(
    ctx: PrepareContext, work: Work, slots: tuple[str, str], small: Shape, divisor: float
) -> None:
    """Broadcast an array, viewed as `small`, to the first output's shape; divide by `divisor`."""
    out = first_output(ctx)
    if not count_of(out):
        return
    shape, strides = _merged(ctx, out.shape, small)
    arguments = [*map(work.slot, slots), shape, *strides, work.number(divisor)]
    work.launch_each("spread", count_of(out), *arguments)


def _reduction_grad(is_mean: bool) -> Kernel:
    def write(ctx: PrepareContext, work: Work) -> None:
        x, out = ctx.outputs["x_grad"][0], ctx.inputs["out_grad"][0]
        axes = ctx.attrs["axis"] or range(len(x.shape))
        summed = {axis % len(x.shape) for axis in axes if x.shape}
        kept = tuple(1 if axis in summed else dim for axis, dim in enumerate(x.shape))
        divisor = count_of(x) / count_of(out) if is_mean and count_of(out) else 1.0
        _spread(ctx, work, ("out_grad", "x_grad"), kept, divisor)

    return Kernel(write)


SUM_GRAD, MEAN_GRAD = _reduction_grad(False), _reduction_grad(True)


def _expand_like(ctx: PrepareContext, work: Work) -> None:
    _spread(ctx, work, ("x", "out"), ctx.inputs["x"][0].shape, 1.0)


EXPAND_LIKE = Kernel(_expand_like)
